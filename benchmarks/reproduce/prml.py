"""PrML and PrBR on enron, yeast, corel5k and bibtex: Table 2 of the paper, and ablations of PrML.

Each trial trains on a random half of the examples and predicts the other half. The paper does not say how it chose the
parameters. Here each trial chooses by three folds of its training half (`prml_selection`) the features, rho, C as a
multiple of it (including one that disables privileged labels), and whether scores are mapped. The ablations change one
part of PrML, retain its features, and choose the rest again; `--quick` omits them. `--gaps` runs `prml_gaps` instead.
"""

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import DataSet, load
from benchmarks.reproduce import prml_gaps
from benchmarks.reproduce.prml_selection import (
    LARGER_IS_BETTER,
    MEASURES,
    TOL,
    Choice,
    Folds,
    Form,
    Half,
    Platt,
    best_index,
    costs,
    feature_kinds,
    measures,
    near,
)
from manylabel_core.batch import PrBR, PrML

Figures = tuple[tuple[float, float], ...]
"""Mean and standard deviation of each of `MEASURES`."""

PAPER: dict[str, dict[str, Figures]] = {
    "enron": {
        "PrBR": ((0.053, 0.001), (0.342, 0.010), (0.238, 0.006), (0.088, 0.003), (0.618, 0.004), (0.638, 0.005)),
        "PrML": ((0.050, 0.001), (0.288, 0.005), (0.221, 0.005), (0.088, 0.006), (0.685, 0.005), (0.674, 0.004)),
    },
    "yeast": {
        "PrBR": ((0.227, 0.004), (0.237, 0.006), (0.487, 0.005), (0.204, 0.003), (0.719, 0.005), (0.623, 0.004)),
        "PrML": ((0.201, 0.003), (0.214, 0.005), (0.459, 0.004), (0.165, 0.003), (0.771, 0.003), (0.685, 0.003)),
    },
    "corel5k": {
        "PrBR": ((0.010, 0.001), (0.740, 0.007), (0.367, 0.005), (0.165, 0.004), (0.227, 0.004), (0.560, 0.005)),
        "PrML": ((0.010, 0.001), (0.675, 0.003), (0.266, 0.007), (0.118, 0.003), (0.282, 0.005), (0.651, 0.004)),
    },
    "bibtex": {
        "PrBR": ((0.014, 0.001), (0.426, 0.004), (0.178, 0.010), (0.096, 0.005), (0.529, 0.009), (0.702, 0.003)),
        "PrML": ((0.012, 0.001), (0.367, 0.003), (0.131, 0.007), (0.066, 0.003), (0.571, 0.004), (0.819, 0.005)),
    },
}
"""Table 2 of You, Xu, Wang, Xu and Tao, "Privileged multi-label learning" (2017), as printed."""
SETS = tuple(PAPER)

OFF = 1e3
"""C in units of rho that disables privileged features for every label."""
FIRST = Form(PrML, 3.0, {})
"""C with which features are chosen: at 3 rho, privileged features are idle nearly everywhere."""
INSIDE = {"fit_intercept": False}
FORMS = {
    "privileged off": Form(PrML, OFF, {}),
    "C = rho": Form(PrML, 1.0, {}),
    "intercept inside": Form(PrML, OFF, INSIDE, constant=True),
    "two rounds": Form(PrML, OFF, {"rounds": 2}),
    "four rounds": Form(PrML, OFF, {"rounds": 4}),
    "PrBR": Form(PrBR, 3.0, {}),
}
"""Forms of PrML. Privileged features are disabled in all but the form named by its C, and PrBR."""
REFERENCE = "privileged off"
MAIN = (REFERENCE, "C = rho")
"""Values of C from which PrML chooses, besides `FIRST`."""


class Fitted(NamedTuple):
    """Result of a form on the test half: the six metrics, its choice, and the seconds of its last fit."""

    measures: list[float]
    chosen: str
    seconds: float


Trial = dict[str, Fitted]
"""Results by the names of `FORMS`, and PrML."""


def run(args: argparse.Namespace) -> None:
    if args.gaps:
        prml_gaps.run(args, SETS)
        return
    for name in args.sets or SETS:
        data = load(args.data, name)
        print(f"== {name}, {args.trials} trials")
        trials = []
        for trial in range(args.trials):
            began = time.perf_counter()
            trials.append(_trial(data, (args.seed, trial), args.quick))
            print(f"trial {trial}: {time.perf_counter() - began:.0f} s, {trials[-1]['PrML'].chosen}", flush=True)
        for method, figures in PAPER[name].items():
            _print_table(method, [trial[method] for trial in trials], figures)
        if not args.quick:
            _print_ablations(trials, PAPER[name]["PrML"])


def _trial(data: DataSet, seed: tuple[int, int], quick: bool) -> Trial:
    order = np.random.default_rng(seed).permutation(len(data.Y))
    other, learnt = np.split(order, [round(0.5 * len(order))])
    X, Y = data.X[learnt], data.Y[learnt]
    kinds = feature_kinds(X)
    of_kinds = {kind: Folds(X, Y, features, seed[1]) for kind, features in kinds.items()}
    tried = [(kind, choice) for kind, folds in of_kinds.items() for choice in folds.tried(FIRST)]
    kind, coarse = tried[best_index([choice.found for _, choice in tried])]
    folds, rhos = of_kinds[kind], near(coarse.rho)
    first = folds.choose(FIRST, rhos)
    transform = kinds[kind](X)
    half, truth = Half(transform(X), Y, transform(data.X[other])), data.Y[other]
    forms = {name: FORMS[name] for name in (*MAIN, "PrBR")} if quick else FORMS
    choices = {name: folds.choose(form, rhos) for name, form in forms.items()}
    main, choices["PrML"] = _main(choices, first)
    forms = {"PrML": main, **forms}
    return {name: _fitted(form, choices[name], folds, half, truth, kind) for name, form in forms.items()}


def _main(choices: dict[str, Choice], first: Choice) -> tuple[Form, Choice]:
    """Return the best form of PrML; of forms with the same scores, the one without privileged labels.

    At C = 3 rho privileged labels are often idle, and then both forms are identical.
    """
    off, on = MAIN
    candidates = [(FORMS[off], choices[off]), (FIRST, first), (FORMS[on], choices[on])]
    return candidates[best_index([choice.found for _, choice in candidates])]


def _fitted(form: Form, choice: Choice, folds: Folds, half: Half, truth: NDArray[Any], kind: str) -> Fitted:
    began = time.perf_counter()
    scores = form.scores(half, choice.rho, TOL)
    seconds = time.perf_counter() - began
    mapped = folds.mapped(choice.scores)
    if mapped:
        scores = Platt.fit(choice.scores, folds.Y)(scores)
    price = "privileged labels off" if form.multiple == OFF else f"C {form.multiple:.3g} rho"
    told = f"{kind}; rho {choice.rho:.3g}, {price}; scores {'mapped' if mapped else 'as they are'}"
    return Fitted(measures(truth, scores), told, seconds)


def _worse(values: NDArray[Any], figures: Figures) -> NDArray[Any]:
    """Return how much worse the means over trials are, in the paper's standard deviations."""
    paper = np.array(figures)
    return (values.mean(axis=0) - paper[:, 0]) * np.where(LARGER_IS_BETTER, -1, 1) / paper[:, 1]


def _print_table(method: str, trials: list[Fitted], figures: Figures) -> None:
    """Print means, standard deviations, and how much worse they are, in the paper's standard deviations."""
    values, paper = np.array([trial.measures for trial in trials]), np.array(figures)
    worse = _worse(values, figures)
    print(f"{method:18}{'ours':>20}{'paper':>18}   worse by, in its standard deviations")
    for k, measure in enumerate(MEASURES):
        ours = f"{values[:, k].mean():.4f} +- {values[:, k].std():.4f}"
        theirs = f"{paper[k, 0]:.3f} +- {paper[k, 1]:.3f}"
        print(f"  {measure:16}{ours:>20}{theirs:>18}   {worse[k]:+.1f}{'  MISSED' if worse[k] > 1 else ''}")
    seconds = np.median([trial.seconds for trial in trials])
    print(f"  no worse than one standard deviation in {(worse <= 1).sum()} of {len(MEASURES)}; {seconds:.1f} s a fit")


def _print_ablations(trials: list[Trial], figures: Figures) -> None:
    """Print the means of all forms, and how much worse average precision and macro-AUC are than without privileged
    features.
    """
    reference = np.array([costs(trial[REFERENCE].measures) for trial in trials])
    print(f"{'':26}met" + "".join(f"{measure:>19}" for measure in MEASURES) + "   gains in the last two, x 1000")
    for name in ("PrML", *FORMS):
        values = np.array([trial[name].measures for trial in trials])
        gains = 1000 * (reference - np.array([costs(trial[name].measures) for trial in trials]))[:, 4:]
        print(
            f"{name:26}{(_worse(values, figures) <= 1).sum():3}" + "".join(f"{v:19.4f}" for v in values.mean(axis=0)),
            end="",
        )
        print("   " + ", ".join(f"{gain.mean():+.1f} +- {gain.std():.1f}" for gain in gains.T))
    print(flush=True)
