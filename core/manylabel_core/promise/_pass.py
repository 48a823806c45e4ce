"""Compiled pass: decisions about examples, and learning from their true labels.

A decision is a row of float64, so that it can be stored with a prediction and counted as it was served:

0 version         of the promise that it was made under
1 n               number of candidates
2-5               sum of p, sum of p (1 - p), highest p, second highest p, over all labels
6-9               inputs of the example model: `example_inputs` before its transformation
10 score          of the example
11 flags          SETTLED, SHADOW, AUDITED
12 + 5 i          of candidate i: column, probability, shift, score, flags APPLIED, SHADOW

memory has the arrays of `promise.Memory`, settings the numbers of `promise.Target`.
"""

from typing import Any

import numpy as np

import manylabel_core._kalman as _kalman
import manylabel_core.promise._gate as _gate
import manylabel_core.promise._score as _score
from manylabel_core._elementary import sigmoid
from manylabel_core.compiled import compiled

MAX_CANDIDATES = 64
"""Maximum number of candidate labels of an example: those with the highest probabilities of at least `LOWEST`; the
first of equal ones. The bound on wrong labels holds for any choice that does not depend on the truth: only what is
applied counts, and it is counted as it was decided.
"""
LOWEST = 0.1
"""Lowest probability of a candidate."""
HEADER, FIELDS = 12, 5
"""Number of values of a decision before its candidates, and of each candidate."""
SHIFT_MEMORY = 0.98
"""Share of a label's shift that stays with each of its candidates."""
RIGHT_AGAIN, FORGIVEN, MAX_BLAME = 2.0, 0.02, 4.0
"""A label's blame grows by 1 with a wrong candidate; it falls by RIGHT_AGAIN times the expected error and FORGIVEN."""
SURE = 1.5
"""Minimum score of a candidate that affects the blame of its label."""
MISSED_CAPACITY = 60.0
"""Capacity of the bucket of missed labels above 1, in standard deviations of a true label's outcome."""
RECENT = 1000
"""Number of latest applied labels, and of latest examples, whose outcomes are stored."""

VERSION, N, TOTAL, VARIANCE, HIGHEST, SECOND, LEFT, LEFT_HIGHEST, DOUBT, N_APPLIED, SCORE, FLAGS = range(HEADER)
COLUMN, PROBABILITY, SHIFT, CANDIDATE_SCORE, CANDIDATE_FLAGS = range(FIELDS)
SETTLED, SHADOW, AUDITED = 1, 2, 4
APPLIED = 1

SHIFT_SUM, SHIFT_WEIGHT, BLAME, LABEL_APPLIED, LABEL_WRONG = range(5)
"""Rows of the table of labels."""
BUCKET, LEARNT, EXAMPLES, TRUE, FOUND, MISSED, AUDITS = range(7)
"""Counts: the bucket of missed labels, decisions learnt, those with a complete truth, true labels, those applied,
those missed in settled examples, and settled examples that were audited."""
N_COUNTS = 7
PRECISION, SETTLED_PRECISION, MISSED_SHARE, AUDIT_RATE, SETTINGS_VERSION = range(5)
"""Settings; a settled precision of 0 settles no example."""


@compiled
def chance(count, total, score):  # type: ignore[no-untyped-def]
    """Return a number from 0 to 1 by a hash (splitmix64) of the number of decisions so far and the example's sums."""
    h = np.uint64(np.int64(count)) * np.uint64(0x9E3779B97F4A7C15)
    for value in (total, score):
        h ^= np.uint64(np.float64(value).view(np.int64))
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    return np.float64(h >> np.uint64(11)) * 2.0**-53


@compiled
def decide(memory, settings, probabilities, scores, parents, decision):  # type: ignore[no-untyped-def]
    """Write the decision about an example."""
    total, variance, highest, second = 0.0, 0.0, 0.0, 0.0
    for x in probabilities:
        total += x
        variance += x * (1.0 - x)
        if x >= highest:
            second = highest
            highest = x
        elif x > second:
            second = x
    bar = _gate.threshold(memory.bins[0], memory.gates[0], settings[PRECISION])
    labels, weights = memory.labels, memory.label_weights
    inputs = np.empty(_score.N_LABEL)
    lowest, n_lowest = _lowest_candidate(probabilities)
    n: Any = np.int64(0)  # not a literal, which has another type
    left_highest = 0.0
    for column in range(len(probabilities)):
        p = probabilities[column]
        if p > lowest or (p == lowest and n_lowest > 0):
            n_lowest -= p == lowest
            shift = labels[SHIFT_SUM, column] / (labels[SHIFT_WEIGHT, column] + 1.0)
            shift = min(max(shift, -3.0), 3.0)
            _score.label_inputs(p, shift, total, variance, highest, second, inputs)
            score = _kalman.score_of(weights, inputs)
            would = score - max(0.0, labels[BLAME, column] - 1.0) >= bar and scores[1 + column] > scores[0]
            at = HEADER + FIELDS * n
            decision[at + COLUMN] = column
            decision[at + PROBABILITY] = p
            decision[at + SHIFT] = shift
            decision[at + CANDIDATE_SCORE] = score
            decision[at + CANDIDATE_FLAGS] = SHADOW if would else 0
            n += 1
        elif p > left_highest:
            left_highest = p
    if len(parents):
        _hold_back_orphans(parents, n, decision)
    is_open = memory.gates[0, _gate.OPEN] > 0.0
    left, doubt, n_applied = total, 0.0, 0.0
    for i in range(n):
        at = HEADER + FIELDS * i
        q = sigmoid(decision[at + CANDIDATE_SCORE])
        left -= decision[at + PROBABILITY]
        if is_open and decision[at + CANDIDATE_FLAGS] > 0.0:
            decision[at + CANDIDATE_FLAGS] = SHADOW + APPLIED
            doubt += 1.0 - q
            n_applied += 1.0
        else:
            left += q
            left_highest = max(left_highest, q)
    left = max(left, 0.0)
    example = np.empty(_score.N_EXAMPLE)
    _score.example_inputs(left, left_highest, doubt, n_applied, example)
    score = _kalman.score_of(memory.example_weights, example)
    flags = 0
    settled = settings[SETTLED_PRECISION]
    if settled > 0.0 and score >= _gate.threshold(memory.bins[1], memory.gates[1], settled):
        flags += SHADOW
        if memory.gates[1, _gate.OPEN] > 0.0 and memory.counts[BUCKET] >= 1.0:
            flags += SETTLED
            if chance(memory.counts[LEARNT], total, score) < settings[AUDIT_RATE]:
                flags += AUDITED
    decision[VERSION] = settings[SETTINGS_VERSION]
    decision[N] = n
    decision[TOTAL], decision[VARIANCE], decision[HIGHEST], decision[SECOND] = total, variance, highest, second
    decision[LEFT], decision[LEFT_HIGHEST], decision[DOUBT], decision[N_APPLIED] = left, left_highest, doubt, n_applied
    decision[SCORE] = score
    decision[FLAGS] = flags


@compiled
def _lowest_candidate(probabilities):  # type: ignore[no-untyped-def]
    """Return the lowest probability of a candidate, and how many labels with exactly this one are candidates."""
    highest = np.empty(MAX_CANDIDATES)  # a heap of probabilities, the lowest in front
    n = 0
    for p in probabilities:
        if p < LOWEST or np.isnan(p) or (n == MAX_CANDIDATES and p <= highest[0]):
            continue
        if n < MAX_CANDIDATES:
            at = n
            n += 1
            while at > 0 and highest[(at - 1) // 2] > p:
                highest[at] = highest[(at - 1) // 2]
                at = (at - 1) // 2
        else:
            at = 0
            while 2 * at + 1 < n:
                child = 2 * at + 1
                if child + 1 < n and highest[child + 1] < highest[child]:
                    child += 1
                if highest[child] >= p:
                    break
                highest[at] = highest[child]
                at = child
        highest[at] = p
    if n < MAX_CANDIDATES:
        return LOWEST, n
    n_lowest = 0
    for p in highest:
        n_lowest += p == highest[0]
    return highest[0], n_lowest


@compiled
def _hold_back_orphans(parents, n, decision):  # type: ignore[no-untyped-def]
    """Apply no label without its ancestors."""
    for i in range(n):
        at = HEADER + FIELDS * i
        column = int(decision[at + COLUMN])
        while decision[at + CANDIDATE_FLAGS] != 0.0 and column < len(parents) and parents[column] >= 0:
            column = parents[column]
            found = False
            for j in range(n):
                other = HEADER + FIELDS * j
                if decision[other + COLUMN] == column:
                    found = decision[other + CANDIDATE_FLAGS] != 0.0
            if not found:
                decision[at + CANDIDATE_FLAGS] = -1.0
                break
    for i in range(n):
        at = HEADER + FIELDS * i
        decision[at + CANDIDATE_FLAGS] = max(decision[at + CANDIDATE_FLAGS], 0.0)


@compiled
def learn(memory, settings, decision, truth, complete):  # type: ignore[no-untyped-def]
    """Learn from the truth of an example that was decided."""
    if decision[VERSION] != settings[SETTINGS_VERSION]:
        return
    n, n_labels = int(decision[N]), len(truth)
    flags = int(decision[FLAGS])
    settled = (flags & SETTLED) > 0
    applied = np.zeros(n_labels, dtype=np.bool_)
    for i in range(n):
        at = HEADER + FIELDS * i
        if int(decision[at + CANDIDATE_FLAGS]) & APPLIED:
            applied[int(decision[at + COLUMN])] = True
    n_true, n_found, right = 0.0, 0.0, True
    for column in range(n_labels):
        if truth[column] > 0:
            n_true += 1.0
            n_found += applied[column]
        if truth[column] != 0 and (truth[column] > 0) != applied[column]:
            right = False
    labels, bins, gate = memory.labels, memory.bins[0], memory.gates[0]
    gate[_gate.TRUE] += n_true * gate[_gate.WEIGHT]
    inputs, gains = np.empty(_score.N_LABEL), np.empty(_score.N_LABEL)
    weights, covariance = memory.label_weights, memory.label_covariance
    for i in range(n):
        at = HEADER + FIELDS * i
        known = truth[int(decision[at + COLUMN])]
        if known != 0:
            _score.label_inputs(
                decision[at + PROBABILITY],
                decision[at + SHIFT],
                decision[TOTAL],
                decision[VARIANCE],
                decision[HIGHEST],
                decision[SECOND],
                inputs,
            )
            outcome = 1.0 if known > 0 else 0.0
            _kalman.step(weights, covariance, _score.LABEL_VARIANCES, inputs, outcome, gains)
    for i in range(n):
        at = HEADER + FIELDS * i
        column = int(decision[at + COLUMN])
        if truth[column] != 0:
            outcome = 1.0 if truth[column] > 0 else 0.0
            _learn_label(labels, bins, gate, memory.recent_applied, settings[PRECISION], decision, at, outcome)
    missed = n_true - n_found if settled else 0.0
    if settings[SETTLED_PRECISION] > 0.0 and (complete or (settled and not right)):
        example = np.empty(_score.N_EXAMPLE)
        _score.example_inputs(decision[LEFT], decision[LEFT_HIGHEST], decision[DOUBT], decision[N_APPLIED], example)
        outcome = 1.0 if right else 0.0
        own, spread = memory.example_weights, memory.example_covariance
        _kalman.step(own, spread, _score.EXAMPLE_VARIANCES, example, outcome, gains)
        _gate.note(memory.bins[1], memory.gates[1], decision[SCORE], outcome)
        shadow = (flags & SHADOW) > 0
        _gate.settle(memory.gates[1], settings[SETTLED_PRECISION], settled, shadow, outcome)
    share = settings[MISSED_SHARE]
    most = 1.0 + MISSED_CAPACITY * np.sqrt(share * (1.0 - share))
    counts = memory.counts
    counts[BUCKET] = min(most, counts[BUCKET] + share * n_true - missed)
    recent = memory.recent_examples[int(counts[LEARNT]) % RECENT]
    recent[0], recent[1], recent[2] = int(n_true), int(n_found), int(missed)
    recent[3] = (2 if right else 1) if settled else 0
    counts[LEARNT] += 1.0
    counts[EXAMPLES] += 1.0 if complete or (settled and not right) else 0.0
    counts[TRUE] += n_true
    counts[FOUND] += n_found
    counts[MISSED] += missed
    counts[AUDITS] += 1.0 if (flags & AUDITED) > 0 else 0.0


@compiled
def _learn_label(labels, bins, gate, recent, target, decision, at, outcome):  # type: ignore[no-untyped-def]
    """Add the outcome of a candidate of a decision to the label's numbers, the plan and the account."""
    column, p, score = int(decision[at + COLUMN]), decision[at + PROBABILITY], decision[at + CANDIDATE_SCORE]
    flags = int(decision[at + CANDIDATE_FLAGS])
    labels[SHIFT_SUM, column] = labels[SHIFT_SUM, column] * SHIFT_MEMORY + (outcome - p)
    labels[SHIFT_WEIGHT, column] = labels[SHIFT_WEIGHT, column] * SHIFT_MEMORY + p * (1.0 - p)
    if score >= SURE:
        blame = labels[BLAME, column] + (1.0 - outcome) - RIGHT_AGAIN * (1.0 - sigmoid(score)) - FORGIVEN
        labels[BLAME, column] = min(max(0.0, blame), MAX_BLAME)
    _gate.note(bins, gate, score, outcome)
    made = (flags & APPLIED) > 0
    if made:
        recent[int(gate[_gate.COUNTED]) % RECENT] = outcome == 0.0
        labels[LABEL_APPLIED, column] += 1.0
        labels[LABEL_WRONG, column] += 1.0 - outcome
    _gate.settle(gate, target, made, (flags & SHADOW) > 0, outcome)


@compiled
def learn_rows(  # type: ignore[no-untyped-def]
    memory, settings, probabilities, scores, parents, indptr, indices, signs, complete, hidden, decisions
):
    """Decide about each example, then learn from its truth, in order; write the decisions, one a row."""
    truth = np.empty(probabilities.shape[1], dtype=np.int8)
    for i in range(len(probabilities)):
        decide(memory, settings, probabilities[i], scores[i], parents, decisions[i])
        truth[:] = -1 if complete[i] else 0
        for j in range(indptr[i], indptr[i + 1]):
            truth[indices[j]] = signs[j]
        truth[hidden] = 0
        learn(memory, settings, decisions[i], truth, complete[i])


@compiled
def decide_rows(memory, settings, probabilities, scores, parents, decisions):  # type: ignore[no-untyped-def]
    """Decide about each example by the same state; write the decisions, one a row."""
    for i in range(len(probabilities)):
        decide(memory, settings, probabilities[i], scores[i], parents, decisions[i])
