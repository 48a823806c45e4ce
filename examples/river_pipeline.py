"""Use ManyLabel in a river pipeline, in this process and on a server, next to a multi-label model of river.

The first three learn the same stream after the same scaler, by progressive validation: each example is predicted, then
learnt. A model on a server needs two requests per example for that. The last needs no pipeline: the server scales,
predicts, learns and evaluates 64 examples per request. One short stream does not rank learners; docs/benchmarks has
comparisons.

    manylabel serve
    python examples/river_pipeline.py

It prints:

    StandardScaler() | ...            micro-F1  Jaccard      time
    ClassifierChain, of river            0.581    0.445     0.5 s
    FALT, in this process                0.623    0.486     0.3 s
    RemoteModel, FALT on the server      0.623    0.486     3.4 s
    without a pipeline: feed             0.625              0.2 s
    FALT here and FALT there predict the same for 100 of 100 new genes
"""

import time

from river import base, datasets, evaluate, linear_model, metrics, multioutput, preprocessing

from manylabel_clients import Client
from manylabel_clients.river import FALT, RemoteModel, feed

ROWS = list(datasets.Yeast().take(700))  # genes: 103 numbers, 14 labels
STREAM, NEW = ROWS[:600], ROWS[600:]


def show(name: str, micro_f1: float, jaccard: float | None, seconds: float) -> None:
    """Print a line of the table."""
    print(f"{name:32}  {micro_f1:8.3f}  {'' if jaccard is None else f'{jaccard:.3f}':>7}  {seconds:6.1f} s")


def measure(name: str, model: base.MultiLabelClassifier) -> None:
    """Predict, then learn, each example of the stream, and print the metrics."""
    micro_f1 = metrics.multioutput.MicroAverage(metrics.F1())  # over all decisions
    jaccard = metrics.multioutput.SampleAverage(metrics.Jaccard())  # the mean over examples
    started = time.perf_counter()
    evaluate.progressive_val_score(STREAM, model, metrics.base.Metrics([micro_f1, jaccard]))
    show(name, micro_f1.get(), jaccard.get(), time.perf_counter() - started)


def main() -> None:
    FALT().learn_one({"x": 1.0}, {"y": True})  # loads the compiled functions before timing
    print(f"{'StandardScaler() | ...':32}  micro-F1  Jaccard      time")
    logistic = multioutput.ClassifierChain(linear_model.LogisticRegression())
    measure("ClassifierChain, of river", preprocessing.StandardScaler() | logistic)
    in_process = preprocessing.StandardScaler() | FALT()
    measure("FALT, in this process", in_process)
    with Client() as client:  # MANYLABEL_URL, or http://127.0.0.1:8000
        client.create_model("genes-pipeline", algorithm="falt")
        on_a_server = preprocessing.StandardScaler() | RemoteModel(client, "genes-pipeline")
        measure("RemoteModel, FALT on the server", on_a_server)

        started = time.perf_counter()
        fed = feed(STREAM, client.create_model("genes-fed", algorithm="falt"))
        show("without a pipeline: feed", fed.metrics.cumulative.micro_f1, None, time.perf_counter() - started)

        same = sum(in_process.predict_one(x) == on_a_server.predict_one(x) for x, _ in NEW)
        print(f"FALT here and FALT there predict the same for {same} of {len(NEW)} new genes")


if __name__ == "__main__":
    main()
