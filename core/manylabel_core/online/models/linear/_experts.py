"""Two experts of one stream, side by side: which of them predicts.

The first has steps that shrink, the second steady ones. The first is better where the stream stays as it is, the second
where it drifts or where an example tells little of many labels. What predicts is the discounted leader: the expert with
the higher micro-F1 over the last examples, each of them weighing DECAY as much as the one after it.

The second has an intercept of its own size, `STEADY_CONSTANT`, so that half of a step on an example of unit norm goes
into it: it follows how frequent the labels are at the moment.

See Eq. (10) of docs/mathematics.md.
"""

from manylabel_core.compiled import compiled
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT

STEADY_CONSTANT = 1.0
"""The constant feature of the second expert, whatever that of the first is."""

DECAY = 0.998
"""Half of the weight is with the last 350 examples: few enough to follow a drift, enough not to hop by chance."""

HITS, SIZES = 0, 1
"""Columns of the counts, which have a row for each expert: labels predicted rightly, and labels predicted plus labels
that are relevant, of known ones."""

MAX_COUNTED = 2.0**31 / (1 - DECAY) * 2 * MAX_EXAMPLE_WEIGHT
"""More than a discounted sum of sizes can come to."""


@compiled
def constant_of(expert, constant):  # type: ignore[no-untyped-def]
    """Return the constant feature of an expert, where `constant` is that of the first; 0 for none."""
    return constant if expert == 0 or constant == 0.0 else STEADY_CONSTANT


@compiled
def leader(counts):  # type: ignore[no-untyped-def]
    """Return which of two experts leads; 0 if they are level, or there is one only."""
    if len(counts) == 0:
        return 0
    return int(counts[1, HITS] * counts[0, SIZES] > counts[0, HITS] * counts[1, SIZES])


@compiled
def count_hits(counts, scored, signs, weight):  # type: ignore[no-untyped-def]
    """Take an example into the counts.

    Parameters
    ----------
    counts : array of shape (2, 2), float64, or (0, 2), where there is one expert
        It stays as it is where no label is known.
    scored : array of shape (>= 2, >= 1 + n_labels), float64
        The scores by which each expert predicts in the last two rows, threshold first.
    signs : array of shape (1 + n_labels,), int8
        +1 relevant, -1 irrelevant, 0 unknown.
    weight : float
        As often as that the example counts.
    """
    if len(counts) == 0 or not signs.any():
        return
    for q in range(len(counts)):
        own = scored[len(scored) - 2 + q]
        hits, size = 0, 0
        for column in range(1, len(signs)):
            predicted = (own[column] > own[0]) & (signs[column] != 0)
            relevant = signs[column] > 0
            hits += predicted & relevant
            size += int(predicted) + int(relevant)
        counts[q, HITS] = DECAY * counts[q, HITS] + weight * hits
        counts[q, SIZES] = DECAY * counts[q, SIZES] + weight * size
