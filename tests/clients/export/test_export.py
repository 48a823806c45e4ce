"""Exported models predict as the server: as JSON, as a single Python file, as ONNX."""

import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.support.lazy import lazy

from manylabel_clients import Client
from manylabel_clients.export import portable
from manylabel_clients.export.predictor import LinearPredictor
from manylabel_core.records import RecordEncoder, TextSettings

onnxruntime = lazy("onnxruntime")

N_RECORDS = 300
TOLERANCE = {"rel": 1e-4, "abs": 1e-5}
"""The server computes features in float32."""
WORDS = ["charged", "twice", "order", "café", "Straße", "login", "fails", "日本", "x_1", "don't", "PANIC", "now"]
WORDS += [
    "C++",
    "C#,",
    "c+d",
    "gtk+",
    "\u2605",
    "\U0001f44d\U0001f3fd",
    "\U0001f1eb\U0001f1f7",
    "\u2764\ufe0f",
    "1\ufe0f\u20e3",
    "q\u0323 x",
]


def record(random: Random) -> dict[str, Any]:
    """Return a record with text, categories, numbers and flags, of which some are missing and some never learnt."""
    return {
        "title": " ".join(random.choices([*WORDS, "unheard", "Of!"], k=random.randint(0, 8))),
        "country": random.choice(["FR", "DE", "JP", "XX", None]),
        "size": random.choice([None, 0, random.gauss(100, 30), random.gauss(100, 3000)]),
        "age": random.uniform(1, 90) * random.choice([1, 1, 1000]),
        "kelvin": 293 + random.gauss(0, 0.1),
        **random.choice([{}, {}, {"price": random.gauss(100, 3)}]),
        "paid": random.choice([True, False, None]),
        **random.choice([{}, {}, {"new-field": random.gauss(0, 5)}]),
    }


def labels(x: dict[str, Any]) -> list[str]:
    title = x["title"].lower()
    found = [name for name, word in (("billing", "charged"), ("access", "login"), ("panic", "panic")) if word in title]
    return found + (["old"] if x["age"] > 50 else [])


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    random = Random(7)
    return [record(random) for _ in range(N_RECORDS)]


CASES = {
    "falt": {"algorithm": "falt"},
    "salt": {"algorithm": "salt", "scaling": "unit"},
    "passive-aggressive": {"algorithm": "passive_aggressive"},
    "unscaled": {"algorithm": "falt", "scaling": "none", "params": {"calibrate": False, "optimise": "none"}},
    "zero": {"algorithm": "falt", "missing": "zero"},
}


@pytest.fixture(scope="module", params=[*CASES, "m3l", "m3l-standard"])
def model(request: pytest.FixtureRequest, server: Any) -> str:
    """The name of a model of records."""
    case, random = request.param, Random(3)
    rows = [(x, labels(x)) for x in (record(random) for _ in range(300))]
    for x, _ in rows:
        x.pop("new-field", None)
    for x, _ in rows[-9:]:
        x["age"] = 1e5 + random.random()  # the tenth would be another level
    name = f"take-{case}"
    text = {"fields": ["title"]}
    with Client(server.url) as client:
        if case in CASES:
            client.create_model(name, text=text, **CASES[case]).update_many(rows)
            client.model(name).retire_label("panic")
            client.model(name).pause_label("old")
            return name
        source = client.create_model(f"{name}-source", text=text)
        source.update_many(rows)
        params = {"scaling": "standard"} if case.endswith("standard") else {}
        job = client.train("m3l", {"stream": source.name, "last": 300}, name, params=params, promote="always")
        assert job.wait().state == "succeeded"
    return name


@pytest.fixture
def exported(command: Callable[..., Any], server: Any, tmp_path: Path, model: str) -> Callable[[str], Path]:
    def export(form: str) -> Path:
        file = tmp_path / f"model.{form}"
        command("export-model", model, "--to", form, "-o", str(file), "--url", server.url).checked()
        return file

    return export


def test_an_export_goes_to_standard_output(
    command: Callable[..., Any], server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Client(server.url) as client:
        client.create_model("piped", algorithm="falt").update({"a": 1}, ["x"])
    before = os.umask(0)
    written = command("export-model", "piped", "--to", "json", "-o", "piped.json", "--url", server.url)
    os.umask(before)
    assert (written.status, (tmp_path / "piped.json").stat().st_mode & 0o777) == (0, 0o600)
    (tmp_path / "piped.json").unlink()
    done = command("export-model", "piped", "--to", "json", "-o", "-", "--url", server.url)
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["labels"] == ["x"]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def answers(server: Any, model: str, records: list[dict[str, Any]]) -> list[Any]:
    with Client(server.url) as client:
        has = client.model(model).predict(records[0]).scores
        assert has
        likely = "unscaled" not in model and not model.startswith("take-m3l")
        return client.model(model).predict_many(records, probabilities=likely)


def test_json_predicts_as_the_server(
    exported: Callable[[str], Path], answers: list[Any], records: list[dict[str, Any]]
) -> None:
    document = json.loads(exported("json").read_text())
    assert document["format"] == "manylabel-linear-1"
    predictor = LinearPredictor(document)
    for x, answer in zip(records, answers, strict=True):
        assert predictor.scores(x) == pytest.approx(answer.scores, **TOLERANCE), x
        if answer.probabilities is not None:
            assert predictor.probabilities(x) == pytest.approx(answer.probabilities, **TOLERANCE), x


@pytest.mark.usefixtures("programs")
def test_a_python_file_predicts_as_the_server_without_any_package(
    exported: Callable[[str], Path], answers: list[Any], records: list[dict[str, Any]], tmp_path: Path
) -> None:
    file = exported("python").rename(tmp_path / "taken.py")
    (tmp_path / "records.json").write_text(json.dumps(records))
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); import taken; "
        "print(json.dumps([taken.scores(x) for x in json.load(open(sys.argv[1] + '/records.json'))])); "
        "assert not {'numpy', 'manylabel_core', 'manylabel_clients'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for x, scores, answer in zip(records, json.loads(done.stdout), answers, strict=True):
        assert scores == pytest.approx(answer.scores, **TOLERANCE), x
    once = subprocess.run([sys.executable, "-I", str(file), json.dumps(records[0])], capture_output=True, text=True)
    assert json.loads(once.stdout)["labels"] == answers[0].labels
    for wrong in ([], ["a text that is not JSON"]):
        told = subprocess.run([sys.executable, "-I", str(file), *wrong], capture_output=True, text=True)
        assert (told.returncode, told.stderr.splitlines()[0].startswith("usage: python ")) == (1, True), told.stderr
        assert len(told.stderr.splitlines()) == 1


def test_onnx_predicts_as_the_server(
    exported: Callable[[str], Path], answers: list[Any], records: list[dict[str, Any]]
) -> None:
    session = onnxruntime.InferenceSession(exported("onnx").read_bytes())
    facts = session.get_modelmeta().custom_metadata_map
    names, settings = json.loads(facts["labels"]), TextSettings.from_json(json.loads(facts["text"]))
    others = RecordEncoder(settings)
    for x, answer in zip(records, answers, strict=True):
        features = others.encode({name: value for name, value in x.items() if name != "title"})
        inputs = {
            "names": np.array(list(features), dtype=object),
            "values": np.array(list(features.values()), dtype=np.float32),
            "texts": np.array([unicodedata.normalize("NFKC", x["title"]).replace("\ufe0f", "")], dtype=object),
            "fields": np.array(["title"], dtype=object),
        }
        scores, *likely = session.run(None, inputs)
        assert dict(zip(names, scores.tolist(), strict=True)) == pytest.approx(answer.scores, **TOLERANCE), x
        if answer.probabilities is not None:
            found = dict(zip(names, likely[0].tolist(), strict=True))
            assert found == pytest.approx(answer.probabilities, **TOLERANCE)


def test_a_model_of_numbered_features_is_exported(command: Callable[..., Any], server: Any, tmp_path: Path) -> None:
    random = Random(5)
    rows = [[random.gauss(0, 1) for _ in range(12)] for _ in range(200)]
    with Client(server.url) as client:
        client.create_model("take-dense").update_many([(x, ["up"] if x[3] > 0 else ["down"]) for x in rows])
        wanted = client.model("take-dense").predict_many([[*rows[0][:5], None, *rows[0][6:]], *rows])
    files = {form: tmp_path / f"dense.{form}" for form in ("json", "onnx")}
    for form, file in files.items():
        assert command("export-model", "take-dense", "--to", form, "-o", str(file), "--url", server.url).status == 0
    predictor = LinearPredictor(json.loads(files["json"].read_text()))
    session = onnxruntime.InferenceSession(files["onnx"].read_bytes())
    for x, answer in zip([[*rows[0][:5], None, *rows[0][6:]], *rows], wanted, strict=True):
        assert predictor.scores(x) == pytest.approx(answer.scores, **TOLERANCE)
        given = [(str(place), value) for place, value in enumerate(x) if value is not None]
        names, values = zip(*given, strict=True)
        inputs = {"names": np.array(names, dtype=object), "values": np.array(values, dtype=np.float32)}
        scores = dict(zip(predictor.labels, session.run(["scores"], inputs)[0].tolist(), strict=True))
        assert scores == pytest.approx(answer.scores, **TOLERANCE)


@pytest.mark.parametrize(
    ("spec", "to", "told"),
    [
        ({"algorithm": "kernel_falt"}, "json", "not linear"),
        ({"limits": {"features": {"most": 8, "policy": "hash"}}}, "python", "hashes its features"),
        ({"text": {"fields": ["t"], "ngrams": 2}}, "onnx", "single words only"),
        ({"text": {"fields": ["t"]}, "labels": [{"name": "x", "title": "bb"}]}, "json", "titles of labels"),
    ],
)
def test_unsupported_models_are_refused(
    command: Callable[..., Any], server: Any, tmp_path: Path, spec: dict[str, Any], to: str, told: str
) -> None:
    name = f"refused-{abs(hash(told))}"
    with Client(server.url) as client:
        client.create_model(name, **{"algorithm": "falt", **spec}).update({"t": "a b", "n": 1.0}, ["x"])
    file = tmp_path / "model"
    done = command("export-model", name, "--to", to, "-o", str(file), "--url", server.url)
    assert (done.status, told in done.err, file.exists()) == (1, True, False), done.err


def test_a_model_with_too_many_weights_is_refused(
    command: Callable[..., Any], server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "model.json"
    with Client(server.url) as client:
        model = client.create_model("take-large")
        model.update({"a": 1.0, "b": 2.0}, ["x", "y", "z"])
        options = ("--to", "json", "-o", str(file), "--url", server.url)
        monkeypatch.setattr(portable, "MAX_WEIGHTS", 5)
        done = command("export-model", "take-large", *options)
        assert (done.status, "2 features and 3 labels" in done.err, file.exists()) == (1, True, False), done.err
        monkeypatch.setattr(portable, "MAX_WEIGHTS", 6)
        assert command("export-model", "take-large", *options).status == 0


def test_a_snapshot_is_exported(command: Callable[..., Any], server: Any, tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    with Client(server.url) as client:
        model = client.create_model("take-snapshot")
        model.update({"a": 1.0}, ["x"])
        first = model.take_snapshot().position
        model.update({"a": 1.0, "b": 2.0}, ["y"])
        options = ("--to", "json", "-o", str(file), "--url", server.url)
        assert command("export-model", "take-snapshot", *options).status == 0
        assert json.loads(file.read_text())["learnt"] == 2
        assert command("export-model", "take-snapshot", "--snapshot", first, *options).status == 0
        assert json.loads(file.read_text())["learnt"] == 1
