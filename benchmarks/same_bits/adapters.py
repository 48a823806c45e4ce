"""River classifiers on river's Yeast: probabilities and predictions before each example."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any

from river import datasets

import manylabel_clients.river
from benchmarks.same_bits.digest import print_digests
from benchmarks.same_bits.learners import STEPS, kinds

ROWS = 150


def outcome(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Predict and learn the first rows."""
    model = getattr(manylabel_clients.river, name)(**parameters)
    likely, predicted = [], []
    for x, y in islice(datasets.Yeast(), ROWS):
        likely.append({label: both[True] for label, both in model.predict_proba_one(x).items()})
        predicted.append(model.predict_one(x))
        model.learn_one(x, y)
    return {"probabilities": likely, "predictions": predicted}


def _cases() -> dict[str, Callable[[], Mapping[str, Any]]]:
    return {f"{name} {kind}": partial(outcome, name, kind) for name in STEPS for kind in kinds(name)}


if __name__ == "__main__":
    print_digests(_cases())
