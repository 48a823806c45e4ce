"""Budget of support vectors, enforced by merging."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manylabel_core._mercer import inner_product
from manylabel_core.online.models._kernel_column import kernel_column
from manylabel_core.online.models.expansion._merge import find_partner, mix, shrink, similarities
from manylabel_core.online.models.expansion.strategy import Example, Strategy, SupportVectors
from manylabel_core.online.models.points import KernelSettings

MEMORY = 100
"""Number of mergers, in multiples of the budget, after which coefficients have decayed: each merger shrinks all but the
newest coefficients by the share 1 / (MEMORY budget). Losses of mergers are noise that later updates do not fully
correct; without decay it is noticeable after 100,000 examples. In a regularised SVM, for which the method was designed,
gradient steps cause the decay.
"""


class Merge(Strategy):
    """Merging: above the budget, the vector with the smallest coefficients is joined with its best partner.

    The partner is the vector whose merger loses least, summed over the columns (Wang, Crammer, Vucetic: Breaking the
    curse of kernelization, JMLR 13, 2012, section 4.3). With a budget of 1 everything is merged into one vector.
    """

    separate_intercept = True

    def __init__(self, settings: KernelSettings, budget: int) -> None:
        self._shape, self._budget = settings.shape, budget

    def add(self, support: SupportVectors, x: Example, tau: NDArray[np.float64]) -> None:
        """Add a vector, and merge two if there are too many."""
        super().add(support, x, tau)
        if support.n_points > self._budget:
            shrink(support.alpha, support.alpha_norms, self._budget, 1.0 - 1.0 / (MEMORY * self._budget))
            slot = int(np.argmin(support.alpha_norms[: support.n_points]))
            column = self._column(support, slot, x.work)
            partner, h = find_partner(support.alpha, support.alpha_norms, slot, column, support.n_points)
            self._merge(support, slot, partner, column[partner], h)

    def _column(self, support: SupportVectors, slot: int, work: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the kernel values of a vector with all vectors."""
        column = np.empty(support.n_points)
        kernel_column(self._shape, 0.0, *support.parts, work, *support.point(slot), column)
        return column

    def _merge(self, support: SupportVectors, slot: int, partner: int, value: float, h: float) -> None:
        """Replace the partner by h times the vector of the slot + (1 - h) times the partner, and free the slot."""
        of_slot, of_partner = similarities(value, h)
        support.alpha[partner] = support.alpha[partner] * of_partner + support.alpha[slot] * of_slot
        one, other = support.point(slot), support.point(partner)
        indices = np.empty(len(one[0]) + len(other[0]), dtype=np.int32)
        values = np.empty(len(indices), dtype=support.values.dtype)
        n = mix(*one, *other, h, indices, values)
        support.move(partner, indices[:n], values[:n], inner_product(values[:n], values[:n]))
        support.update_norm(partner)
        support.remove(slot)
