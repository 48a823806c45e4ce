"""`manylabel models`, `predict` and `update` against a real server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manylabel_clients import Client, Invalid, TooLarge
from manylabel_clients.command.models import label_next, one_by_one
from manylabel_clients.command.models.label_next import LabelLoop
from manylabel_clients.command.output.models import label_texts, print_prediction
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.http.responses import Learning, Prediction, UnlabelledPage

Command = Callable[..., Any]
CAT = '{"x": {"word=cat": 1}, "y": ["pets"]}'
SONG = '{"x": {"word=song": 1}, "y": ["music"]}'


@pytest.fixture
def tags(client: Client, name: str) -> str:
    """A model that knows two labels."""
    model = client.create_model(name, scaling="unit")
    model.update_many([({"word=cat": 1}, ["pets"]), ({"word=song": 1}, ["music"])] * 3)
    return name


def test_show_lists_the_fields_with_warnings(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    model.update_many([({"age": str(i), "size": i % 5, "Size": 1.5}, ["p"]) for i in range(40)])
    status = model.status()
    assert [(each.name, each.kind, each.count) for each in status.fields] == [  # type: ignore[union-attr]
        ("age", "category", 40),
        ("size", "number", 40),
        ("Size", "number", 40),
    ]
    lines = [line.split() for line in manylabel("models", "show", name).checked().out.splitlines()]
    assert ["age", "category", "0,", "1,", "2", "100", "%"] in lines
    assert ["size", "number", "4", "100", "%"] in lines
    assert "Size: names differ only in case, spaces or Unicode form: 'size', 'Size'" in map(" ".join, lines)
    assert any(line[:8] == ["age:", "40", "values", "that", "are", "all", "numbers:", "send"] for line in lines)


def test_a_model_is_created_shown_listed_and_deleted(manylabel: Command, client: Client, name: str) -> None:
    made = manylabel(
        "models", "create", name, "--algorithm", "salt", "--param", "eta=0.25", "--param", "passes=3",
        "--scaling", "unit", "--labels", "a, b", "--features", "7",
        "--window", "50", "--json",
    ).checked()  # fmt: skip
    spec = json.loads(made.out)
    assert (spec["algorithm"], spec["scaling"]) == ("salt", "unit")
    assert (spec["params"]["eta"], spec["params"]["passes"]) == (0.25, 3)
    assert spec["metrics"]["window"]["size"] == 50
    client.model(name).update([1.0] * 7, ["a"])
    shown = manylabel("models", "show", name)
    assert shown.status == 0
    for fact in ("salt", "eta=0.25", "unit", "micro-F1", "last 50 (1 so far)"):
        assert fact in shown.out
    listed = manylabel("models")
    assert any(line.split()[:3] == [name, "salt", "1"] for line in listed.out.splitlines())
    lines = [json.loads(line) for line in manylabel("models", "--json").out.splitlines()]
    assert name in {line["name"] for line in lines}
    assert manylabel("models", "delete", name, "--yes").status == 0
    assert manylabel("models", "show", name).status == 1


def test_limits_are_options_of_create(manylabel: Command, client: Client, name: str) -> None:
    made = manylabel(
        "models", "create", name, "--limit", "features=3,hash", "--limit", "labels=1,ignore", "--json"
    ).checked()  # fmt: skip
    limits = {"features": {"most": 3, "policy": "hash"}, "labels": {"most": 1, "policy": "ignore"}}
    assert json.loads(made.out)["limits"] == limits
    client.model(name).update({"a": 1.0}, ["x", "y"])
    status = client.model(name).status()
    assert (status.limits, status.ignored) == (limits, {"features": 0, "labels": 1})
    shown = manylabel("models", "show", name)
    for fact in ("3 features, hash", "1 labels, ignore (1 ignored)"):
        assert fact in shown.out
    for wrong in ("features", "features=3", "features=hash", "features=3,"):
        assert manylabel("models", "create", f"{name}-2", "--limit", wrong).status == 2
    refused = manylabel("models", "create", f"{name}-2", "--limit", "labels=3,hash")
    assert refused.status == 1
    assert "/limits/labels/policy" in refused.err


def test_delete_asks_for_confirmation(manylabel: Command, client: Client, tags: str) -> None:
    assert manylabel("models", "delete", tags, stdin="n\n").status == 1
    assert manylabel("models", "delete", tags, stdin="").status == 1
    assert client.model(tags).status().updates == 6
    assert manylabel("models", "delete", tags, stdin="y\n").status == 0


def test_features_and_labels_may_be_fixed_at_creation(manylabel: Command, name: str) -> None:
    assert manylabel("models", "create", name, "--features", "a,b", "--labels", "l").status == 0
    assert manylabel("update", name, '{"x": {"c": 1}, "y": ["l"]}').status == 1
    assert manylabel("update", name, '{"x": {"a": 1}, "y": ["l"]}').status == 0
    assert manylabel("models", "create", f"{name}-2", "--param", "eta").status == 2
    wrong = manylabel("models", "create", f"{name}-2", "--param", "eta=large")
    assert wrong.status == 1
    assert "eta" in wrong.err


def test_one_prediction_is_printed_as_a_table_of_scores(manylabel: Command, tags: str) -> None:
    done = manylabel("predict", tags, '{"x": {"word=cat": 1}}').checked()
    lines = [line.split() for line in done.out.splitlines() if line.strip()]
    assert lines[0] == ["pets"]
    scores = {line[0]: float(line[1]) for line in lines if line[0] in ("pets", "music") and len(line) == 2}
    assert scores["pets"] > 0 > scores["music"]


def test_predict_prints_probabilities_on_request(manylabel: Command, tags: str) -> None:
    done = manylabel("predict", tags, "--probabilities", '{"x": {"word=cat": 1}}').checked()
    lines = [line.split() for line in done.out.splitlines() if line.strip()]
    likely = {line[0]: float(line[2]) for line in lines if line[0] in ("pets", "music") and len(line) == 3}
    assert 0 <= likely["music"] < likely["pets"] <= 1
    many = manylabel("predict", tags, "--probabilities", stdin=f"{CAT}\n{CAT}\n")
    assert many.out.splitlines() == [f"pets ({likely['pets']:.2f})"] * 2
    answer = json.loads(manylabel("predict", tags, "--probabilities", "--json", CAT).out)
    assert {label: round(p, 4) for label, p in answer["probabilities"].items()} == likely


def test_drift_is_shown_with_the_measures(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name, params={"drift": "adwin"})
    model.update({"word=cat": 1}, ["pets"])
    for command in (("evaluate", name), ("models", "show", name)):
        assert ["(all", "labels)", "0", "never"] in [line.split() for line in manylabel(*command).out.splitlines()]
    assert json.loads(manylabel("evaluate", name, "--json").out)["drift"] == {"alarms": 0, "last": None, "labels": {}}


def test_many_predictions_are_printed_as_a_line_each(manylabel: Command, tags: str, tmp_path: Path) -> None:
    file = tmp_path / "examples.ndjson"
    file.write_text(f"{CAT}\n\n{SONG}\n{CAT}\n")
    assert manylabel("predict", tags, str(file)).out.splitlines() == ["pets", "music", "pets"]
    assert manylabel("predict", tags, "-", "--batch-size", "1", stdin=f"{SONG}\n").out == "music\n"
    answers = manylabel("predict", tags, "--json", "--batch-size", "2", stdin=file.read_text()).out.splitlines()
    assert [json.loads(line)["labels"] for line in answers] == [["pets"], ["music"], ["pets"]]
    assert json.loads(answers[0])["scores"].keys() == {"pets", "music"}


def test_names_that_a_list_cannot_hold_are_json_strings() -> None:
    names = ["plain", "two words", "a, b", 'say "x"', "two\nlines", " padded", "like (0.50)", "C++"]
    prediction = Prediction(
        labels=names, scores={}, threshold=0.0, probabilities={"plain": 0.5, "a, b": 0.25}, position="1"
    )
    listed = ", ".join(label_texts(prediction))
    assert listed == (
        'plain (0.50), two words, "a, b" (0.25), "say \\"x\\"", "two\\nlines", " padded", "like (0.50)", C++'
    )


def test_scores_stand_below_their_name(capsys: pytest.CaptureFixture[str]) -> None:
    print_prediction(Prediction(labels=["pets"], scores={"music": -0.5, "pets": 0.25}, threshold=0.0, position="1"))
    _, _, header, _, best, other = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in (header, best, other)]
    assert rows == [["label", "score"], ["pets", "+0.2500"], ["music", "-0.5000"]]


def test_predict_prints_only_selected_labels(manylabel: Command, client: Client, tags: str) -> None:
    shown = json.loads(manylabel("predict", tags, "--top", "1", "--json", CAT).out)
    assert (list(shown["scores"]), shown["scores_of"]) == (["pets"], 2)
    assert "the best 1 of 2 labels" in manylabel("predict", tags, "--top", "1", CAT).out
    for flags in (("--only", "mus*"), ("--except", "pets"), ("--only", "music", "--only", "p*", "--except", "pe*")):
        shown = json.loads(manylabel("predict", tags, *flags, "--json", CAT).out)
        assert (list(shown["scores"]), shown["labels"]) == (["music"], [])


def test_labels_with_few_examples_are_marked(manylabel: Command, client: Client, name: str) -> None:
    client.create_model(name).update({"a": 1.0}, ["x"])
    assert client.model(name).labels().labels[0].learning == Learning(seen=1, needed=5)
    assert "x (learning, 1 of 5 examples)" in manylabel("models", "labels", name).out


@pytest.mark.parametrize(
    "text",
    [
        f'{{"examples": [{CAT}, {SONG}]}}',
        f"[{CAT}, {SONG}]",
        f"{CAT}\n{SONG}",
        f"\n{CAT}\n\n{SONG}\n",
        f'{{\n  "examples": [\n{CAT},\n{SONG}\n]\n}}\n',
    ],
)
def test_update_accepts_every_form_of_input(
    manylabel: Command, client: Client, name: str, text: str, tmp_path: Path
) -> None:
    model = client.create_model(name)
    file = tmp_path / "examples.json"
    file.write_text(text)
    for source, stdin in ((str(file), ""), ("-", text), *([(text, "")] if text[0] in "[{" else [])):
        done = manylabel("update", name, source, "--json", stdin=stdin).checked()
    updates = json.loads(done.out)["updates"]
    assert updates == model.status().updates
    assert updates in (4, 6)
    assert model.predict({"word=cat": 1}).labels == ["pets"]


def test_a_name_may_hold_any_character(manylabel: Command, client: Client, name: str, tmp_path: Path) -> None:
    model = client.create_model(name)
    label = "\u2028 a\x0bb \x85 ü"
    example = json.dumps({"x": {label: 1}, "y": [label]}, ensure_ascii=False)
    file = tmp_path / "examples.json"
    file.write_text(example, encoding="utf-8")
    for arguments, stdin in (((example,), ""), ((str(file),), ""), ((), example)):
        assert manylabel("update", name, *arguments, stdin=stdin).status == 0
    assert model.predict({label: 1}).labels == [label]


def test_update_prints_the_number_of_learnt_examples(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    assert manylabel("update", name, CAT).out.startswith("1 example learnt; ")
    many, again = (manylabel("update", name, "--key", "k", "--batch-size", "2", stdin=f"{CAT}\n" * 5) for _ in range(2))
    assert many.out.startswith("5 examples learnt; ")
    assert "has learnt 6 " in many.out
    assert "had been learnt before" in again.checked().out
    assert model.status().updates == 6


def test_an_invalid_line_is_named_and_the_rest_can_be_learnt(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name)
    good, bad = f"{CAT}\n" * 5, '{"x": {"word=cat": ["one", 1]}, "y": ["pets"]}\n'
    first = manylabel("update", name, "--key", "k", "--batch-size", "2", stdin=good + bad + good)
    assert first.status == 1
    assert "line 6: /x/word=cat/1 must be a string" in first.err
    assert "4 examples before were learnt; --key k learns only the others" in first.err
    assert model.status().updates == 4
    second = manylabel("update", name, "--key", "k", "--batch-size", "2", stdin=good + CAT + "\n" + good)
    assert second.status == 0
    assert model.status().updates == 11


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "JSON"),
        (f"{CAT}\n{{", "line 2: not JSON"),
        ('{"x": [NaN], "y": []}', "NaN is not a finite number"),
        ('{"x": [1e999], "y": []}', "/x/0 must be a finite number"),
        ('{"x": [1]}', "an example looks like"),
        ('{"x": [1], "y": [], "z": 1}', "an example looks like"),
        ('{"word=cat": 1}', "an example looks like"),
        (f"[{CAT}, 3]", "line 1, example 1: an example looks like"),
        ('{"x": 3, "y": []}', "line 1: /x must be a mapping"),
        ('{"x": [1], "y": "pets"}', "line 1: /y must be a list"),
        ('{"x": [1], "y": [3]}', "line 1: /y/0 must be a string"),
        ('{"x": [1], "y": {"a": 2}}', "/y/a must be true or false"),
        ("", "no examples"),
    ],
)
def test_invalid_input_is_reported_in_one_line_and_changes_nothing(
    manylabel: Command, client: Client, name: str, text: str, message: str
) -> None:
    model = client.create_model(name)
    done = manylabel("update", name, stdin=text)
    assert done.status == 1
    assert message in done.err
    assert done.err.count("\n") == 1
    assert done.err.startswith("manylabel: ")
    assert model.status().updates == 0


def test_typed_input_is_prompted_for(manylabel: Command, client: Client, name: str) -> None:
    client.create_model(name)
    assert "Ctrl-D" not in manylabel("update", name, stdin=CAT).err
    assert "Ctrl-D" in manylabel("update", name, stdin=CAT, typed=True).err


def test_refusals_and_missing_servers_have_exit_codes(manylabel: Command, name: str, tmp_path: Path) -> None:
    unknown = manylabel("predict", name, CAT)
    assert unknown.status == 1
    assert name in unknown.err
    assert "404" in unknown.err
    missing = manylabel("predict", name, str(tmp_path / "none.json"))
    assert missing.status == 1
    assert "none.json' is neither a file nor valid JSON; an example looks like" in missing.err
    gone = manylabel("models", "--url", "http://127.0.0.1:9")
    assert gone.status == 3
    assert "http://127.0.0.1:9/v1/models" in gone.err
    for done in (unknown, gone):
        assert done.err.count("\n") == 1
        assert "Traceback" not in done.err


def test_labels_are_listed(manylabel: Command, client: Client, tags: str) -> None:
    client.model(tags).update({"word=cat": 1}, ["pets", "petz"])
    page = client.model(tags).labels(sort="first_seen", limit=1)
    assert (page.total, page.updates, [one.label for one in page.labels]) == (3, 7, ["petz"])
    shown = manylabel("models", "labels", tags, "--sort", "name", "--ascending", "--limit", "2").checked()
    assert "2 of 3 labels" in shown.out
    assert [line.split()[0] for line in shown.out.splitlines() if line.split()[:1] in (["music"], ["pets"])]
    assert "petz" not in shown.out
    found = json.loads(manylabel("models", "labels", tags, "--json").out)
    assert [one["label"] for one in found["labels"]] == ["pets", "music", "petz"]
    assert found["labels"][0]["frequency"] == 4 / 7


def test_labels_are_renamed_merged_and_retired(manylabel: Command, client: Client, tags: str) -> None:
    client.model(tags).update({"word=cat": 1}, ["petz"])
    assert manylabel("models", "rename-label", tags, "pets", "animals").out.startswith("pets is animals now (undo: ")
    merged = manylabel("models", "merge-label", tags, "petz", "animals").out
    assert merged.startswith(f"petz is merged into animals (undo: manylabel undo {tags} ")
    manylabel("undo", tags, merged.rstrip(")\n").split()[-1]).checked()
    assert manylabel("models", "labels", tags, "--json").out.count('"retired": false') == 3
    manylabel("models", "merge-label", tags, "petz", "animals").checked()
    assert manylabel("models", "retire-label", tags, "music").out.startswith("music is retired (undo: ")
    page = client.model(tags).labels(sort="name", descending=False)
    assert [(one.label, one.retired) for one in page.labels] == [("animals", False), ("music", True), ("petz", True)]
    assert "music (retired)" in manylabel("models", "labels", tags).out
    assert manylabel("models", "retire-label", tags, "music").status != 0


def test_alike_labels_are_shown_and_merged(manylabel: Command, client: Client, tags: str) -> None:
    for label in ("Pets", "pets\u00a0", "musi\u200bc"):
        client.model(tags).update({"word=cat": 1}, [label])
    shown = manylabel("models", "show", tags).checked().out
    assert "labels 'pets', 'Pets', 'pets\\xa0' differ only in case, spaces or Unicode form" in shown
    assert f"manylabel models merge-label {tags} --alike" in shown
    merged = manylabel("models", "merge-label", tags, "--alike").checked().out.splitlines()
    assert merged[0] == "'Pets' is merged into 'pets'"
    assert merged[-1] == f"3 labels merged; manylabel log {tags} has the positions for manylabel undo"
    assert "--alike" not in manylabel("models", "show", tags).checked().out
    assert sorted(one.label for one in client.model(tags).labels().labels if not one.retired) == ["music", "pets"]
    assert client.model(tags).labels().total == 5
    client.model(tags).update({"word=cat": 1}, ["Pets"])
    assert client.model(tags).labels().total == 5, "later updates may use the merged names"
    assert manylabel("models", "merge-label", tags, "--alike").checked().out == "0 labels merged\n"
    for wrong in ([], ["pets"], ["pets", "music", "--alike"]):
        assert "--alike alone" in manylabel("models", "merge-label", tags, *wrong).err


def test_labels_are_paused_and_resumed(manylabel: Command, client: Client, tags: str) -> None:
    assert manylabel("models", "pause-label", tags, "music").out.startswith("music is paused (undo: ")
    assert [one.label for one in client.model(tags).labels().labels if one.paused] == ["music"]
    assert "music (paused)" in manylabel("models", "labels", tags).out
    assert "music" not in client.model(tags).predict({"word=cat": 1}).scores
    assert manylabel("models", "resume-label", tags, "music").out.startswith("music is resumed (undo: ")
    assert "music" in client.model(tags).predict({"word=cat": 1}).scores
    assert manylabel("models", "pause-label", tags, "musique").status != 0


def test_labels_get_titles(manylabel: Command, client: Client, tags: str, tmp_path: Path) -> None:
    one = manylabel("models", "describe-labels", tags, "pets", "--title", "Pets", "--uri", "http://x/pets")
    assert (one.status, one.out) == (0, "1 label described\n"), one.err
    table = tmp_path / "labels.csv"
    table.write_text('name,title,description\npets,,"Cats, dogs"\nbirds,Birds,\n')
    assert manylabel("models", "describe-labels", tags, "--file", str(table)).out == "2 labels described\n"
    document = tmp_path / "labels.json"
    document.write_text(json.dumps([{"name": "pets", "uri": None}]))
    assert manylabel("models", "describe-labels", tags, "--file", str(document)).status == 0
    found = {one.label: (one.title, one.description, one.uri) for one in client.model(tags).labels().labels}
    assert (found["pets"], found["birds"]) == (("Pets", "Cats, dogs", None), ("Birds", None, None))
    assert "pets: Pets" in manylabel("models", "labels", tags).out
    assert manylabel("models", "describe-labels", tags, "pets", "--uri", "", "--title", "").status == 0
    assert {one.label: one.title for one in client.model(tags).labels().labels}["pets"] is None
    for wrong in ("", "name\n", "label,title\npets,Pets\n", "name,title\npets,Pets\npets,Pet\n"):
        table.write_text(wrong)
        refused = manylabel("models", "describe-labels", tags, "--file", str(table))
        assert (refused.status, refused.err.count("\n")) == (1, 1)
    for usage in ([], ["pets"], ["pets", "--title", "x", "--file", str(document)], ["--title", "x"]):
        assert manylabel("models", "describe-labels", tags, *usage).status == 2


def test_groups_are_given_by_a_file(manylabel: Command, client: Client, name: str, tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    group = {"name": "priority", "labels": ["low", "high"], "choose": "one"}
    file.write_text(json.dumps({"groups": [group], "parents": {"refund": "billing"}}))
    assert manylabel("models", "create", name, "--groups", str(file)).status == 0
    assert (client.model(name).status().groups, client.model(name).status().parents) == ([group], {"refund": "billing"})
    file.write_text(json.dumps({"parents": {"late": "billing"}}))
    changed = manylabel("models", "set-groups", name, str(file))
    assert changed.checked().out.startswith(f"{name} has 0 groups and 1 labels with a parent now (undo: ")
    assert (client.model(name).status().groups, client.model(name).status().parents) == ([], {"late": "billing"})
    for wrong in ("{", "[]", '{"group": []}', '{"groups": [1]}', '{"parents": []}'):
        file.write_text(wrong)
        assert manylabel("models", "set-groups", name, str(file)).status == 2


def test_many_labels_are_described_in_several_requests(client: Client, tags: str) -> None:
    many = {f"l{n}": f"Title {n}" for n in range(1_001)}
    updated = client.model(tags).describe_labels(many, key="described")
    assert client.model(tags).describe_labels(many, key="described").replayed
    found = client.model(tags).labels(sort="name", limit=1000)
    assert (found.position, found.total >= 1_001) == (updated.position, True)
    with pytest.raises(ValueError, match="at least one"):
        client.model(tags).describe_labels({})


def test_predictions_are_stored_and_labelled_later(
    manylabel: Command, client: Client, tags: str, tmp_path: Path
) -> None:
    before = client.model(tags).status().updates  # type: ignore[union-attr]
    one = manylabel("predict", tags, '{"x": {"word=cat": 1}}', "--keep")
    kept = one.out.splitlines()[0].removeprefix("stored as ")
    many = manylabel("predict", tags, "-", "--keep", stdin='{"x": {"a": 1}}\n{"x": {"b": 1}}\n')
    ids = [kept, *(line.split()[0] for line in many.out.splitlines())]
    told = tmp_path / "told.ndjson"
    told.write_text("".join(json.dumps({"id": id, "y": {"pets": True}}) + "\n" for id in ids))
    done = manylabel("label", tags, str(told), "--batch-size", "2", "--key", "k").checked()
    assert f"3 stored predictions labelled; {tags} has labels of {before + 3:,}" in done.out
    again = manylabel("label", tags, str(told), "--batch-size", "2", "--key", "k")
    assert "labelled (had been labelled before)" in again.out
    part = manylabel("label", tags, json.dumps({"id": kept, "y": {"pets": True}}))
    assert (part.status, "prediction_labelled" in part.err) == (1, True)
    wrong = manylabel("label", tags, '{"x": {"a": 1}, "y": []}')
    assert (wrong.status, "labels of a stored prediction look like" in wrong.err) == (1, True)
    assert json.loads(manylabel("predict", tags, '{"x": {"a": 1}}', "--keep", "--json").out)["id"]


@pytest.fixture
def waiting(client: Client, name: str) -> str:
    """A model with stored predictions of increasing uncertainty."""
    model = client.create_model(name, algorithm="falt")
    model.update_many([({"a": 1}, ["p"]), ({"b": 1}, ["q"])] * 40)
    for x in ({"a": 1}, {"b": 1}, {"c": 1}):
        model.predict(x, keep="record")
    return name


def left(client: Client, name: str) -> list[object]:
    return [one.record for one in client.model(name).predictions(order="uncertainty").predictions]


def test_stored_predictions_are_listed(manylabel: Command, client: Client, waiting: str) -> None:
    lines = manylabel("models", "predictions", waiting, "--limit", "2").out
    found = client.model(waiting).predictions(order="uncertainty", limit=2)
    assert len(found.predictions) == 2
    assert [one.id for one in found.predictions] == [
        line.split()[0] for line in lines.splitlines() if line.strip().startswith("01")
    ]
    with pytest.raises(Invalid, match="order"):
        client.model(waiting).predictions(order="best")
    page = json.loads(manylabel("models", "predictions", waiting, "--order", "newest", "--json").out)
    assert sorted(str(one["record"]) for one in page["predictions"]) == ["{'a': 1}", "{'b': 1}", "{'c': 1}"]


def test_stored_predictions_are_labelled_by_typing(manylabel: Command, client: Client, waiting: str) -> None:
    assert left(client, waiting)[0] == {"c": 1}
    done = manylabel("label", waiting, stdin="r, p,r\n\n\n").checked()
    assert "c: 1" in done.out
    assert "predicted: p (" in done.out
    assert "new: r" in done.out
    assert done.out.endswith("no other predictions wait for labels\n3 labelled\n")
    assert left(client, waiting) == []
    status = client.model(waiting).status()
    assert (status.updates, status.labels) == (83, 3)  # type: ignore[union-attr]
    assert {one.label: one.examples for one in client.model(waiting).labels().labels} == {"p": 42, "q": 41, "r": 1}


@pytest.mark.parametrize(
    ("typed", "labelled"),
    [
        ("q\n", 0),
        ("p\nq\n", 1),
        ("p\n", 1),  # the end of the input
        ("s\nq\nq\n", 0),
        ("s\ns\ns\n", 0),
        ("p\nu\nq\n", 0),
        ("p\nu\nq, p\n-\nq\n", 2),
        ("u\np\nq\n", 1),
        ('["q"]\nq\n', 1),
        ("[1]\nq\n", 0),
    ],
)
def test_a_typist_may_skip_undo_and_quit(
    manylabel: Command, client: Client, waiting: str, typed: str, labelled: int
) -> None:
    done = manylabel("label", waiting, stdin=typed)
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith(f"{labelled} labelled\n")
    assert len(left(client, waiting)) == 3 - labelled


def test_typed_labels_are_sent_in_batches(manylabel: Command, client: Client, waiting: str) -> None:
    done = manylabel("label", waiting, "--send-every", "1", stdin="p\nu\ns\nr\n")
    assert "the earlier ones were sent" in done.out
    assert done.out.endswith("no other predictions wait for labels\n2 labelled\n")
    assert len(left(client, waiting)) == 1


def test_skipped_predictions_may_hide_others(
    manylabel: Command, client: Client, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_next, "MAX_ASKED", 2)
    done = manylabel("label", waiting, stdin="s\ns\ns\n")
    assert done.out.endswith(
        "you skipped 2, and the server lists at most 2: label some of them to see others\n0 labelled\n"
    )
    assert len(left(client, waiting)) == 3


def test_predictions_too_large_for_one_response_are_listed_in_parts(
    manylabel: Command, client: Client, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, limits = LabelLoop._predictions, list[int]()

    def limited(self: LabelLoop, limit: int) -> UnlabelledPage:
        limits.append(limit)
        if limit > 2:  # as if the records were large
            raise TooLarge(413, "batch_too_large", "the predictions have more than 12,582,912 bytes")
        return send(self, limit)

    monkeypatch.setattr(LabelLoop, "_predictions", limited)
    done = manylabel("label", waiting, "--send-every", "9", stdin="p\n-\ns\n").checked()
    assert done.out.endswith("no other predictions wait for labels\n2 labelled\n")
    assert limits == [9, 4, 2, 2, 2]
    assert len(left(client, waiting)) == 1


def test_a_prediction_labelled_by_another_client_does_not_stop_the_rest(
    manylabel: Command, client: Client, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = client.model(waiting).predictions(order="uncertainty").predictions[0].id
    ask = one_by_one._read

    def labelled_meanwhile(prompt: str) -> str | None:
        if ask_first:
            client.model(waiting).label(ask_first.pop(), ["z"])
        return ask(prompt)

    ask_first = [first]
    monkeypatch.setattr(one_by_one, "_read", labelled_meanwhile)
    done = manylabel("label", waiting, stdin="p\np\np\n")
    assert "not learnt: " in done.out
    assert done.out.endswith("2 labelled\n")


def test_control_characters_of_records_are_not_printed(manylabel: Command, client: Client, name: str) -> None:
    client.create_model(name, algorithm="falt").predict({"t": "\x1b[2J\x07 evil", "n": None}, keep="record")
    out = manylabel("label", name, stdin="q\n").out
    assert "evil" in out
    assert not {"\x1b", "\x07"} & set(out)


def test_a_table_without_a_terminal_is_not_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(("model", "text"), [("m", "word " * 30)], words=2)
    assert ("word " * 30).strip() in capsys.readouterr().out


def test_json_examples_have_weights(manylabel: Command, client: Client, name: str, tmp_path: Path) -> None:
    client.create_model(name)
    lines = [{"x": {"word=cat": 1}, "y": ["pets"], "weight": 2.5}, {"x": {"word=song": 1}, "y": ["music"]}]
    file = tmp_path / "examples.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    assert manylabel("update", name, str(file)).status == 0
    assert manylabel("predict", name, str(file)).status == 0
    kept = client.model(name).predict({"word=cat": 1}, keep=True)
    truth = json.dumps({"id": kept.id, "y": ["pets"], "weight": 4})
    assert manylabel("label", name, truth).status == 0
    assert manylabel("models", "labels", name, "--json").out.count('"examples": 6.5') == 1
    refused = manylabel("update", name, '{"x": {"a": 1}, "y": [], "weight": 0}')
    assert (refused.status, "weight" in refused.err) == (1, True)


def test_replicas_are_listed(manylabel: Command, client: Client) -> None:
    (replica,) = client.replicas().replicas
    shown = manylabel("replicas").checked()
    for fact in ("the store has format 1", replica.id, "server", replica.build, "ready"):
        assert fact in shown.out
    told = json.loads(manylabel("replicas", "--json").out)
    assert [one["id"] for one in told["replicas"]] == [replica.id]


def test_a_promise_is_set_and_its_report_printed(manylabel: Command, client: Client, name: str, tmp_path: Path) -> None:
    assert manylabel("models", "create", name).status == 0
    model = client.model(name)
    shares = ("--precision", "0.8", "--settled", "0.7", "--missed", "0.05", "--audit-rate", "0")
    told = manylabel("models", "set-promise", name, *shares)
    assert (told.status, told.out) == (0, f"{name} now promises precision 0.8\n")
    promise = {"precision": 0.8, "settled": 0.7, "missed": 0.05, "audit_rate": 0.0}
    assert model.status().promise == promise
    assert "learning: " in manylabel("evaluate", name, "--precision", "0.8").out
    rows = [{"x": {f"x{n % 3}": 1.0}, "y": [f"l{n % 3}"]} for n in range(300)]
    model.update_many([(row["x"], row["y"]) for row in rows])
    predicted = model.predict({"x1": 1.0})
    assert (predicted.auto, predicted.review) == (["l1"], False)
    account = model.metrics().promise
    assert account is not None
    assert account["total"]["applied"] > 100
    for printed in (manylabel("evaluate", name).out, manylabel("evaluate", name, "--precision", "0.8").out):
        assert f"applied {account['total']['applied']:,}, wrong {account['total']['wrong']}" in printed
        assert "guarantee" not in printed
    assert manylabel("evaluate", name, "--precision", "0.9").status == 2
    assert manylabel("evaluate", name, "--precision", "1").status == 2
    file = tmp_path / "rows.ndjson"
    file.write_text("\n".join(map(json.dumps, rows)))
    simulated = json.loads(manylabel("evaluate", name, str(file), "--precision", "0.9", "--json").out)
    assert (simulated["total"]["examples"], simulated["total"]["wrong"]) == (300, 0)
    assert simulated["total"]["applied"] > 200
    assert manylabel("models", "set-promise", name).status == 2
    assert manylabel("models", "set-promise", name, "--end").out == f"{name} now promises nothing\n"
    assert model.status().promise is None
    assert model.predict({"x1": 1.0}).auto is None
