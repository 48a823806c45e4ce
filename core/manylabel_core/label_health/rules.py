"""Rules that suggest changes of a vocabulary, with their evidence. Nothing is changed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from manylabel_core.label_health.counts import Numbers, Pairs, VocabularyCounts
from manylabel_core.label_health.names import Likeness, similar_names
from manylabel_core.label_health.sums import ProbabilitySums

Kind = Literal["name", "merge", "parent", "pause", "vague"]
Why = Literal["spelling", "plural", "slip", "together", "alike", "implied", "unused", "rare", "unlearnable"]
KINDS: tuple[Kind, ...] = get_args(Kind)

LEAST, LEAST_TOGETHER, LEAST_VAGUE = 10, 5, 50
"""Minimum weighted numbers of examples: of the rarer label of a pair, of labels that go together, of a vague label."""
APART = 0.1
"""Maximum share of the examples of the rarer label that also have the other label, if both are names of the same
thing."""
ALIKE, ALIKE_NAMED, LOOKS, KNOWN = 0.4, 0.1, 0.5, 0.05
"""Minimum `alike` of a pair, and of a pair with nearly the same name; minimum pull of a rare label, and minimum mean
excess of the probability of the other label on its own examples."""
TOGETHER, NAMED_TOGETHER, PARENT = 0.9, 0.8, 0.9
"""Minimum shares: Jaccard index of two labels; share of the rarer label if the names are nearly the same; lower bound
for a parent."""
PARENT_RATIO, PARENT_SHARE = 1.5, 0.5
"""Minimum ratio of the examples of a parent to those of its child, and maximum share of all examples that have the
parent."""
UNUSED, UNUSED_GAPS = 1_000, 3
"""Minimum numbers for an unused label: examples since its last use, and this gap divided by its longest earlier gap."""
VAGUE = 1.2
"""Maximum ratio of two odds of a vague label: of its mean probability where it is true, and where it is false."""
_CONFIDENCE = 1.645


class Suggestion(NamedTuple):
    """Suggested change of a vocabulary.

    Attributes
    ----------
    kind : ``name``: merge two labels with nearly the same name; ``merge``: merge two other labels; ``parent``: give a
        label a parent; ``pause``: pause it; ``vague``: define it better.
    why : rule that applies.
    label : column of the label to change: the rarer label of a merge, the child of a parent.
    other : column of the label to merge into, or of the parent; None for other kinds.
    strength : number that orders the suggestions of a kind; higher is stronger.
    examples : weighted numbers of the examples with the label, and with the other label (0 without another label).
    together : weighted number of the examples with both.
    changes : weighted number of the examples whose labels would change.
    alike : how alike the labels are to the model, 1 if it cannot tell them apart; None if not computed.
    means : mean probabilities of a vague label where it is true and where it is false; None for other kinds.
    """

    kind: Kind
    why: Why
    label: int
    other: int | None
    strength: float
    examples: tuple[float, float]
    together: float = 0.0
    changes: float = 0.0
    alike: float | None = None
    means: tuple[float, float] | None = None


def suggest(
    names: Sequence[str],
    counts: VocabularyCounts,
    sums: ProbabilitySums | None = None,
    *,
    listed: NDArray[np.bool_] | None = None,
    parents: NDArray[np.int32] | None = None,
) -> list[Suggestion]:
    """Return suggestions by kind, the strongest first. Without `sums`, only counts are used.

    Parameters
    ----------
    names : names of all labels.
    counts : their counts.
    sums : sums of held-out probabilities over the same examples.
    listed : ndarray of shape (n_labels,), bool; labels that can be suggested. None: all.
    parents : ndarray of shape (n_labels,), int32; the label that each label implies, -1 for none. A label and its
        ancestor are not suggested as a pair.
    """
    allowed = (counts.examples > 0) & (True if listed is None else listed)
    found = _Found(counts, allowed, _ancestors(parents))
    by_counts_of_labels = sums is None and not len(counts.pairs.first)
    likenesses = named_pairs(names, counts.examples, allowed, by_counts_of_labels)
    first = np.array([first for first, _ in likenesses], dtype=np.int64)
    second = np.array([second for _, second in likenesses], dtype=np.int64)
    _by_name(found, likenesses, first, second, sums)
    if sums is not None:
        _by_alike(found, sums)
    _by_pairs(found)
    _pauses(found)
    if sums is not None:
        _vague(found, sums)
    return sorted(found.suggestions, key=lambda s: (KINDS.index(s.kind), -s.strength, s.label, s.other or 0))


def named_pairs(
    names: Sequence[str], examples: Numbers, allowed: NDArray[np.bool_], spelling_only: bool = False
) -> dict[tuple[int, int], Likeness]:
    """Return the pairs of allowed labels with nearly the same name, ascending, and the difference of the names.

    If labels differ only in spelling, the one with the most `examples` is compared with other names.
    """
    used = np.flatnonzero(allowed)
    order = used[np.lexsort((used, -examples[used]))].tolist()
    pairs = similar_names({column: names[column] for column in used.tolist()}, order, spelling_only)
    return {(pair.first, pair.second): pair.likeness for pair in pairs}


class _Found:
    """Suggestions so far."""

    def __init__(self, counts: VocabularyCounts, allowed: NDArray[np.bool_], ancestors: set[tuple[int, int]]) -> None:
        self.counts, self.allowed, self._ancestors = counts, allowed, ancestors
        self.suggestions: list[Suggestion] = []
        self.merged: set[tuple[int, int]] = set()

    def is_open(self, one: int, other: int) -> bool:
        """Return whether a pair can be suggested."""
        related = (one, other) in self._ancestors or (other, one) in self._ancestors
        return bool(self.allowed[one] and self.allowed[other]) and not related and (one, other) not in self.merged

    def merge(
        self, kind: Kind, why: Why, one: int, other: int, strength: float, together: float, alike: float | None
    ) -> None:
        """Suggest to merge the rarer label of a pair into the other one; if both are equally rare, the later label."""
        examples = self.counts.examples
        label, into = (one, other) if (examples[one], -one) < (examples[other], -other) else (other, one)
        self.merged |= {(one, other), (other, one)}
        n = float(examples[label]), float(examples[into])
        self.suggestions.append(Suggestion(kind, why, label, into, strength, n, together, n[0], alike))


def _by_name(
    found: _Found,
    likenesses: dict[tuple[int, int], Likeness],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    sums: ProbabilitySums | None,
) -> None:
    pairs = found.counts.pairs
    at = {pair: n for n, pair in enumerate(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))}
    known = None if sums is None else sums.likenesses(first, second)
    examples = found.counts.examples
    for n, ((one, other), likeness) in enumerate(likenesses.items()):
        if not found.is_open(one, other):
            continue
        place = at.get((one, other))
        together = 0.0 if place is None else float(pairs.together[place])
        alike = None if known is None else float(known.alike[n])
        holds = likeness == "spelling"
        if place is not None:
            rarer = _rarer(pairs, place)
            holds |= likeness == "plural" and rarer >= LEAST_TOGETHER and together >= NAMED_TOGETHER * rarer
            if known is not None and together <= APART * rarer:
                one_is_rarer = examples[one] <= examples[other]
                pull = (known.pull_of_first if one_is_rarer else known.pull_of_second)[n]
                own = (known.own_of_second if one_is_rarer else known.own_of_first)[n]
                common = max(examples[one], examples[other])
                looks = pull >= LOOKS and own >= LEAST * KNOWN and common >= LEAST
                few = min(examples[one], examples[other]) < LEAST
                holds |= bool(looks if few else known.alike[n] >= ALIKE_NAMED)
        if holds:
            found.merge("name", likeness, one, other, 1.0 + (alike or 0.0), together, alike)


def _rarer(pairs: Pairs, at: int) -> float:
    return float(pairs.together[at] + min(pairs.first_only[at], pairs.second_only[at]))


def _by_alike(found: _Found, sums: ProbabilitySums) -> None:
    first, second = sums.candidates(LEAST)
    alike = sums.likenesses(first, second).alike
    enough = alike >= ALIKE
    first, second, alike = first[enough], second[enough], alike[enough]
    counted = sums.truths.pairs(first, second)
    for n, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        rarer, together = _rarer(counted, n), float(counted.together[n])
        if found.is_open(one, other) and rarer >= LEAST and together <= APART * rarer:
            found.merge("merge", "alike", one, other, float(alike[n]), together, float(alike[n]))


def _by_pairs(found: _Found) -> None:
    """Suggest merges of labels that are given together, and parents."""
    counts, pairs = found.counts, found.counts.pairs
    union = pairs.together + pairs.first_only + pairs.second_only
    jaccard = pairs.together / np.maximum(union, 1e-300)
    rarer = pairs.together + np.minimum(pairs.first_only, pairs.second_only)
    for n in np.flatnonzero((rarer >= LEAST_TOGETHER) & (jaccard >= TOGETHER)).tolist():
        one, other = int(pairs.first[n]), int(pairs.second[n])
        if found.is_open(one, other):
            found.merge("merge", "together", one, other, float(jaccard[n]), float(pairs.together[n]), None)
    implied: dict[int, dict[int, tuple[float, float]]] = {}
    examples, shares = counts.examples, counts.examples / np.maximum(counts.known, 1e-300)
    columns = ((pairs.first, pairs.second, pairs.first_only), (pairs.second, pairs.first, pairs.second_only))
    for children, heads, only in columns:
        low = wilson(pairs.together, pairs.together + only)
        holds = (low >= PARENT) & (examples[heads] >= PARENT_RATIO * examples[children])
        for n in np.flatnonzero(holds & (shares[heads] <= PARENT_SHARE)).tolist():
            child, head = int(children[n]), int(heads[n])
            if found.allowed[child] and found.allowed[head]:
                implied.setdefault(child, {})[head] = float(low[n]), float(pairs.together[n])
    for child in sorted(implied):
        for head, (low_bound, together) in sorted(implied[child].items()):
            nearer = any(head in implied.get(between, ()) for between in implied[child])
            if found.is_open(child, head) and not nearer:
                n_both = float(examples[child]), float(examples[head])
                changes = max(n_both[0] - together, 0.0)
                found.suggestions.append(
                    Suggestion("parent", "implied", child, head, low_bound, n_both, together, changes)
                )


def _pauses(found: _Found) -> None:
    counts = found.counts
    gaps = counts.n_examples - 1 - counts.last
    for label in np.flatnonzero(found.allowed & (gaps >= UNUSED)).tolist():
        n, gap, own = float(counts.examples[label]), int(gaps[label]), (float(counts.examples[label]), 0.0)
        if n < LEAST_TOGETHER and 2 * gap >= counts.n_examples:
            strength = gap / counts.n_examples
            found.suggestions.append(Suggestion("pause", "rare", label, None, strength, own))
        elif n >= LEAST_TOGETHER and counts.longest_gap is not None:
            longest = max(int(counts.longest_gap[label]), 1)
            if gap >= UNUSED_GAPS * longest:
                found.suggestions.append(Suggestion("pause", "unused", label, None, gap / longest, own))


def _vague(found: _Found, sums: ProbabilitySums) -> None:
    (yes, n_true), (no, n_false) = sums.mean_where(True), sums.mean_where(False)
    odds = yes * (1.0 - no) / np.maximum(no * (1.0 - yes), 1e-12)
    enough = found.allowed & (n_true >= LEAST_VAGUE) & (n_false >= LEAST_VAGUE)
    for label in np.flatnonzero(enough & (odds < VAGUE)).tolist():
        own, means = (float(found.counts.examples[label]), 0.0), (float(yes[label]), float(no[label]))
        found.suggestions.append(
            Suggestion("vague", "unlearnable", label, None, VAGUE - float(odds[label]), own, means=means)
        )


def wilson(hits: Numbers, n: Numbers) -> Numbers:
    """Return the lower bounds of the 95 % confidence intervals of shares (Wilson's)."""
    n = np.maximum(n, 1e-9)
    p, z = hits / n, _CONFIDENCE
    bounds: Numbers = (p + z * z / (2 * n) - z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)
    return bounds


def _ancestors(parents: NDArray[np.int32] | None) -> set[tuple[int, int]]:
    """Return the pairs of each label and an ancestor."""
    found = set[tuple[int, int]]()
    for child in np.flatnonzero(parents >= 0).tolist() if parents is not None else ():
        above = int(parents[child])  # type: ignore[index]
        while above >= 0 and (child, above) not in found:
            found.add((child, above))
            above = int(parents[above])  # type: ignore[index]
    return found
