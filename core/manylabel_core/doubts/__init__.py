"""Doubtful labels: learnt examples whose truth about a label the rest of the stream contradicts.

`find_doubts` lists them. `held_out` computes probabilities by models that have not learnt an example, and `neighbours`
finds the most similar examples.
"""

from manylabel_core.doubts.search import LEAST_SEEN, Doubt, Doubts, find_doubts

__all__ = ["LEAST_SEEN", "Doubt", "Doubts", "find_doubts"]
