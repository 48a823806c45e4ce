"""Promise of parity: which examples a cheap model answers, and which are deferred to an expensive teacher.

A small model of the whole answer says how likely the teacher agrees, a plan chooses a threshold, and an account pays
for the disagreements that random audits find. The audit rate follows from the account.
"""

from manylabel_core.parity.parity import Deferral, Parity, ParityTarget, agreement_of
from manylabel_core.parity.report import report

__all__ = ["Deferral", "Parity", "ParityTarget", "agreement_of", "report"]
