"""Effect of early stopping on the gain of privileged labels: PrML with and without them, solved to several gaps.

Trials are those of Table 2, with fixed features: RBF features of one width for dense numbers, words unchanged. Both
forms have the rho that is chosen without privileged labels by three folds of the training half. A coarse solution is
regularised by early stopping, and this gain is not due to privileged labels.
"""

import argparse

import numpy as np

from benchmarks.data_sets import DataSet, load
from benchmarks.reproduce.prml_selection import MEASURES, RHOS, Folds, Form, Half, costs, feature_kinds, measures
from manylabel_core.batch import PrML

GAPS = (0.3, 0.1, 0.01, 0.001)
OFF, ON = Form(PrML, 1e3, {}), Form(PrML, 1.0, {})
SHOWN = ("one-error", "ranking loss", "average precision", "macro AUC")
DENSE = "RBF, 2"
SPARSE = "as they are"


def run(args: argparse.Namespace, names: tuple[str, ...]) -> None:
    for name in args.sets or names:
        data = load(args.data, name)
        print(f"== {name}, {args.trials} trials: gains x 1000 on no privileged labels at a gap of {GAPS[-1]:g}")
        found = np.array([_trial(data, (args.seed, trial)) for trial in range(args.trials)])
        reference = found[:, -1:, :1]
        print(f"{'gap':>8}{'':6}" + "".join(f"{measure:>22}" for measure in SHOWN))
        places = [MEASURES.index(measure) for measure in SHOWN]
        for k, gap in enumerate(GAPS):
            for which, form in enumerate(("off", "on")):
                gains = 1000 * (reference[:, 0, 0] - found[:, k, which])[:, places]
                print(f"{gap:8g}{form:>6}" + "".join(f"{g.mean():+13.1f} +- {g.std():4.1f}" for g in gains.T))
        print(flush=True)


def _trial(data: DataSet, seed: tuple[int, int]) -> list[list[list[float]]]:
    """Return costs by gap, form and metric."""
    order = np.random.default_rng(seed).permutation(len(data.Y))
    other, learnt = np.split(order, [round(0.5 * len(order))])
    kinds = feature_kinds(data.X[learnt])
    features = kinds.get(DENSE, kinds[SPARSE])
    rho = Folds(data.X[learnt], data.Y[learnt], features, seed[1]).choose(OFF, RHOS).rho
    transform = features(data.X[learnt])
    half = Half(transform(data.X[learnt]), data.Y[learnt], transform(data.X[other]))
    return [
        [costs(measures(data.Y[other], form.scores(half, rho, gap))).tolist() for form in (OFF, ON)] for gap in GAPS
    ]
