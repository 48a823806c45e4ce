"""Fields of the records of a model, as its status lists them."""

from typing import Any

import numpy as np
import pytest
from tests.service.online.folds import append, dense, learn, named, new_model
from tests.support.cases import for_each

from manylabel_service.hosting.examples import Features
from manylabel_service.online import fields as listing
from manylabel_service.online.fields import ModelFields
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.model import OnlineModel


def listed(model: OnlineModel) -> dict[str, dict[str, Any]]:
    text = model.spec.text
    assert text is not None
    found = ModelFields(model.features, text.settings()).to_json(model)
    assert found["n_fields"] == len(found["fields"])
    return {field["name"]: field for field in found["fields"]}


def taught(*xs: Features, **spec: Any) -> OnlineModel:
    model = new_model(**spec)
    for i, x in enumerate(xs):
        assert learn(model, (x, ["p"] if i % 2 else ["q"])).learnt == 1
    return model


def vector(**vectors: Any) -> Features:
    return named(a=1)._replace(vectors={name: np.array(v, dtype=np.float32) for name, v in vectors.items()})


def test_fields_have_kinds_shares_and_values() -> None:
    xs = [
        named(**{f"colour={'red' if i % 2 else 'blue'}": 1, "price": 1.5 + i, "urgent": i % 2, "text=word": 2.5})
        if i % 4
        else named(**{"colour=red": 1})._replace(vectors={"v": np.ones(2, np.float32)})
        for i in range(20)
    ]
    fields = listed(taught(*xs))
    facts = {name: (f["kind"], f["share"], f["count"], f["examples"]) for name, f in fields.items()}
    assert facts == {
        "v": ("vector", None, None, []),
        "text": ("text", None, None, ["word"]),
        "colour": ("category", 1.0, 20, ["red", "blue"]),
        "price": ("number", 0.75, 15, [20.5]),
        "urgent": ("flag", 0.75, 15, [1.0]),
    }
    assert not any(field["warnings"] for field in fields.values())


@for_each(
    ("xs", "field", "kind", "warnings"),
    [
        (
            [named(k=1)] * 8 + [named(**{"k=no": 1})] * 2,
            "k",
            "mixed",
            ["was a number in 80 % and a category in 20 % of its examples: each is another feature; send one kind"],
        ),
        (
            [named(k=1)] * 264 + [named(**{"k=1,5": 1})],
            "k",
            "mixed",
            [
                "was a number in more than 99 % and a category in less than 1 % of its examples: "
                "each is another feature; send one kind"
            ],
        ),
        (
            [named(k=1)] * 2 + [vector(k=[1, 2])],
            "k",
            "mixed",
            ["was a number in some examples and a vector in others: each is another feature; send one kind"],
        ),
        ([vector(k=[1, 2]), vector(k=[1])], "k", "vector", ["had vectors of 2 and 1 numbers"]),
        (
            [vector(k=[1, 2]), *[vector(k=[1])] * 10],
            "k",
            "vector",
            ["had vectors of 2 and 1 numbers: only 1 are accepted now"],
        ),
        (
            [named(**{f"k={i % 25}": 1}) for i in range(100)],
            "k",
            "category",
            [
                "25 values that are all numbers: send numbers if the size matters, such as 42 instead of "
                '"42"; codes stay strings'
            ],
        ),
        ([named(**{f"k={i % 19}": 1}) for i in range(100)], "k", "category", []),
        ([named(**{f"k={'v' if i % 5 else ''}{i % 50}": 1}) for i in range(100)], "k", "category", []),
        (
            [named(**{f"k=v{i}": 1}) for i in range(40)],
            "k",
            "category",
            ["40 values in 40 examples, such as an id: leave it out if it is one"],
        ),
        ([named(**{f"text=v{i}": 1}) for i in range(40)], "text", "text", []),
        (
            [named(Age=1), named(age=1), named(**{" AGE ": 1})],
            "age",
            "number",
            ["names differ only in case, spaces or Unicode form: 'Age', 'age', ' AGE '"],
        ),
        (
            [named(**{f"k={20 + i},5": 1}) for i in range(5)] * 2,
            "k",
            "category",
            [
                "5 values that are all numbers with marks or units, such as '20,5': send numbers, such "
                'as 1234.5 instead of "1.234,5 kg"'
            ],
        ),
        (
            [named(**{f"k={20 + i} kg": 1}) for i in range(5)],
            "k",
            "category",
            [
                "5 values that are all numbers with marks or units, such as '20 kg': send numbers, such "
                'as 1234.5 instead of "1.234,5 kg"'
            ],
        ),
        (
            [named(**{f"k=2026-11-0{1 + i}T12:00:00Z": 1}) for i in range(5)],
            "k",
            "category",
            [
                "5 values that are all dates, such as '2026-11-01T12:00:00Z': send a number, such as the days since "
                "1970-01-01, if their order matters"
            ],
        ),
        ([named(**{f"k={i}A": 1}) for i in range(5)], "k", "category", []),
        (
            [named(k=20 + i * 7 % 10 + 273 * (i >= 40)) for i in range(80)],
            "k",
            "number",
            ["its level or unit has changed: only the last 31 values scale it; check whether it is still the same"],
        ),
        ([named(k=20 + i * 7 % 10) for i in range(80)] + [named(k=1e6)], "k", "number", []),
        ([named(**{"k=x": 1, "price": 2}), named(**{"k=x": 1})] * 3, "price", "number", []),
    ],
)
def test_warnings_are_about_strange_values(xs: list[Features], field: str, kind: str, warnings: list[str]) -> None:
    found = listed(taught(*xs))[field]
    assert (found["kind"], found["warnings"]) == (kind, warnings)


def test_without_the_counts_of_the_scaling_there_are_no_shares() -> None:
    fields = listed(taught(*[named(k=1), named(**{"k=no": 1})] * 4, scaling="none"))
    assert (fields["k"]["kind"], fields["k"]["count"], fields["k"]["share"]) == ("mixed", None, None)
    assert fields["k"]["warnings"] == [
        "was a number in some examples and a category in others: each is another feature; send one kind"
    ]


@for_each("xs", [[dense(1, 2)], []])
def test_numbered_features_have_no_fields(xs: list[Features]) -> None:
    assert listed(taught(*xs)) == {}


def test_words_with_counts_are_no_fields() -> None:
    model = taught(*(named(**{f"w{j}": 1 for j in range(i, i + 20)}) for i in range(0, 300, 20)))
    assert listed(model) == {}


def test_the_first_fields_by_share_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_LISTED", 2)
    model = taught(named(a=1), named(b=1), named(c=1), named(b=1), named(c=1), named(c=1))
    found = ModelFields(model.features, model.online_spec.text.settings()).to_json(model)  # type: ignore[union-attr]
    assert [field["name"] for field in found["fields"]] == ["c", "b"]
    assert found["n_fields"] == 3


def test_names_are_read_once_and_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "READ_AT_ONCE", 2)
    model = taught(named(**{"k=x": 1, "b": 1, "c": 1}))
    fields = ModelFields(model.features, model.online_spec.text.settings())  # type: ignore[union-attr]
    sizes = [fields.to_json(model)["n_fields"] for _ in range(3)]
    assert sizes == [2, 3, 3]
    learn(model, (named(d=1), ["p"]))
    assert [field["name"] for field in fields.to_json(model)["fields"]][-1] == "d"


def test_a_rollback_undoes_counts() -> None:
    model = taught(named(**{"k=x": 1}), named(**{"k=x": 1}))
    states = {"2": model.to_bytes()}
    learn(model, (named(**{"k=y": 1, "late": 1}), ["p"]))
    append(model, Rollback("2"), states)
    fields = listed(model)
    assert (fields["k"]["count"], fields["late"]["count"]) == (2, 0)
