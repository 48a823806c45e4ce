"""Adaptive windows (ADWIN), Eq. (18) of docs/mathematics.md: a detector of changes for every label, and one for all
labels.

A window holds the errors since its last alarm as sums of runs, in rows: a run of row r is 2^r errors long. A row has at
most RUNS runs; when another comes, its two oldest become a run of the next row. So the number of runs of a row follows
from the length of the window (`n_runs`). Every CLOCK errors a window is cut between every two of its runs. A difference
of the means of the two parts beyond chance is a change.

Runs are `runs[row, column, run]`, oldest first. Column 0 is the detector of all labels together, column 1 + l that of
label l. After a change the detector restarts with the next error, like river's.

References
----------
A. Bifet, R. Gavalda: Learning from time-changing data with adaptive windowing, SDM 2007. Each step is computed in the
order in which river's `drift.ADWIN` computes it. Logarithms may differ from river's in the last bit.
"""

import numpy as np

from manylabel_core._elementary import log
from manylabel_core.compiled import compiled
from manylabel_core.online.updates._targets import set_signs

CLOCK, RUNS = 32, 5
"""Errors between two checks, and maximum number of runs in a row."""

DELTA, SHORTEST = 0.002, 5.0
"""Confidence that there is a change is at least 1 - DELTA; no part of a window is shorter than SHORTEST."""

EXAMPLES, LABELS = 0, 1
"""Indices in `seen`: number of examples, and number of labels at the last of them."""

TOTAL, VARIANCE = 0, 1
"""Indices in `sums`: sum of the errors in a window, and of their squared distances from their mean."""

UNKNOWN = -1.0
"""Value of an unknown error."""

COUNT, LAST = 0, 1
"""Indices in `alarms`: number of alarms, and number of examples at the last alarm."""


@compiled
def watch(  # type: ignore[no-untyped-def]
    scores, listed_indptr, listed, listed_signs, complete, n_labels, seen, lengths, sums, runs, alarms, alarmed
):
    """Add the errors of scored predictions; mark the alarms of detectors, and return their number."""
    width = scores.shape[1]
    signs, errors, changes = np.empty(width, np.int8), np.empty(width), np.empty(width, np.int8)
    n_alarms = 0
    for i in range(len(scores)):
        truth = slice(listed_indptr[i], listed_indptr[i + 1])
        now = slice(0, 1 + min(seen[LABELS], n_labels[i]))  # new labels have no prediction
        set_signs(listed[truth], listed_signs[truth], complete[i], signs)
        _set_errors(scores[i, now], signs, errors)
        take_in(errors[now], lengths, sums, runs, changes)
        seen[EXAMPLES] += 1
        seen[LABELS] = max(seen[LABELS], n_labels[i])
        for column in range(now.stop):
            if changes[column] != 0:
                lengths[column] = 0
                sums[column] = 0.0
                runs[:, column] = 0.0
            if changes[column] > 0:
                alarms[COUNT, column] += 1
                alarms[LAST, column] = seen[EXAMPLES]
                alarmed[i, column] = True
                n_alarms += 1
    return n_alarms


@compiled
def _set_errors(scores, signs, errors):  # type: ignore[no-untyped-def]
    """Write each label's error, 0 or 1, and their mean before them; UNKNOWN where there is no truth."""
    known, wrong = 0, 0.0
    for column in range(1, len(scores)):
        errors[column] = UNKNOWN
        if signs[column] != 0:
            errors[column] = 1.0 if (scores[column] > scores[0]) != (signs[column] > 0) else 0.0
            known += 1
            wrong += errors[column]
    errors[0] = wrong / known if known > 0 else UNKNOWN


@compiled
def take_in(errors, lengths, sums, runs, changes):  # type: ignore[no-untyped-def]
    """Add an error in [0, 1] to each window, none where it is UNKNOWN; `changes` becomes 1 if the mean rises within the
    window, -1 if it falls, else 0.
    """
    for column in range(len(errors)):
        changes[column] = 0
        error = errors[column]
        if error != UNKNOWN:
            before = lengths[column]
            length = before + 1
            if before > 0:
                distance = error - sums[column, TOTAL] / before
                sums[column, VARIANCE] += before * distance * distance / length
            sums[column, TOTAL] += error
            lengths[column] = length
            _add_run(error, before, column, runs)
            if length % CLOCK == 0:
                changes[column] = _find_change(length, sums[column, TOTAL], sums[column, VARIANCE], column, runs)


@compiled
def n_runs(length, row):  # type: ignore[no-untyped-def]
    """Return the number of runs in a row of a window that has received this number of errors.

    A row with 4 runs passes one on for every two that it gets, so it gets ((length + 4) >> row) - 4 runs in all.
    """
    got = (length + 4) >> row
    return 4 + (got & 1) if got >= 8 else max(got - 4, 0)


@compiled
def are_windows(lengths, sums, runs):  # type: ignore[no-untyped-def]
    """Return whether arrays are valid windows of errors in [0, 1], with zeros outside the runs."""
    for column in range(len(lengths)):
        for figure in sums[column]:
            if not 0.0 <= figure <= lengths[column]:
                return False
        for row in range(len(runs)):
            used = n_runs(lengths[column], row)
            for k in range(RUNS):
                if not 0.0 <= runs[row, column, k] <= (float(1 << row) if k < used else 0.0):
                    return False
    return True


@compiled
def _add_run(run, length, column, runs):  # type: ignore[no-untyped-def]
    """Add a run of one error to a window of this length."""
    row = np.int64(0)
    while n_runs(length, row) == RUNS:
        oldest = runs[row, column, 0] + runs[row, column, 1]
        for k in range(RUNS - 2):
            runs[row, column, k] = runs[row, column, k + 2]
        runs[row, column, RUNS - 2] = run
        runs[row, column, RUNS - 1] = 0.0
        run = oldest
        row += 1
    runs[row, column, n_runs(length, row)] = run


@compiled
def _find_change(length, total, variance, column, runs):  # type: ignore[no-untyped-def]
    """Cut a window, the oldest part first; return 1 if the mean rises by more than chance allows, -1 if it falls."""
    chance = log(2.0 * log(float(length)) / DELTA)
    if min(total, length - total) < 0.5 * chance:
        return 0  # the mean of n errors can differ by at most total / n; 2 / 3 chance / n is allowed
    spread, allowed = variance / length, 2.0 / 3.0 * chance
    old_length, old_total = 0.0, 0.0
    new_length, new_total = float(length), total
    for row in range(len(runs) - 1, -1, -1):
        size = float(1 << row)
        for k in range(n_runs(length, row)):
            old_length += size
            new_length -= size
            old_total += runs[row, column, k]
            new_total -= runs[row, column, k]
            apart = new_total * old_length - old_total * new_length
            if apart * apart < 1.99 * chance * variance * old_length * new_length:
                continue  # not even without SHORTEST: saves the root and the divisions for nearly all cuts
            if old_length >= SHORTEST and new_length >= SHORTEST:
                rise = new_total / new_length - old_total / old_length
                weight = 1.0 / (old_length - SHORTEST + 1.0) + 1.0 / (new_length - SHORTEST + 1.0)
                if abs(rise) > np.sqrt(2.0 * weight * spread * chance) + allowed * weight:
                    return 1 if rise > 0.0 else -1
    return 0
