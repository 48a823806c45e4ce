"""Validation of index arrays before every learning step: compiled functions trust their arguments."""

from manylabel_core.compiled import compiled

PROBLEMS = (
    "",
    "rows and targets must have the same number of examples",
    "indptr must ascend from 0 to the number of indices and values",
    "feature columns of rows must be at least 0 and below the number of features of the learner",
    "n_labels of targets must be from 0 to the number of labels of the learner",
    "label columns of targets must be at least 0 and below n_labels of the example",
    "signs of targets must be +1 or -1",
)
"""Meanings of the numbers returned by `find_problem`; 0 is no problem."""


@compiled
def find_problem(  # type: ignore[no-untyped-def]
    n_features, n_columns, indptr, indices, values, listed_indptr, listed, listed_signs, complete, n_labels
):
    """Return the number of the first problem with rows and targets that are to be learnt, and whether every example has
    a known truth (False with a problem).
    """
    n_samples = len(indptr) - 1
    if len(listed_indptr) - 1 != n_samples or len(complete) != n_samples or len(n_labels) != n_samples:
        return 1, False
    if not _ascends(indptr, len(indices)) or len(indices) != len(values):
        return 2, False
    if not _ascends(listed_indptr, len(listed)) or len(listed) != len(listed_signs):
        return 2, False
    outside = 0
    for p in range(len(indices)):
        outside += indices[p] < 0 or indices[p] >= n_features
    if outside:
        return 3, False
    n_known = 0
    for i in range(n_samples):
        if n_labels[i] < 0 or n_labels[i] > n_columns:
            return 4, False
        n_known += listed_indptr[i] < listed_indptr[i + 1] or (complete[i] and n_labels[i] > 0)
        for p in range(listed_indptr[i], listed_indptr[i + 1]):
            if listed[p] < 0 or listed[p] >= n_labels[i]:
                return 5, False
            if listed_signs[p] != 1 and listed_signs[p] != -1:
                return 6, False
    return 0, n_known == n_samples


@compiled
def _ascends(indptr, last):  # type: ignore[no-untyped-def]
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != last:
        return False
    falls = 0
    for i in range(len(indptr) - 1):
        falls += indptr[i] > indptr[i + 1]
    return falls == 0
