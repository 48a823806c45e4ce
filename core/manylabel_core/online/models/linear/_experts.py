"""Two models of one stream, side by side: which of them predicts.

The first has steps that shrink, the second steady ones. The first is better where the stream stays as it is, the second
where it drifts or where an example tells little of many labels. The one that leads is that with the higher micro-F1
over the last examples, each of them weighing DECAY as much as the one after it.

The second has an intercept of its own size, `STEADY_CONSTANT`, so that half of a step on an example of unit norm goes
into it: it follows how frequent the labels are at the moment.
"""

from manylabel_core.compiled import compiled

STEADY_CONSTANT = 1.0
"""The constant feature of the second model, whatever that of the first is."""

DECAY = 0.998
"""Half of the weight is with the last 350 examples: few enough to follow a drift, enough not to hop by chance."""

HITS, SIZES = 0, 1
"""Columns of a record, which has a row for each of the two: labels predicted rightly, and labels predicted plus labels
that are relevant, of known ones."""

MOST_RECORDED = 2.0**31 / (1 - DECAY) * 2
"""More than a decayed sum of sizes can come to."""


@compiled
def constant_of(model, constant):  # type: ignore[no-untyped-def]
    """The constant feature of the first or second model, where `constant` is that of the first; 0 for none."""
    return constant if model == 0 or constant == 0.0 else STEADY_CONSTANT


@compiled
def leader(record):  # type: ignore[no-untyped-def]
    """Which of the two leads; 0 if they are level, or there is one only."""
    if len(record) == 0:
        return 0
    return int(record[1, HITS] * record[0, SIZES] > record[0, HITS] * record[1, SIZES])


@compiled
def note(record, scored, sides):  # type: ignore[no-untyped-def]
    """Take an example into the record.

    Parameters
    ----------
    record : array of shape (2, 2), float64, or (0, 2), where there is nothing to note
        It stays as it is where no label is known.
    scored : array of shape (>= 2, >= 1 + n_labels), float64
        The scores by which each of the two predicts in the last two rows, threshold first.
    sides : array of shape (1 + n_labels,), int8
        +1 relevant, -1 irrelevant, 0 unknown.
    """
    if len(record) == 0 or not sides.any():
        return
    for q in range(len(record)):
        own = scored[len(scored) - 2 + q]
        hits, size = 0, 0
        for column in range(1, len(sides)):
            predicted = (own[column] > own[0]) & (sides[column] != 0)
            relevant = sides[column] > 0
            hits += predicted & relevant
            size += int(predicted) + int(relevant)
        record[q, HITS] = DECAY * record[q, HITS] + hits
        record[q, SIZES] = DECAY * record[q, SIZES] + size
