"""Promise of parity: which examples a cheap model answers, and which are deferred to an expensive teacher.

A small model estimates how likely the teacher agrees with the whole answer, and a plan chooses a threshold. An account
pays for the disagreements that random audits find, and determines the audit rate.
"""

from manylabel_core.parity.parity import Deferral, Parity, ParityTarget, agreement_of
from manylabel_core.parity.report import report

__all__ = ["Deferral", "Parity", "ParityTarget", "agreement_of", "report"]
