"""Compiled passes of `prequential`: outcomes of examples, summed from the start and over a sliding window.

`prequential.Prequential` owns the arrays they share and update in place:

counts  int64 (2, 2, capacity, 3)  true positives, false positives and false negatives of each label: from the
                                   start (`ALL`) and in the window (`RECENT`)
totals  int64 (2, 16)              counters from the start, the start and length of the two rings, the length of `codes`
                                   with the example that was tried last, and the rows of bins: had and needed
sums    float64 (2, 16)            from the start, one term per example: see `PRECISION` and those after it
ring    int64 (2, capacity, 10)    outcome of each example in the window: see `TP` and those after it
groups  int64 (4, 3)               counts from the start, of the predictions alone: by how often each label had been
                                   relevant before (see `GROUP_BOUNDS`)
codes   2 x int32 (capacity,)      a ring of `4 * label + outcome` for each label predicted or true, in the order of the
                                   examples, so that the oldest has the first TP + FP + FN of them; -n means that
                                   the n labels after the one before it have its outcome
seen    int64 (capacity, 5)        of each label: the examples with partial truth that include it, the number of the
                                   first and of the last example in which it was relevant, 0 for none; by rank, the
                                   labels in the order of decreasing frequency; and 1 + the label's row of `label_bins`
bins    float64 (20, 4)            from the start, by the probability of a label: see `NUMBER` and those after it
label_bins  float64 (rows, 20, 4)  the same of each label once its relevant examples weigh `LEAST_RELEVANT`: a row takes
                                   more memory than all the rest, and says nothing of a rare label

Two fields of a row have the true labels among the best. `BEST` has a bit for each of the ten best that is true, and the
number of true ones among the hundred best from bit `PLACES` on. `GAIN` is the sum of the `DISCOUNTS` of those among the
hundred best.

Counts are weighted by the weights of examples, in units of 1 / UNIT: whole numbers can be subtracted exactly. Numbers
of examples (`EXAMPLES`, `GIVEN`, `FIRST`, `LAST`) are not weighted. All arrays except `seen`, `bins` and `groups` have
a part for the predictions (`MODEL`) and one for the labels frequent so far (`BASELINE`).

Sums are taken in the order of the examples, one number at a time, so no result depends on how examples were grouped
into calls or on how large the arrays are.
"""

from decimal import Context, Decimal

import numpy as np

from manylabel_core._ascending import sort
from manylabel_core.compiled import compiled

TP, FP, FN, KNOWN, MISRANKED, PAIRS, ONE_ERROR, BEST, GAIN, WEIGHT, N_FIELDS = range(11)
ALL, RECENT = 0, 1
MODEL, BASELINE = 0, 1
EXAMPLES, ONE_ERRORS, EXACT, WEIGHED, RANKED, COMPLETE, GIVEN, LABELS = range(8)
OLDEST, LENGTH, FIRST_CODE, N_CODES, NEEDED, ROWS, ROWS_NEEDED, N_TOTALS = range(8, 16)
PRECISION, RECALL, HAMMING, RANKING, PRECISION_AT, F1_AT, NDCG_AT, N_SUMS = 0, 1, 2, 3, 4, 8, 12, 16
PARTIAL, FIRST, LAST, ORDER, ROW, N_SEEN = range(6)
NUMBER, TRUE, PROBABILITY, SQUARE, N_BIN_SUMS = range(5)
N_BINS = 20
"""Bins of probabilities, of equal width; the last one includes 1."""

DEPTHS = (1, 5, 10, 100)
"""`measures.DEPTHS`; a compiled constant must be in the file of its functions, see `compiled.discard_stale`."""
PLACES = 10
"""Places in the ranking that have a separate bit; all depths but the last are within them."""
_PLACES_MASK = (1 << PLACES) - 1
_AT_1, _AT_5, _AT_10, _AT_100 = DEPTHS

GAIN_UNIT = 2**48
"""Units in a gain of 1. A sum of a hundred discounts is below 2^53, so it is exact as a float too."""


def _discounts() -> list[int]:
    """Return 1 / log2(1 + rank) in units of gain, by rank from 1; Decimal has the same digits on every host."""
    exact = Context(prec=40)
    two = Decimal(2).ln(exact)
    return [int(exact.multiply(exact.divide(two, Decimal(1 + rank).ln(exact)), GAIN_UNIT)) for rank in range(1, 101)]


DISCOUNTS = np.array(_discounts(), dtype=np.int64)
"""Gain of a true label at each place, from the best place on."""
IDEAL = np.array([sum(DISCOUNTS[:n].tolist()) for n in range(_AT_100 + 1)], dtype=np.int64)
"""Highest gain, by the number of true labels."""
HITS = np.array([bits.bit_count() for bits in range(1 << PLACES)], dtype=np.int64)
"""Number of true labels among the best, by the bits of their places."""
GAINS = np.array(
    [sum(DISCOUNTS[at].item() for at in range(PLACES) if bits >> at & 1) for bits in range(1 << PLACES)],
    dtype=np.int64,
)
"""Their gain, by the same bits."""

N_BASIC = 9
"""Measures of the labels predicted, and of the whole order: those with a history."""
N_MEASURES = N_BASIC + 3 * len(DEPTHS)
"""Measures, in the order of `measures.STREAMED`."""

UNIT = 2**16
"""Units in a weight of 1. A weight is rounded to units, and is at least one."""

LEAST_RELEVANT = 10 * UNIT
"""Weight, in units, of the relevant examples of a label with bins."""

GROUP_BOUNDS = (0, 5, 20)
"""Bounds of the earlier relevant examples of a label, in sums of weights: none, fewer than 5, fewer
than 20, or more.
"""
N_GROUPS = len(GROUP_BOUNDS) + 1
_FEW, _MORE = GROUP_BOUNDS[1] * UNIT, GROUP_BOUNDS[2] * UNIT


@compiled
def units(weights, i):  # type: ignore[no-untyped-def]
    """Return the weight of example i in units; 1 without weights."""
    return max(np.int64(np.rint(weights[i] * UNIT)), 1) if len(weights) > 0 else UNIT


@compiled
def first_unfit(width, indptr, indices, n_labels, n_known):  # type: ignore[no-untyped-def]
    """Return the first example with an index outside the arrays, or -1."""
    for i in range(len(n_labels)):
        if not (0 <= n_known[i] <= n_labels[i] <= width and 0 <= indptr[i] <= indptr[i + 1] <= len(indices)):
            return i
        if indptr[i + 1] - indptr[i] > n_labels[i]:
            return i
        for at in range(indptr[i], indptr[i + 1]):
            if not 0 <= indices[at] < n_labels[i]:
                return i
    return -1


@compiled
def advance(scores, targets, n_known, probabilities, first, last, window, own):  # type: ignore[no-untyped-def]
    """Count the examples from `first` to before `last`; return the first that does not fit the rings, or `last`.

    There are probabilities of each, or of none. `own` has the arrays of `Prequential`.
    """
    counts, totals, sums, ring, codes, seen, bins, groups, label_bins = own
    indptr, indices, signs, complete, n_labels, weights = targets
    width = scores.shape[1] - 1
    truth = np.empty(width, np.bool_)
    labels = np.empty(width, np.int32)
    found = np.empty((2, width), np.int32)
    ranked = np.empty((2, width), np.float64)
    passed = np.empty(1 + width, np.int64)
    row = np.empty((2, N_FIELDS), np.int64)
    entries = np.empty((2, width), np.int32)
    n_entries = np.empty(2, np.int64)
    frequent = np.empty(1 + max(width, totals[MODEL, LABELS]), np.float64)
    for i in range(first, last):
        listed, weight = slice(indptr[i], indptr[i + 1]), units(weights, i)
        if len(label_bins) > 0:
            new = count_new_rows(indices[listed], signs[listed], weight, counts[MODEL, ALL], seen)
            totals[MODEL, ROWS_NEEDED] = totals[MODEL, ROWS] + new
            if totals[MODEL, ROWS_NEEDED] > len(label_bins):
                return i
        known = list_known(indices[listed], signs[listed], complete[i], n_labels[i], labels, truth)
        if known > 0:
            told = labels[:known]
            existed = totals[MODEL, LABELS]
            rate(counts[MODEL, ALL], totals[MODEL], seen, frequent)
            judge(scores[i], told, truth, n_known[i], found[MODEL], ranked, passed, row[MODEL])
            if known >= existed and complete[i]:
                judge_all(frequent, seen, truth, known, existed, found[BASELINE], row[BASELINE])
            else:
                judge(frequent, told, truth, existed, found[BASELINE], ranked, passed, row[BASELINE])
            for of in range(2):
                row[of, WEIGHT] = weight
                n_entries[of] = pack(found[of, : n_found(row[of])], entries[of])
                if not has_room(n_entries[of], window, totals[of], ring[of], codes[of]):
                    return i
            group(found[MODEL, : n_found(row[MODEL])], counts[MODEL, ALL], weight, groups)
            for of in range(2):
                if totals[of, LENGTH] == window:
                    forget(counts[of], totals[of], ring[of], codes[of])
                packed = entries[of, : n_entries[of]]
                remember(row[of], found[of], packed, counts[of], totals[of], ring[of], codes[of])
                add(row[of], totals[of], sums[of])
                add_best(row[of], totals[of], sums[of])
            if len(probabilities) > 0:
                add_to_bins(probabilities[i], scores[i], told, truth, n_known[i], weight, seen, bins, label_bins)
        note(indices[listed], signs[listed], complete[i], n_labels[i], weight, totals, seen)
        if len(label_bins) > 0:
            give_rows(indices[listed], signs[listed], counts[MODEL, ALL], totals, seen)
    return last


@compiled
def rate(counts, totals, seen, frequent):  # type: ignore[no-untyped-def]
    """Write the scores of the baseline: a threshold, and the frequency of each existing label.

    Its labels are the most frequent ones, as many as would have had the highest micro F1 so far: a label increases it
    as long as it is more frequent than half of it, which is the threshold.
    """
    n_labels, complete = totals[LABELS], totals[COMPLETE]
    relevant = 0
    for label in range(n_labels):
        positive = counts[label, TP] + counts[label, FN]
        told = complete + seen[label, PARTIAL]
        frequent[1 + label] = positive / told if told > 0 else 0.0
        relevant += positive
    reorder(seen[:n_labels, ORDER], frequent)
    hits = predicted = 0
    frequent[0] = 0.0
    for rank in range(n_labels):
        label = seen[rank, ORDER]
        if not frequent[1 + label] > frequent[0]:
            break
        hits += counts[label, TP] + counts[label, FN]
        predicted += complete + seen[label, PARTIAL]
        frequent[0] = hits / (predicted + relevant)


@compiled
def reorder(order, frequent):  # type: ignore[no-untyped-def]
    """Sort labels by decreasing frequency; insertion sort, since they are nearly sorted."""
    for at in range(1, len(order)):
        label = order[at]
        place = at
        while place > 0 and frequent[1 + order[place - 1]] < frequent[1 + label]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = label


@compiled
def note(labels, signs, complete, n_labels, weight, totals, seen):  # type: ignore[no-untyped-def]
    """Count an example with these listed labels, relevant if their sign is above 0."""
    for of in range(2):
        totals[of, GIVEN] += 1
        totals[of, COMPLETE] += weight * complete
    for label in range(totals[MODEL, LABELS], n_labels):
        seen[label, ORDER] = label
    totals[:, LABELS] = max(totals[MODEL, LABELS], n_labels)
    for at in range(len(labels)):
        seen[labels[at], PARTIAL] += weight * (not complete)
        if signs[at] > 0:
            seen[labels[at], LAST] = totals[MODEL, GIVEN]
            if seen[labels[at], FIRST] == 0:
                seen[labels[at], FIRST] = totals[MODEL, GIVEN]


@compiled
def give_rows(labels, signs, counts, totals, seen):  # type: ignore[no-untyped-def]
    """Give a row of bins to each of the labels that has become frequent enough."""
    for at in range(len(labels)):
        label = labels[at]
        if signs[at] > 0 and seen[label, ROW] == 0 and counts[label, TP] + counts[label, FN] >= LEAST_RELEVANT:
            totals[MODEL, ROWS] += 1
            seen[label, ROW] = totals[MODEL, ROWS]


@compiled
def count_new_rows(labels, signs, weight, counts, seen):  # type: ignore[no-untyped-def]
    """Return the number of rows that `give_rows` gives after an example with these listed labels."""
    new = 0
    for at in range(len(labels)):
        label = labels[at]
        relevant = counts[label, TP] + counts[label, FN] + weight
        new += signs[at] > 0 and seen[label, ROW] == 0 and relevant >= LEAST_RELEVANT
    return new


@compiled
def list_known(indices, signs, complete, n_labels, labels, truth):  # type: ignore[no-untyped-def]
    """Write the labels whose truth is known, and that truth; return their number."""
    if not complete:
        for at in range(len(indices)):
            labels[at] = indices[at]
            truth[at] = signs[at] > 0
        return len(indices)
    for label in range(n_labels):
        labels[label] = label
        truth[label] = False
    for at in range(len(indices)):
        truth[indices[at]] = signs[at] > 0
    return n_labels


@compiled
def judge(scores, labels, truth, n_known, found, ranked, passed, row):  # type: ignore[no-untyped-def]
    """Fill `row` and `found`. Labels from column `n_known` on, or without a score (NaN), did not exist at that time."""
    row[:] = 0
    row[KNOWN] = len(labels)
    n_found = n_relevant = n_irrelevant = 0
    threshold = scores[0]
    for at in range(len(labels)):
        label, relevant = labels[at], truth[at]
        predicted = label < n_known and scores[1 + label] > threshold
        if predicted or relevant:
            outcome = FN if not predicted else (TP if relevant else FP)
            row[outcome] += 1
            found[n_found] = 4 * label + outcome
            n_found += 1
        if label < n_known and not np.isnan(scores[1 + label]):
            if relevant:
                ranked[0, n_relevant] = scores[1 + label]
                n_relevant += 1
            else:
                ranked[1, n_irrelevant] = scores[1 + label]
                n_irrelevant += 1
    rank(ranked[0, :n_relevant], ranked[1, :n_irrelevant], passed, row)


@compiled
def judge_all(frequent, seen, truth, n_labels, existed, found, row):  # type: ignore[no-untyped-def]
    """Fill `row` and `found` like `judge`, by sorted scores of all labels."""
    row[:] = 0
    row[KNOWN] = n_labels
    n_found = n_relevant = 0
    for label in range(n_labels):
        predicted, relevant = label < existed and frequent[1 + label] > frequent[0], truth[label]
        if predicted or relevant:
            outcome = FN if not predicted else (TP if relevant else FP)
            row[outcome] += 1
            found[n_found] = 4 * label + outcome
            n_found += 1
        n_relevant += label < existed and relevant
    row[ONE_ERROR] = 1
    above = at = 0
    while at < existed:
        level, first, tied = frequent[1 + seen[at, ORDER]], at, 0
        while at < existed and frequent[1 + seen[at, ORDER]] == level:
            tied += truth[seen[at, ORDER]]
            at += 1
        if first == 0 and tied == at:
            row[ONE_ERROR] = 0
        row[MISRANKED] += (at - first - tied) * (n_relevant - above)
        above += tied
        for place in range(at - tied, min(at, _AT_100)):
            hit(place, row)
    row[PAIRS] = n_relevant * (existed - n_relevant)


@compiled
def judge_part(margins, truth):  # type: ignore[no-untyped-def]
    """Evaluate an example by the labels with known truth; return its `row` and codes, in which a label is its index in
    `margins`.
    """
    n = len(margins)
    scores = np.zeros(1 + n, np.float64)
    labels = np.empty(n, np.int32)
    for at in range(n):
        scores[1 + at], labels[at] = margins[at], at
    found = np.empty(n, np.int32)
    ranked = np.empty((2, n), np.float64)
    row = np.empty(N_FIELDS, np.int64)
    judge(scores, labels, truth, n, found, ranked, np.empty(1 + n, np.int64), row)
    return row, found[: n_found(row)]


@compiled
def rank(relevant, irrelevant, passed, row):  # type: ignore[no-untyped-def]
    """Count the wrongly ordered pairs of relevant and irrelevant labels, and the relevant labels among the best.

    Reorders both arrays; `passed` is scratch of one number more than there are relevant labels.
    """
    row[ONE_ERROR] = 1
    if len(relevant) == 0:
        return
    sort(relevant)
    top = -np.inf
    n_above = 0
    # Labels not below every relevant label are gathered without an unpredictable branch.
    for score in irrelevant:
        top = max(top, score)
        irrelevant[n_above] = score
        n_above += score >= relevant[0]
    passed[: 1 + len(relevant)] = 0  # number of relevant labels that each irrelevant label passes
    for score in irrelevant[:n_above]:
        n_passed = count_at_most(relevant, score)
        passed[n_passed] += 1
        row[MISRANKED] += n_passed
    place = 0
    for at in range(len(relevant) - 1, -1, -1):
        place += passed[at + 1]
        if place >= _AT_100:
            break
        hit(place, row)
        place += 1
    row[PAIRS] = len(relevant) * len(irrelevant)
    row[ONE_ERROR] = 0 if relevant[-1] > top else 1


@compiled
def list_best(scores, truth):  # type: ignore[no-untyped-def]
    """Return of each example `BEST`, `GAIN` and the number of relevant labels, all labels being known."""
    n, width = scores.shape
    listed = np.empty((n, 3), np.int64)
    ranked = np.empty((2, width), np.float64)
    passed = np.empty(1 + width, np.int64)
    row = np.empty(N_FIELDS, np.int64)
    for i in range(n):
        row[:] = 0
        counts = np.zeros(2, np.int64)
        for label in range(width):
            own = 0 if truth[i, label] else 1
            ranked[own, counts[own]] = scores[i, label]
            counts[own] += 1
        rank(ranked[0, : counts[0]], ranked[1, : counts[1]], passed, row)
        listed[i, 0], listed[i, 1], listed[i, 2] = row[BEST], row[GAIN], counts[0]
    return listed


@compiled
def hit(place, row):  # type: ignore[no-untyped-def]
    """Record a relevant label at a rank below the last depth (from 0)."""
    row[GAIN] += DISCOUNTS[place]
    row[BEST] += (1 << PLACES) + ((1 << place) if place < PLACES else 0)


@compiled
def count_at_most(ascending, bound):  # type: ignore[no-untyped-def]
    # For the same reason, the bisection does not exit early.
    low, left = 0, len(ascending)
    while left > 1:
        half = left // 2
        low += half if ascending[low + half - 1] <= bound else 0
        left -= half
    return low + (1 if ascending[low] <= bound else 0)


@compiled
def pack(found, entries):  # type: ignore[no-untyped-def]
    """Write the entries of `codes` for the codes of an example; return their number."""
    n = 0
    for at in range(len(found)):
        if at > 0 and found[at] == found[at - 1] + 4:
            if entries[n - 1] >= 0:
                entries[n] = 0
                n += 1
            entries[n - 1] -= 1
        else:
            entries[n] = found[at]
            n += 1
    return n


@compiled
def has_room(n_entries, window, totals, ring, codes):  # type: ignore[no-untyped-def]
    length, n_codes = totals[LENGTH], totals[N_CODES] + n_entries
    if length == window:
        length -= 1
        n_codes -= n_held(n_found(ring[totals[OLDEST]]), totals[FIRST_CODE], codes)
    totals[NEEDED] = n_codes
    return bool(length < len(ring) and n_codes <= len(codes))


@compiled
def n_held(n_labels, at, codes):  # type: ignore[no-untyped-def]
    """Return the number of entries, from a place in the ring on, that hold this number of labels."""
    n = 0
    while n_labels > 0:
        n_labels -= 1 if codes[at] >= 0 else -codes[at]
        at = at + 1 if at + 1 < len(codes) else 0
        n += 1
    return n


@compiled
def n_found(row):  # type: ignore[no-untyped-def]
    return int(row[TP] + row[FP] + row[FN])


@compiled
def forget(counts, totals, ring, codes):  # type: ignore[no-untyped-def]
    """Remove the oldest example from the window."""
    oldest = ring[totals[OLDEST]]
    at, left = totals[FIRST_CODE], n_found(oldest)
    code = 0
    while left > 0:
        entry = int(codes[at])
        times = 1
        if entry >= 0:
            code = entry - 4
        else:
            times = -entry
        for _ in range(times):
            code += 4
            counts[RECENT, code >> 2, code & 3] -= oldest[WEIGHT]
        left -= times
        totals[N_CODES] -= 1
        at = at + 1 if at + 1 < len(codes) else 0
    totals[FIRST_CODE] = at
    totals[OLDEST] = (totals[OLDEST] + 1) % len(ring)
    totals[LENGTH] -= 1


@compiled
def remember(row, found, entries, counts, totals, ring, codes):  # type: ignore[no-untyped-def]
    """Append an example to the window, and its labels to the counts."""
    for code in found[: n_found(row)]:
        counts[ALL, code >> 2, code & 3] += row[WEIGHT]
        counts[RECENT, code >> 2, code & 3] += row[WEIGHT]
    at = (totals[FIRST_CODE] + totals[N_CODES]) % len(codes)
    for entry in entries:
        codes[at] = entry
        at = at + 1 if at + 1 < len(codes) else 0
    place = (totals[OLDEST] + totals[LENGTH]) % len(ring)
    for field in range(N_FIELDS):
        ring[place, field] = row[field]
    totals[N_CODES] += len(entries)
    totals[LENGTH] += 1


@compiled
def group(found, counts, weight, groups):  # type: ignore[no-untyped-def]
    """Count the outcomes of labels by the number of earlier relevant examples in `counts`."""
    for code in found:
        label = code >> 2
        times = counts[label, TP] + counts[label, FN]
        own = 0 if times == 0 else (1 if times < _FEW else (2 if times < _MORE else 3))
        groups[own, code & 3] += weight


@compiled
def add(row, totals, sums):  # type: ignore[no-untyped-def]
    """Add one example to the counters and the sums."""
    wrong, weight = row[FP] + row[FN], row[WEIGHT] / UNIT
    totals[EXAMPLES] += 1
    totals[WEIGHED] += row[WEIGHT]
    totals[ONE_ERRORS] += row[WEIGHT] * row[ONE_ERROR]
    totals[EXACT] += row[WEIGHT] * (wrong == 0)
    sums[PRECISION] += weight * ratio(row[TP], row[TP] + row[FP])
    sums[RECALL] += weight * ratio(row[TP], row[TP] + row[FN])
    sums[HAMMING] += weight * ratio(wrong, row[KNOWN])
    sums[RANKING] += weight * ratio(row[MISRANKED], row[PAIRS])


@compiled
def add_best(row, totals, sums):  # type: ignore[no-untyped-def]
    """Add the true labels among the best of an example."""
    n_relevant, weight = row[TP] + row[FN], row[WEIGHT] / UNIT
    if n_relevant == 0:
        return
    totals[RANKED] += row[WEIGHT]
    bits, n_best = row[BEST] & _PLACES_MASK, row[BEST] >> PLACES
    if n_best > 0:
        for at in range(len(DEPTHS)):
            if at < len(DEPTHS) - 1:
                own = bits & ((1 << DEPTHS[at]) - 1)
                n_hits, gain = HITS[own], GAINS[own]
            else:
                n_hits, gain = n_best, row[GAIN]
            add_down_to(at, n_hits, gain, n_relevant, weight, sums)


@compiled
def add_down_to(at, n_hits, gain, n_relevant, weight, sums):  # type: ignore[no-untyped-def]
    """Add the outcome of an example at one of `DEPTHS`."""
    depth = DEPTHS[at]
    sums[PRECISION_AT + at] += weight * (n_hits / depth)
    sums[F1_AT + at] += weight * (2 * n_hits / (depth + n_relevant))
    sums[NDCG_AT + at] += weight * (gain / IDEAL[min(depth, n_relevant)])


@compiled
def add_to_bins(  # type: ignore[no-untyped-def]
    probabilities, scores, labels, truth, n_known, weight, seen, bins, label_bins
):
    """Add labels with known truth to the bins of all labels, and to their own if they have a row; labels that did not
    exist have a probability of 0.
    """
    share = weight / UNIT
    for at in range(len(labels)):
        label, true = labels[at], np.float64(truth[at])
        existed = label < n_known and not np.isnan(scores[1 + label])
        probability = probabilities[label] if existed else 0.0
        place = min(max(np.int64(probability * N_BINS), 0), N_BINS - 1)
        square = (probability - true) ** 2
        bins[place, NUMBER] += share
        bins[place, TRUE] += share * true
        bins[place, PROBABILITY] += share * probability
        bins[place, SQUARE] += share * square
        row = seen[label, ROW] - 1
        if row >= 0:
            label_bins[row, place, NUMBER] += share
            label_bins[row, place, TRUE] += share * true
            label_bins[row, place, PROBABILITY] += share * probability
            label_bins[row, place, SQUARE] += share * square


@compiled
def replace(old, new, totals, sums):  # type: ignore[no-untyped-def]
    """Replace the counts `old` of an example by `new`."""
    without, with_it = np.zeros(N_TOTALS, np.int64), np.zeros(N_TOTALS, np.int64)
    less, more = np.zeros(N_SUMS, np.float64), np.zeros(N_SUMS, np.float64)
    for row, own_totals, own_sums in ((old, without, less), (new, with_it, more)):
        add(row, own_totals, own_sums)
        add_best(row, own_totals, own_sums)
    for at in (ONE_ERRORS, EXACT, RANKED):
        totals[at] = min(max(totals[at] + with_it[at] - without[at], 0), totals[WEIGHED])
    for at in range(N_SUMS):
        sums[at] = min(max(sums[at] + more[at] - less[at], 0.0), totals[WEIGHED] / UNIT)


@compiled
def ratio(part, whole):  # type: ignore[no-untyped-def]
    return part / whole if whole != 0 else 0.0


@compiled
def recent(totals, ring, basic):  # type: ignore[no-untyped-def]
    """Return the counters and sums of the window, summed again from the oldest example; if `basic`, without those of
    the best labels.
    """
    window_totals = np.zeros(N_TOTALS, np.int64)
    window_sums = np.zeros(N_SUMS, np.float64)
    for j in range(totals[LENGTH]):
        add(ring[(totals[OLDEST] + j) % len(ring)], window_totals, window_sums)
    if not basic:
        for j in range(totals[LENGTH]):
            add_best(ring[(totals[OLDEST] + j) % len(ring)], window_totals, window_sums)
    return window_totals, window_sums


@compiled
def measure(counts, totals, sums, ring, basic, hidden):  # type: ignore[no-untyped-def]
    """Return the metrics, shape (2, 2, N_MEASURES): model or baseline, part, metric; if `basic`, only the first
    `N_BASIC` are valid. `hidden` has ascending columns of the labels that do not count in macro F1.
    """
    measures = np.zeros((2, 2, N_MEASURES), np.float64)
    n_labels = totals[MODEL, LABELS]
    for of in range(2):
        define(totals[of], sums[of], counts[of, ALL], n_labels, hidden, measures[of, ALL])
        window_totals, window_sums = recent(totals[of], ring[of], basic)
        define(window_totals, window_sums, counts[of, RECENT], n_labels, hidden, measures[of, RECENT])
    return measures


@compiled
def define(totals, sums, counts, n_labels, hidden, measures):  # type: ignore[no-untyped-def]
    """Write the metrics of some examples from their totals."""
    weighed = totals[WEIGHED]
    if weighed == 0:
        return
    examples = weighed / UNIT
    precision, recall = sums[PRECISION] / examples, sums[RECALL] / examples
    measures[0], measures[1] = precision, recall
    measures[2] = ratio(2 * precision * recall, precision + recall)
    measures[3], measures[4] = f1_scores(counts, n_labels, hidden)
    measures[5], measures[6] = sums[HAMMING] / examples, totals[ONE_ERRORS] / weighed
    measures[7], measures[8] = sums[RANKING] / examples, totals[EXACT] / weighed
    for at in range(len(DEPTHS)):
        own = measures[N_BASIC + at :: len(DEPTHS)]
        own[0], own[1] = sums[PRECISION_AT + at] / examples, sums[F1_AT + at] / examples
        own[2] = ratio(sums[NDCG_AT + at], totals[RANKED] / UNIT)


@compiled
def f1_scores(counts, n_labels, hidden):  # type: ignore[no-untyped-def]
    """Return micro and macro F1 of the first `n_labels` labels; the mean of macro F1 is without the hidden ones."""
    tp = wrong = n_hidden = 0
    total = 0.0
    for label in range(n_labels):
        hits, misses = counts[label, TP], counts[label, FP] + counts[label, FN]
        tp += hits
        wrong += misses
        if n_hidden < len(hidden) and hidden[n_hidden] == label:
            n_hidden += 1
        else:
            total += ratio(2 * hits, 2 * hits + misses)
    return ratio(2 * tp, 2 * tp + wrong), ratio(total, np.float64(n_labels - n_hidden))
