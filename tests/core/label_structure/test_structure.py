"""Consistent predictions and truths, against all consistent sets of small random structures."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_core.label_structure import Contradiction, Group, InvalidStructure, LabelStructure

NAMES = "abcdefg"
COLUMN_OF = {name: column for column, name in enumerate(NAMES)}


@st.composite
def rules(draw):
    """Draw groups and parents of some of seven labels."""
    shuffled = draw(st.permutations(NAMES))
    parents = {}
    for at, label in enumerate(shuffled[1:], 1):
        if (above := draw(st.integers(-1, at - 1))) >= 0:
            parents[label] = shuffled[above]
    groups = []
    for parent in sorted({parents.get(label) for label in NAMES}, key=str):
        siblings = [label for label in NAMES if parents.get(label) == parent]
        cut = draw(st.integers(0, len(siblings)))
        for labels in (siblings[:cut], siblings[cut:]):
            choose = draw(st.sampled_from(["one", "at_most_one", None]))
            if choose and len(labels) >= 2:
                groups.append(Group(f"g{len(groups)}", labels, choose))
    return groups, parents


def consistent_sets(groups, parents, hidden=()):
    """Return all consistent sets, as rows of 0 and 1, by the definition."""
    found = []
    for bits in product([0, 1], repeat=len(NAMES)):
        holds = dict(zip(NAMES, bits, strict=True))
        if any(holds[label] for label in hidden):
            continue
        above = {label: _nearest(label, parents, hidden) for label in NAMES}
        if any(holds[c] and above[c] and not holds[above[c]] for c in NAMES):
            continue
        for _, labels, choose in groups:
            labels = [label for label in labels if label not in hidden]
            if not labels:
                continue
            number = sum(holds[label] for label in labels)
            direct = parents.get(labels[0])
            exact = choose == "one" and direct not in hidden and (direct is None or holds[direct])
            if number > 1 or (exact and number != 1):
                break
        else:
            found.append(bits)
    return np.array(found)


def _nearest(label, parents, hidden):
    above = parents.get(label)
    while above in hidden:
        above = parents.get(above)
    return above


margins = st.lists(st.integers(-40, 40).map(lambda n: n / 8), min_size=7, max_size=7)  # their sums are exact


@settings(max_examples=4 * settings.default.max_examples)
@given(rules(), margins, st.sampled_from([0.0, 0.25, -1.5]), st.sets(st.sampled_from(NAMES), max_size=2))
def test_the_best_consistent_set_is_predicted_and_margins_say_by_how_much(drawn, own, threshold, hidden):
    groups, parents = drawn
    structure = LabelStructure(groups, parents, COLUMN_OF, hidden)
    scores = np.array([[threshold, *(np.array(own) + threshold)]])
    structure.decide(scores)

    shown = [column for column, name in enumerate(NAMES) if name not in hidden]
    sets = consistent_sets(groups, parents, hidden)
    totals = sets @ np.array(own)
    predicted = (scores[0, 1:] > scores[0, 0]).astype(int)
    predicted[[COLUMN_OF[name] for name in hidden]] = 0
    assert predicted.tolist() in sets.tolist()
    assert predicted @ np.array(own) == totals.max()
    for column in shown:
        with_it, without = totals[sets[:, column] == 1], totals[sets[:, column] == 0]
        if len(with_it) and len(without):
            margin = scores[0, 1 + column] - threshold
            assert margin == pytest.approx(with_it.max() - without.max(), abs=1e-12)


@settings(max_examples=4 * settings.default.max_examples)
@given(rules(), st.lists(st.sampled_from([-1, 0, 0, 1]), min_size=7, max_size=7), st.booleans())
def test_a_truth_is_completed_by_what_all_consistent_sets_share_or_refused(drawn, told, complete):
    groups, parents = drawn
    structure = LabelStructure(groups, parents, COLUMN_OF)
    columns = [column for column, sign in enumerate(told) if sign == 1 or (sign and not complete)]
    signs = np.array([told[column] for column in columns], dtype=np.int8)

    sets = consistent_sets(groups, parents)
    if complete:
        true = {NAMES[column] for column in columns}
        for label in list(true):
            while (label := parents.get(label)) is not None:
                true.add(label)
        sets = sets[(sets == [name in true for name in NAMES]).all(axis=1)]
    else:
        sets = sets[(sets[:, columns] == (signs > 0)).all(axis=1)]
    if not len(sets):
        with pytest.raises(Contradiction) as caught:
            structure.imply(columns, signs, complete)
        assert caught.value.column is None or caught.value.column in columns
        return
    found = dict(zip(*(list(part) for part in structure.imply(columns, signs, complete)), strict=True))
    shared = {c: 2 * int(sets[0, c]) - 1 for c in range(len(NAMES)) if (sets[:, c] == sets[0, c]).all()}
    in_structure = {COLUMN_OF[name] for name in {*parents, *parents.values(), *(x for g in groups for x in g.labels)}}
    due = {c: sign for c, sign in shared.items() if c in in_structure and (sign > 0 or not complete)}
    assert found == due | {c: told[c] for c in columns}


@settings(max_examples=2 * settings.default.max_examples)
@given(rules(), st.lists(st.floats(0, 1), min_size=7, max_size=7))
def test_probabilities_agree(drawn, likely):
    groups, parents = drawn
    row = np.array([likely])
    LabelStructure(groups, parents, COLUMN_OF).agree(row)
    of = dict(zip(NAMES, row[0].tolist(), strict=True))
    assert all(0 <= probability <= 1 for probability in of.values())
    assert all(of[child] <= of[parent] for child, parent in parents.items())
    for _, labels, choose in groups:
        total, above = sum(of[label] for label in labels), of.get(parents.get(labels[0]), 1.0)
        assert total == pytest.approx(above) if choose == "one" else total <= above + 1e-12


def test_examples_together_and_one_by_one_have_the_same_bits():
    rng = np.random.default_rng(3)
    structure = LabelStructure([Group("g", ["b", "c"], "one")], {"b": "a", "c": "a", "e": "d"}, COLUMN_OF)
    together = rng.normal(size=(50, 8))
    alone = together.copy()
    structure.decide(together)
    for row in alone:
        structure.decide(row[np.newaxis])
    assert together.tobytes() == alone.tobytes()


@for_each(
    ("groups", "parents", "path"),
    [
        ([("g", "ab", "one"), ("h", "bc", "one")], {}, ("groups", 1, "labels", 0)),
        ([("g", "aa", "one")], {}, ("groups", 0, "labels", 1)),
        ([("g", "ab", "one"), ("g", "cd", "one")], {}, ("groups", 1, "name")),
        ([("g", "ab", "two")], {}, ("groups", 0, "choose")),
        ([("g", "", "one")], {}, ("groups", 0, "labels")),
        ([("g", "a", "one")], {}, ("groups", 0, "labels")),
        ([("g", "ab", "one")], {"b": "c"}, ("groups", 0, "labels", 1)),
        ([], {"a": "b", "b": "a"}, ("parents", "a")),
        ([], {"a": "a"}, ("parents", "a")),
        ([], {"c": "a", "a": "b", "b": "a"}, ("parents", "c")),
    ],
)
def test_invalid_structures_are_refused_with_a_path(groups, parents, path):
    with pytest.raises(InvalidStructure) as caught:
        LabelStructure([Group(name, list(labels), choose) for name, labels, choose in groups], parents, COLUMN_OF)
    assert caught.value.path == path
