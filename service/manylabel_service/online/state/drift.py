"""What the detectors of drift have said, as JSON shows it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def drift_shown(counts: NDArray[np.int64], last: NDArray[np.int64], label_names: Sequence[str]) -> dict[str, Any]:
    """The alarms of the detector of all labels, and of those labels whose own has sounded.

    Parameters
    ----------
    counts : alarms so far, shape (1 + n_labels,): of the detector of all labels, and of each label.
    last : examples learnt when each sounded last, 0 for never; of the same shape.
    label_names : in column order.
    """
    counts_listed, last_listed = counts.tolist(), last.tolist()
    labels = {
        label_names[column - 1]: {"alarms": counts_listed[column], "last": last_listed[column]}
        for column in (1 + np.flatnonzero(counts[1:])).tolist()
    }
    return {"alarms": counts_listed[0], "last": last_listed[0] or None, "labels": labels}
