"""How a trial of `python -m benchmarks reproduce prml` chooses between the forms of PrML."""

import numpy as np
from benchmarks.reproduce.prml import FIRST, FORMS, MAIN, REFERENCE, _main
from benchmarks.reproduce.prml_selection import Choice

LEVEL = Choice(0.3, np.zeros((2, 2)), [0.2, 0.2, 0.4, 0.2, 0.7, 0.7])
BETTER = LEVEL._replace(found=[0.1, 0.1, 0.3, 0.1, 0.8, 0.8])
WORSE = LEVEL._replace(found=[0.3, 0.3, 0.5, 0.3, 0.6, 0.6])


def test_of_equal_variants_the_one_without_privileged_labels_is_chosen() -> None:
    off, on = MAIN
    assert off == REFERENCE
    assert _main({on: WORSE, off: LEVEL}, LEVEL)[0] is FORMS[off]


def test_the_best_variant_is_chosen() -> None:
    off, on = MAIN
    assert _main({on: LEVEL, off: LEVEL}, BETTER) == (FIRST, BETTER)
    assert _main({on: BETTER, off: LEVEL}, WORSE) == (FORMS[on], BETTER)
