"""The computations of a training process, run in this process."""

import errno
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tests.service.jobs.conftest import request_of, songs

from manylabel_core.batch import LSAMML, M3L, SSMLRL
from manylabel_core.batch.catalogue import TRAINERS
from manylabel_core.batch.decisions.choice import validated_scores
from manylabel_core.datasets import Dataset
from manylabel_core.metrics import hamming_loss, micro_f1
from manylabel_core.metrics.baseline import frequent_labels
from manylabel_core.priors import label_correlation
from manylabel_core.solvers import Progress
from manylabel_core.splitting import folds, held_out
from manylabel_service.jobs.training import fitting
from manylabel_service.jobs.training.fitting import TRACE_POINTS, ConvergenceTrace, FitCheckpoint, FitRun
from manylabel_service.jobs.training.request import Part
from manylabel_service.trained.artifact import ModelArtifact

DATA = songs(120)
ALL = Part(file="data", split=None)
WEIGHTS = np.random.default_rng(4).choice([0.1, 0.5, 1.0, 2.0, 8.0], 120)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "data").write_bytes(DATA.to_bytes())
    return tmp_path


def work(place, **order):
    """Do a request; what was reported, events first."""
    told = []
    FitRun(request_of(**order), place, lambda event, said: told.append((event, said))).run()
    return told


def estimator(place):
    return ModelArtifact.from_bytes((place / "result").read_bytes()).estimator


def out_of_fold(parts, weights, **params):
    """Scores of each row by a model that has not learnt it."""
    scores = np.empty(DATA.Y.shape)
    for learnt, held in parts:
        model = M3L(**params, scaling="auto", optimise="none")
        model.fit(DATA.X[learnt], DATA.Y[learnt], sample_weight=None if weights is None else weights[learnt])
        scores[held] = model.decision_function(DATA.X[held])
    return scores


@pytest.mark.parametrize(
    ("optimise", "weights"),
    [("none", None), ("micro_f1", None), ("hamming", None), ("none", WEIGHTS), ("micro_f1", WEIGHTS)],
    ids=["none", "micro_f1", "hamming", "none, weighted", "micro_f1, weighted"],
)
def test_a_trial_scores_each_fold_and_resumes_between_them(place, optimise, weights):
    """Thresholds for the rows of a fold are chosen by the other folds; rows count by their weights."""
    (place / "data").write_bytes(replace(DATA, weights=weights).to_bytes())
    trial = {"kind": "trial", "params": {"C": 2.0, "optimise": optimise}, "rows": ALL, "segment_work": 1e9}
    told = work(place, **trial)
    parts = folds(120, 3, seed=0)
    scores = out_of_fold(parts, weights, C=2.0)
    if optimise != "none":
        scores = validated_scores(scores, DATA.Y.toarray() > 0, parts, optimise, weights)
    assert told[-1][0] == "result"
    assert told[-1][1]["scores"] == [
        micro_f1(DATA.Y[held], scores[held] > 0, None if weights is None else weights[held]) for _, held in parts
    ]
    files = [said["file"] for event, said in told if event == "checkpoint"]
    assert len(files) == 2
    (place / files[-1]).rename(place / "checkpoint")
    assert len(FitCheckpoint.from_bytes((place / "checkpoint").read_bytes()).scores) == 2
    again = work(place, **trial)
    assert again[-1][1] == {**told[-1][1], "seconds": again[-1][1]["seconds"]}
    assert "checkpoint" not in dict(again)


def test_thresholds_and_probabilities_are_those_of_the_estimator(place):
    told = work(place, params={"C": 0.02}, rows=ALL, segment_work=1e9)
    expected = M3L(C=0.02, scaling="auto").fit(DATA.X, DATA.Y, label_names=DATA.label_names)
    assert expected.threshold_.any()
    assert estimator(place) == expected.to_bytes()
    where = [(said["fold"], said["folds"]) for event, said in told if event == "progress"]
    assert list(dict.fromkeys(where)) == [(1, 3), (2, 3), (3, 3), (None, 3)]
    work(place, params={"C": 0.02, "optimise": "none"}, rows=ALL, segment_work=1e9)
    plain = M3L(C=0.02, scaling="auto", optimise="none").fit(DATA.X, DATA.Y, label_names=DATA.label_names)
    assert estimator(place) == plain.to_bytes()


def test_a_fit_resumes_within_and_after_its_folds(place):
    order = {"params": {"C": 100.0, "kernel": "rbf", "tol": 1e-6}, "rows": ALL}
    told = work(place, **order)
    expected = estimator(place)
    files = [said["file"] for event, said in told if event == "checkpoint"]
    assert {file.split("-")[1] for file in files} == {"0", "1", "2", "3"}
    for file in (next(file for file in files if file.startswith(f"checkpoint-{done}-")) for done in range(4)):
        (place / "checkpoint").write_bytes((place / file).read_bytes())
        again = work(place, **order)
        assert estimator(place) == expected
        begun = next(said["fold"] for event, said in again if event == "progress")
        assert begun == {"0": 1, "1": 2, "2": 3, "3": None}[file.split("-")[1]]
        (place / "checkpoint").unlink()


def test_a_fold_that_cannot_be_learnt_leaves_the_model_without_thresholds(place):
    views = {"sound": np.hstack([DATA.X[:, :3]] * 20), "text": np.hstack([DATA.X] * 20)}
    (place / "data").write_bytes(Dataset(views, DATA.Y, DATA.label_names).to_bytes())
    params = {"n_components": 100, "max_iter": 2}
    told = work(place, trainer="lsa_mml", params=params, rows=ALL)
    texts = [said["text"] for event, said in told if event == "log"]
    assert any(text.startswith("thresholds and probabilities are not fitted, because a fold") for text in texts)
    assert LSAMML.from_bytes(estimator(place)).curves_ is None


def test_too_few_rows_for_folds_are_in_the_log_of_the_job(place):
    (place / "data").write_bytes(DATA.take(np.arange(5)).to_bytes())
    told = work(place, params={"C": 0.02}, rows=ALL)
    texts = [said["text"] for event, said in told if event == "log"]
    assert "thresholds and probabilities are not fitted: 3 folds need at least 6 rows, not 5" in texts
    assert M3L.from_bytes(estimator(place)).curves_ is None


def test_a_trial_resumes_within_a_fold(place, monkeypatch):
    trial = {"kind": "trial", "params": {"C": 100.0, "kernel": "rbf", "tol": 1e-6}, "rows": ALL}
    told = work(place, **trial)
    inside = [said["file"] for event, said in told if event == "checkpoint" and not said["file"].endswith("-0")]
    assert len(inside) >= 3
    (place / inside[-1]).rename(place / "checkpoint")
    again = work(place, **trial)
    assert again[-1][1]["scores"] == told[-1][1]["scores"]


def test_a_fit_continues_if_the_disk_is_too_full_for_checkpoints(place, monkeypatch):
    order = {"params": {"C": 100.0, "kernel": "rbf", "tol": 1e-6}, "rows": ALL}
    told = work(place, **order)
    expected = estimator(place)
    write = Path.write_bytes

    def full(self, data):
        if self.name.startswith("checkpoint-"):
            write(self, data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    again = work(place, **order)
    assert len([1 for event, _ in told if event == "checkpoint"]) >= 2
    assert "checkpoint" not in dict(again)
    assert {"text": "continues without a checkpoint: No space left on device"} in [said for _, said in again]
    assert estimator(place) == expected


def test_the_label_correlation_is_passed_to_m3l(place):
    work(place, params={"R": "label_correlation"}, segment_work=1e9)
    train = DATA.split("train")
    expected = M3L(R=label_correlation(train.Y), scaling="auto").fit(train.X, train.Y, label_names=DATA.label_names)
    assert estimator(place) == expected.to_bytes()
    work(place, params={"R": np.diag([1.0, 2.0, 3.0]).tolist()}, segment_work=1e9)
    expected = M3L(R=np.diag([1.0, 2.0, 3.0]), scaling="auto").fit(train.X, train.Y, label_names=DATA.label_names)
    assert estimator(place) == expected.to_bytes()


def test_unlabelled_rows_are_passed_to_semi_supervised_trainers(place):
    labelled = np.arange(120) < 60
    half = Dataset.of(DATA.X, DATA.Y.toarray() * labelled[:, None], DATA.label_names, labelled=labelled)
    (place / "data").write_bytes(half.to_bytes())
    params = {"lam1": 1e-2, "lam2": 1e-4}
    told = work(place, trainer="ssmlrl", params=params, rows=ALL, segment_work=1e9)
    expected = SSMLRL(**params, scaling="auto").fit(DATA.X[:60], DATA.Y[:60], DATA.X[60:], label_names=DATA.label_names)
    expected.n_iter_ = SSMLRL.from_bytes(estimator(place)).n_iter_
    assert estimator(place) == expected.to_bytes()
    assert told[-1][1]["rows"] == 60
    assert work(place, trainer="m3l", rows=ALL)[-1][1]["rows"] == 60


def test_views_are_joined_for_trainers_of_one_view(place):
    views = {"sound": DATA.X[:, :3], "text": DATA.X[:, 3:]}
    names = {"sound": ("a", "b", "c"), "text": None}
    (place / "data").write_bytes(Dataset(views, DATA.Y, DATA.label_names, names).to_bytes())
    work(place, rows=ALL)
    assert M3L.from_bytes(estimator(place)).n_features_in_ == 5
    work(place, trainer="lsa_mml", params={"n_components": 1}, rows=ALL)
    contents = ModelArtifact.from_bytes((place / "result").read_bytes())
    assert dict(contents.features) == {"sound": ("a", "b", "c"), "text": 2}


def test_rows_may_lack_views(place):
    """Labelled rows have one view, evaluation rows the other, and unlabelled rows both."""
    sound, text = DATA.X[:, :3], DATA.X[:, 3:]
    rows = np.arange(120)
    parts = {
        "data": Dataset({"sound": sound}, DATA.Y, DATA.label_names).take(rows[:60]),
        "unlabelled": Dataset({"text": text, "sound": sound}, DATA.Y, DATA.label_names).take(rows[60:90]),
        "held": Dataset({"text": text}, DATA.Y, DATA.label_names).take(rows[90:]),
    }
    for name, part in parts.items():
        (place / name).write_bytes(part.to_bytes())
    order = {"trainer": "lsa_mml", "params": {"n_components": 3}}
    unlabelled, held = Part(file="unlabelled", split=None), Part(file="held", split=None)
    told = work(place, rows=ALL, unlabelled=unlabelled, held=held, **order)
    labelled, has_text = rows[:90] < 60, rows[:90] >= 60
    direct = LSAMML(n_components=3, scaling="auto", random_state=0)
    views = {"sound": sound[:90], "text": sp.csr_array(np.where(has_text[:, None], text[:90], 0))}
    direct.fit(views, DATA.Y[:90], labelled, {"text": ~has_text}, label_names=DATA.label_names)
    learnt = LSAMML.from_bytes(estimator(place))
    np.testing.assert_allclose(learnt.view_shares_, [1, 1 / 3])
    np.testing.assert_array_equal(learnt.label_scores({"text": text[90:]}), direct.label_scores({"text": text[90:]}))
    expected = hamming_loss(DATA.Y[90:], direct.predict({"text": text[90:]}))
    assert told[-1][1]["held_out"]["measures"]["hamming_loss"] == expected
    contents = ModelArtifact.from_bytes((place / "result").read_bytes())
    assert dict(contents.features) == {"sound": 3, "text": 2}


def test_the_seed_decides_what_is_held_out(place):
    held = {work(place, rows=ALL, held=0.3, seed=seed)[-1][1]["held_out"]["measures"]["micro_f1"] for seed in (0, 0, 1)}
    assert len(held) == 2


def test_only_the_most_frequent_labels_are_reported(place, monkeypatch):
    monkeypatch.setattr(fitting, "MAX_LABELS_REPORTED", 2)
    told = work(place, held=Part(file="data", split="test"))
    counts = dict(zip(DATA.label_names, DATA.split("test").label_counts(), strict=True))
    assert list(told[-1][1]["held_out"]["labels"]) == [name for name in counts if counts[name] > min(counts.values())]
    assert list(ModelArtifact.from_bytes((place / "result").read_bytes()).label_scores) == list(DATA.label_names)


def test_a_fit_that_does_not_converge_is_reported_once(place):
    told = work(place, params={"C": 100.0, "kernel": "rbf", "tol": 1e-9, "max_iter": 30})
    logs = [said["text"] for event, said in told if event == "log"]
    assert len(logs) == 1
    assert logs[0].startswith("not converged in max_iter=30 iterations: the relative gap is ")
    assert sum(event == "checkpoint" for event, _ in told) >= 2


@pytest.mark.parametrize(
    ("order", "detail"),
    [
        ({"params": {"R": [[1.0]]}}, "R must have the shape"),
        ({"held": 0.001}, "both parts must have rows"),
        ({"rows": Part(file="data", split="nope")}, "there is no split 'nope'"),
        ({"kind": "trial", "folds": 91}, "folds must be at most the number of rows, 90"),
        ({"trainer": "lsa_mml", "params": {"n_components": 50}}, "n_components must be at most"),
    ],
)
def test_data_and_parameters_that_cannot_be_trained_with_are_refused(place, order, detail):
    with pytest.raises(ValueError, match=detail):
        work(place, **order)


def test_a_trace_is_thinned_and_stays_even():
    trace = ConvergenceTrace()
    for iteration in range(5000):
        trace.add(Progress(iteration, -1.0 if iteration else float("inf"), 0.5, 1.0, 0.1))
    seen = trace.convergence().iteration
    assert TRACE_POINTS / 2 <= len(seen) <= TRACE_POINTS
    assert set(np.diff(seen)) == {16}
    assert seen[0] == 16  # the first had no objective yet
    checkpoint = FitCheckpoint([np.eye(2)], [1.0], trace=trace, estimator=b"\x00\x01")
    restored = FitCheckpoint.from_bytes(checkpoint.to_bytes())
    assert restored.to_bytes() == checkpoint.to_bytes()
    assert (restored.seconds, restored.trace, restored.estimator) == ([1.0], trace, b"\x00\x01")
    np.testing.assert_array_equal(restored.scores, [np.eye(2)])


@pytest.mark.parametrize("name", TRAINERS)
def test_every_trainer_makes_a_model(place, name):
    params = {"max_iter": 3, **({"n_components": 1} if name == "lsa_mml" else {})}
    if TRAINERS[name].views:
        views = {"sound": DATA.X[:, :2], "text": DATA.X[:, 2:]}
        (place / "data").write_bytes(Dataset(views, DATA.Y, DATA.label_names).to_bytes())
    told = work(place, trainer=name, params=params, rows=ALL, held=0.2)
    assert told[-1][1]["held_out"]["measures"]["micro_f1"] > 0.2
    assert TRAINERS[name].estimator_class().from_bytes(estimator(place)).warm_start is False


@pytest.fixture
def weighted(place):
    (place / "data").write_bytes(replace(DATA, weights=WEIGHTS).to_bytes())
    return place


@pytest.mark.parametrize("trainer", [name for name, trainer in TRAINERS.items() if trainer.weights])
def test_a_fit_with_weights_is_that_of_the_estimator(weighted, trainer):
    """To the bit, with its thresholds and probabilities."""
    expected = TRAINERS[trainer].estimator_class()(scaling="auto")
    expected.fit(DATA.X, DATA.Y, label_names=DATA.label_names, sample_weight=WEIGHTS)
    work(weighted, trainer=trainer, rows=ALL, segment_work=1e9)
    expected.n_iter_ = type(expected).from_bytes(estimator(weighted)).n_iter_  # the last that it has told of
    assert estimator(weighted) == expected.to_bytes()
    (weighted / "data").write_bytes(DATA.to_bytes())
    work(weighted, trainer=trainer, rows=ALL, segment_work=1e9)
    assert estimator(weighted) != expected.to_bytes()


@pytest.mark.parametrize("held", [0.25, Part(file="held", split=None)])
def test_rows_held_out_count_by_their_weights(weighted, held):
    """A weight counts a row that many times; the support is a number of rows."""
    weights = WEIGHTS.clip(1).astype(int)
    (weighted / "data").write_bytes(replace(DATA, weights=weights.astype(float)).to_bytes())
    learnt, kept = held_out(120, 0.25, 0)
    if isinstance(held, Part):
        (weighted / "data").write_bytes(replace(DATA, weights=weights.astype(float)).take(learnt).to_bytes())
        (weighted / "held").write_bytes(replace(DATA, weights=weights.astype(float)).take(kept).to_bytes())
    measured = dict(work(weighted, rows=ALL, held=held, segment_work=1e9))["result"]["held_out"]
    model = M3L(scaling="auto").fit(DATA.X[learnt], DATA.Y[learnt], sample_weight=weights[learnt])
    often = np.repeat(kept, weights[kept])
    scores, Y = model.decision_function(DATA.X[often]), DATA.Y[often]
    assert measured["rows"] == 30
    assert measured["measures"]["micro_f1"] == pytest.approx(micro_f1(Y, scores > 0), rel=1e-12)
    assert measured["measures"]["hamming_loss"] == pytest.approx(hamming_loss(Y, scores > 0), rel=1e-12)
    baseline = np.tile(frequent_labels(DATA.Y[np.repeat(learnt, weights[learnt])]), (len(often), 1))
    assert measured["baseline"]["micro_f1"] == pytest.approx(micro_f1(Y, baseline > 0), rel=1e-12)
    for label, name in enumerate(DATA.label_names):
        found = measured["labels"][name]
        true, chosen = Y[:, [label]].toarray() > 0, scores[:, [label]] > 0
        assert found["f1"] == pytest.approx(micro_f1(Y[:, [label]], chosen), rel=1e-12)
        assert found["precision"] == pytest.approx((true & chosen).sum() / chosen.sum(), rel=1e-12)
        assert found["recall"] == pytest.approx((true & chosen).sum() / true.sum(), rel=1e-12)
        assert found["support"] == DATA.Y[kept][:, [label]].sum()


def test_unlabelled_rows_have_no_weights(weighted):
    (weighted / "unlabelled").write_bytes(replace(DATA, weights=WEIGHTS).take(np.arange(90, 120)).to_bytes())
    (weighted / "data").write_bytes(replace(DATA, weights=WEIGHTS).take(np.arange(90)).to_bytes())
    more = Part(file="unlabelled", split=None)
    work(weighted, trainer="ssmlrl", rows=ALL, unlabelled=more, segment_work=1e9)
    expected = SSMLRL(scaling="auto")
    expected.fit(DATA.X[:90], DATA.Y[:90], DATA.X[90:], label_names=DATA.label_names, sample_weight=WEIGHTS[:90])
    assert estimator(weighted) == expected.to_bytes()
