"""Evidence from the titles of labels, Eq. (10e) of docs/mathematics.md: 2 sqrt(cosine of an example and a title).

S_l is a sum of whole numbers of 2^-40, so it has identical bits in whatever order words were counted, titles set and
states restored. A row is looked up word by word; the only loop over all labels writes zeros.
"""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.models.linear._centroid import rarity

UNIT = 2.0**40
"""S_l counts in parts of 1 / UNIT."""


@compiled
def square(count):  # type: ignore[no-untyped-def]
    """Return the contribution of a word with this count to S_l, in whole units."""
    return np.int64(UNIT / np.sqrt(count + 2.0))


@compiled
def write_evidence(  # type: ignore[no-untyped-def]
    seen,
    word_of,
    first_new,
    new_words,
    word_ends,
    word_labels,
    counts,
    squares,
    indptr,
    indices,
    values,
    learning,
    evidence,
):
    """Write n_l of each row; with `learning`, each is counted before the next."""
    n_rows = len(indptr) - 1
    found, last = np.empty(evidence.shape[1], np.int64), np.empty(evidence.shape[1], np.int64)
    last[:] = -1
    evidence[:] = 0.0
    for i in range(n_rows):
        sums, norm, n_found = evidence[i], 0.0, 0
        for p in range(indptr[i], indptr[i + 1]):
            feature = indices[p]
            z = values[p] * rarity(seen[0], seen[1 + feature] if 1 + feature < len(seen) else 0.0)
            norm += z * z
            word = _word(word_of, first_new, new_words, feature)
            if word >= 0:
                part = z / np.sqrt(np.sqrt(counts[word] + 2.0))
                for at in range(word_ends[word], word_ends[word + 1]):
                    label = word_labels[at]
                    if last[label] < i:
                        last[label] = i
                        found[n_found] = label
                        n_found += 1
                    sums[1 + label] += part
        for at in range(n_found):
            label = found[at]
            sums[1 + label] = _evidence(sums[1 + label], norm, squares[label] / UNIT)
        if learning:
            seen[0] += 1.0
            for p in range(indptr[i], indptr[i + 1]):
                seen[1 + indices[p]] += 1.0
                word = _word(word_of, first_new, new_words, indices[p])
                _count(word, word_ends, word_labels, counts, squares)
    if learning:
        seen[0] -= n_rows
        for p in range(indptr[0], indptr[n_rows]):
            seen[1 + indices[p]] -= 1.0


@compiled
def _word(word_of, first_new, new_words, feature):  # type: ignore[no-untyped-def]
    """Return the word that a feature is, -1 for none."""
    if feature >= first_new:
        return new_words[feature - first_new] - 1 if feature - first_new < len(new_words) else -1
    return word_of[feature] - 1 if feature < len(word_of) else -1


@compiled
def _evidence(total, norm, own):  # type: ignore[no-untyped-def]
    """Return n_l, given the sum of products, |z|^2 and S_l."""
    if not total > 0.0:
        return 0.0
    return 2.0 * np.sqrt(min(1.0, total / np.sqrt(norm * own)))


@compiled
def _count(word, word_ends, word_labels, counts, squares):  # type: ignore[no-untyped-def]
    """Count a word, if any, and update the labels that have it in their titles."""
    if word >= 0:
        more = square(counts[word] + 1.0) - square(counts[word])
        counts[word] += 1.0
        for at in range(word_ends[word], word_ends[word + 1]):
            squares[word_labels[at]] += more
