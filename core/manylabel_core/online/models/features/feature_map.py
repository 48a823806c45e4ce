"""Interface of the feature maps of a feature model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from manylabel_core.rows import Rows


class FeatureMap(Protocol):
    """Map of examples to features whose inner products are, or approximate, a kernel."""

    @property
    def n_columns(self) -> int:
        """Return the number of features at present."""

    @property
    def n_points(self) -> int:
        """Return the number of stored examples."""

    @property
    def grows(self) -> bool:
        """True if an example can add a feature; then examples must be passed one by one."""

    def enlarge(self, n_features: int) -> None:
        """Allocate memory for examples with this number of values."""

    def learn(self, rows: Rows, n_features: int) -> NDArray[Any]:
        """Return the features (n_samples, n_columns) of rows about to be learnt."""

    def score(self, rows: Rows, n_features: int) -> NDArray[Any]:
        """Return the features of rows, changing nothing."""

    def columns_after(self, n_samples: int) -> int:
        """Return the maximum number of features after this number of further examples."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state."""

    def nbytes_after(self, n_features: int, n_samples: int, n_values: int) -> int:
        """Return the maximum bytes of memory after this growth, including memory outside the state."""

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int) -> None:
        """Restore a state; raises ValueError if invalid."""
