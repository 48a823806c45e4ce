"""Promise of precision: the choice of predicted labels to apply without review, and of examples that need no review.

A small model, shared by all labels, re-scores candidate labels. A plan chooses a threshold. An account of errors, which
is a token bucket, opens and closes the gate. The account bounds the number of wrong labels for any data.
"""

from manylabel_core.promise.promise import MAX_CANDIDATES, Decision, Promise, Target
from manylabel_core.promise.report import report

__all__ = ["MAX_CANDIDATES", "Decision", "Promise", "Target", "report"]
