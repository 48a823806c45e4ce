"""Linear model over blocks of features: words (all features that are not vectors), and each vector field.

The parts f_b = W_b' x_b of the scores are added with gains that sum to 1, Eqs. (10f) to (10h) of docs/mathematics.md.
Weights do not include the gain, so a block whose gain is 0 keeps its weights and can regain influence. Gains are a
non-negative least squares fit of the parts to the labels. Words have the whole gain until there is evidence for
vectors; in an example without words, its vectors share that of the words.

The evidence has a row per block: the products M, then the columns d, a and g. Only + - * / and square roots, in a fixed
order.
"""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.models.linear._table import WEIGHTS, add_outer, longest_row, padded, score_plane
from manylabel_core.online.updates._implicit import SCRATCH, STEPS
from manylabel_core.online.updates._targets import set_signs, weight_of
from manylabel_core.online.updates._update import ANY, run_update

MIN_SHARE = 0.25
"""Lower bound of the divisor of gains in an example that lacks blocks."""

KEPT = 0.998
"""Share of the evidence of gains kept from one example to the next."""

RATE = 0.005
"""Lower bound of the rate of the running means of the parts."""

RIDGE, ODDS = 10.0, 0.75

MAX_BEYOND = 2.0**40
"""Upper bound of F_b, above that of any stream; it keeps gains finite for any state."""

SWEEPS = 8
"""Sweeps of the non-negative solver, which starts from the solution of the previous example."""

N_EVIDENCE = 3
"""Columns of the evidence after M: d, a and g."""


@compiled
def score_blocks(table, constant, blocks, evidence, examples, fields, scores, shares):  # type: ignore[no-untyped-def]
    """Write the scores (n_samples, 1 + n_labels) of rows, and the gain (n_samples, n_blocks) of each block in them."""
    starts, present, vectors = fields
    indptr, indices, values = examples
    width = padded(table, scores.shape[1])
    parts, work = np.empty((len(starts), width)), np.empty(width)
    columns = np.arange(blocks.shape[0], dtype=np.int32)
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        share_gains(evidence, indptr[i + 1] > indptr[i], present[i], shares[i])
        _score_parts(table, blocks, indices[row], values[row], starts, columns, vectors[i], width, parts)
        _add_parts(table, constant, shares[i], parts, work, scores[i])


@compiled
def learn_blocks(words, own, examples, fields, targets, scores, shares):  # type: ignore[no-untyped-def]
    """Learn rows in order; write the scores of each row before it was learnt, and the gains of its blocks.

    `words` has the parts of the linear model, `own` the arrays of `VectorBlocks`.
    """
    table, squares, constant, update = words
    blocks, block_squares, evidence, n_effective, means, counts = own
    starts, present, vectors = fields
    indptr, indices, values = examples
    listed_indptr, listed, listed_signs, complete, n_labels, weights = targets
    width, longest = padded(table, scores.shape[1]), max(longest_row(indptr), len(blocks))
    n_blocks = len(starts)
    parts, work = np.empty((n_blocks, width)), np.empty((SCRATCH, width))
    total = np.empty(width)
    columns = np.arange(len(blocks), dtype=np.int32)
    rows, direction = np.empty(longest, np.int64), np.empty(longest, table.dtype)
    all_signs, all_tau = np.empty(width, np.int8), np.empty(width, table.dtype)
    order, moves = np.empty(width, np.int32), np.empty(width, np.int32)
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        truth = slice(listed_indptr[i], listed_indptr[i + 1])
        weight, n_columns = weight_of(weights, i), 1 + n_labels[i]
        features, given, signs, share = indices[row], values[row], all_signs[:n_columns], shares[i]
        scores[i, n_columns:] = 0.0
        share_gains(evidence, len(features) > 0, present[i], share)
        wide = padded(table, n_columns)
        _score_parts(table, blocks, features, given, starts, columns, vectors[i], wide, parts)
        _add_parts(table, constant, share, parts, total[:wide], scores[i, :n_columns])
        set_signs(listed[truth], listed_signs[truth], complete[i], signs)
        tau = all_tau[:wide]
        tau[n_columns:] = 0.0
        k = constant * constant / np.sqrt(1.0 + squares[0]) + share[0] * _norm(squares, features, given)
        for field in range(n_blocks - 1):
            if present[i, field]:
                its = slice(starts[field], starts[field + 1])
                k += share[1 + field] * _norm(block_squares, columns[its], vectors[i, its])
        steps, before = work[STEPS, :n_columns], scores[i, :n_columns]
        if run_update(update, ANY, weight, n_labels[i], k, before, signs, steps, order, moves, work):
            for column in range(n_columns):
                tau[column] = steps[column]
            rows[0], direction[0] = 0, table.dtype.type(constant / np.sqrt(1.0 + squares[0]))
            add_outer(table, rows[:1], direction[:1], tau)
            squares[0] += weight * (constant * constant)
            _move(table, squares, features, given, weight, share[0], tau, rows, direction)
            for field in range(n_blocks - 1):
                if present[i, field]:
                    its = slice(starts[field], starts[field + 1])
                    moved = weight, share[1 + field], tau, rows, direction
                    _move(blocks, block_squares, columns[its], vectors[i, its], *moved)
        has = len(features) > 0
        _learn_gains(evidence, n_effective, means, counts, has, present[i], weight, signs[1:], parts)


@compiled
def share_rows(evidence, indptr, present, shares):  # type: ignore[no-untyped-def]
    """Write the gains (n_samples, n_blocks) of the blocks in rows."""
    for i in range(len(shares)):
        share_gains(evidence, indptr[i + 1] > indptr[i], present[i], shares[i])


@compiled
def share_gains(evidence, has_words, present, share):  # type: ignore[no-untyped-def]
    """Write the gains of the blocks that an example has; 0 for the others."""
    gains, n_present = evidence[:, len(evidence) + 2], 0
    for field in range(len(present)):
        n_present += present[field]
    prior = 0.0 if has_words else _prior(evidence) / max(n_present, 1)
    share[0] = gains[0] if has_words else 0.0
    total = share[0]
    for field in range(len(present)):
        share[1 + field] = gains[1 + field] + prior if present[field] else 0.0
        total += share[1 + field]
    for block in range(len(share)):
        share[block] /= max(total, MIN_SHARE)


@compiled
def _score_parts(table, blocks, features, values, starts, columns, vector, width, parts):  # type: ignore[no-untyped-def]
    """Write the part of each block in the first columns, without the constant."""
    score_plane(table, WEIGHTS, 0.0, features, values, parts[0, :width])
    for field in range(len(starts) - 1):
        own = slice(starts[field], starts[field + 1])
        score_plane(blocks, WEIGHTS, 0.0, columns[own], vector[own], parts[1 + field, :width])


@compiled
def _add_parts(table, constant, share, parts, total, scores):  # type: ignore[no-untyped-def]
    """Write the scores."""
    for column in range(len(total)):
        total[column] = constant * table[0, 0, column]
    for block in range(len(parts)):
        for column in range(len(total)):
            total[column] += share[block] * parts[block, column]
    for column in range(len(scores)):
        scores[column] = total[column]


@compiled
def _norm(squares, features, values):  # type: ignore[no-untyped-def]
    """Return the sum of x_f^2 / sqrt(1 + s_f)."""
    total = 0.0
    for p in range(len(features)):
        total += np.float64(values[p]) * values[p] / np.sqrt(1.0 + squares[1 + features[p]])
    return total


@compiled
def _move(table, squares, features, values, weight, share, tau, rows, direction):  # type: ignore[no-untyped-def]
    """Move the weights of a block, and add to its squares."""
    n = len(features)
    for p in range(n):
        rows[p] = 1 + features[p]
        direction[p] = values[p] / np.sqrt(1.0 + squares[rows[p]])
    add_outer(table, rows[:n], direction[:n], tau)
    for p in range(n):
        squares[rows[p]] += weight * (share * (np.float64(values[p]) * values[p]))


@compiled
def _learn_gains(evidence, n_effective, means, counts, has_words, present, weight, signs, parts):  # type: ignore[no-untyped-def]
    """Update the gains by an example with relevant and irrelevant labels; overwrites `parts`, of which column 0 is the
    threshold's.
    """
    n_relevant, n_irrelevant, own = np.int64(0), np.int64(0), slice(1, 1 + len(signs))
    for label in range(len(signs)):
        n_relevant += signs[label] > 0
        n_irrelevant += signs[label] < 0
    if n_relevant == 0 or n_irrelevant == 0:
        return
    n_blocks = len(parts)
    above = np.empty(n_blocks)
    for block in range(n_blocks):
        part = parts[block, own]
        if not (has_words if block == 0 else present[block - 1]):
            part[:], above[block] = 0.0, 0.0
            continue
        _centre(means[block], counts[block], signs, part)
        above[block] = _centre_between(n_relevant, n_irrelevant, signs, part)
    n_effective[0] = KEPT * n_effective[0] + weight
    for block in range(n_blocks):
        for other in range(block + 1):
            product = _mean_product(n_relevant, n_irrelevant, signs, parts[block, own], parts[other, own])
            evidence[block, other] = KEPT * evidence[block, other] + weight * product
            evidence[other, block] = evidence[block, other]
        evidence[block, n_blocks] = KEPT * evidence[block, n_blocks] + weight * above[block]
    _solve(evidence, n_effective[0])


@compiled
def _centre(means, counts, signs, part):  # type: ignore[no-untyped-def]
    """Subtract the running means of the known labels, which include this example; unknown labels become 0."""
    for label in range(len(signs)):
        known = signs[label] != 0
        counts[label] += np.float64(known)
        moved = means[label] + (part[label] - means[label]) * max(1.0 / max(counts[label], 1.0), RATE)
        means[label] = moved if known else means[label]
        part[label] = part[label] - moved if known else 0.0


@compiled
def _centre_between(n_relevant, n_irrelevant, signs, part):  # type: ignore[no-untyped-def]
    """Subtract the middle between the relevant and the irrelevant labels; return half their distance."""
    relevant, irrelevant = 0.0, 0.0
    for label in range(len(signs)):
        relevant += part[label] * np.float64(signs[label] > 0)
        irrelevant += part[label] * np.float64(signs[label] < 0)
    relevant, irrelevant = relevant / n_relevant, irrelevant / n_irrelevant
    middle = 0.5 * (relevant + irrelevant)
    for label in range(len(signs)):
        part[label] -= middle * np.float64(signs[label] != 0)
    return 0.5 * (relevant - irrelevant)


@compiled
def _mean_product(n_relevant, n_irrelevant, signs, one, other):  # type: ignore[no-untyped-def]
    relevant, irrelevant = 0.0, 0.0
    for label in range(len(signs)):
        product = one[label] * other[label]
        relevant += product * np.float64(signs[label] > 0)
        irrelevant += product * np.float64(signs[label] < 0)
    return 0.5 * (relevant / n_relevant + irrelevant / n_irrelevant)


@compiled
def _solve(evidence, n):  # type: ignore[no-untyped-def]
    """Write a, by sweeps of coordinate descent that keep it at 0 or above, and g."""
    n_blocks = len(evidence)
    d, a, g = evidence[:, n_blocks], evidence[:, n_blocks + 1], evidence[:, n_blocks + 2]
    trace = 0.0
    for block in range(n_blocks):
        trace += evidence[block, block]
    ridge = RIDGE / n * trace / n_blocks
    if not ridge > 0.0:
        return
    for _ in range(SWEEPS):
        for block in range(n_blocks):
            beyond = _beyond_chance(evidence, block)
            left = d[block] * (beyond / (1.0 + beyond)) if beyond > 0.0 else 0.0
            for other in range(n_blocks):
                if other != block:
                    left -= max(evidence[block, other], 0.0) * a[other]
            a[block] = max(left / (evidence[block, block] + ridge), 0.0)
    total = a[0]
    for block in range(1, n_blocks):
        total += ODDS * a[block]
    prior = _prior(evidence)
    g[0] = 1.0
    for block in range(1, n_blocks):
        g[block] = (1.0 - prior) * (ODDS * a[block] / total) if total > 0.0 else 0.0
        g[0] -= g[block]


@compiled
def _prior(evidence):  # type: ignore[no-untyped-def]
    """Return the share of the gains that words keep for lack of evidence."""
    found = 0.0
    for block in range(len(evidence)):
        found += _beyond_chance(evidence, block)
    return 1.0 / (1.0 + found)


@compiled
def _beyond_chance(evidence, block):  # type: ignore[no-untyped-def]
    """Return how far a block separates labels beyond chance."""
    square, d = evidence[block, block], evidence[block, len(evidence)]
    return min(max(d * d / square - 1.0, 0.0), MAX_BEYOND) if d > 0.0 and square > 0.0 else 0.0
