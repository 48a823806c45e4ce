"""A small quadratic over the simplex."""

import numpy as np

from manylabel_core.compiled import compiled


@compiled
def climb(p, gradient, H, precision, most):  # type: ignore[no-untyped-def]
    """Maximise `gradient.(q - p) - 1/2 (q - p)'H(q - p)` over the simplex, by steps along pairs of coordinates."""
    q, slope = p.copy(), gradient.copy()
    for _ in range(most):
        up, down = 0, -1
        for t in range(len(q)):
            if slope[t] > slope[up]:
                up = t
            if q[t] > 0.0 and (down < 0 or slope[t] < slope[down]):
                down = t
        gain = slope[up] - slope[down]
        if gain <= precision:
            break
        curvature = max(H[up, up] + H[down, down] - 2.0 * H[up, down], np.finfo(np.float64).tiny)
        move = min(gain / curvature, q[down])
        q[up] += move
        q[down] -= move
        for t in range(len(q)):
            slope[t] -= move * (H[t, up] - H[t, down])
    return q
