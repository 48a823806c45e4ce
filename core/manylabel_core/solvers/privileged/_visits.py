"""Compiled functions for one label of the SVM+ dual: objectives, and coordinate descent on active variables.

The privileged features of a kind k are +1 for the labels P_k, without the label itself, and -1 for the others, so
their products need the labels of P_k only. With `E_k` the sum of e over the kind, `h_l = sum_k E_k [l in P_k]`, `A =
sum E` and `H = sum h`,

    gamma <w~, t_k> = 4 sum_(l in P_k) h_l - 2 A |P_k| - 2 H + A |t|^2.

Almost all labels are -1 in all t_k, so the t_k have most of their length in common, along which coordinate descent
would be slow. So e moves in two kinds at once, the current one and one with slack (`_step`), and the common part
cancels.
"""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.solvers._shuffle import shuffle
from manylabel_core.solvers.privileged._either import add, score

SLACK = 0.01
"""A variable at 0 is not visited if it is on the right side of its margin by at least this."""
ENOUGH = 0.1
"""A visit ends when a sweep gains less than this share of the first gain."""
POLISH = 3
"""Sweeps over kinds after one over points: beta must follow, because slacks below 0 cost much in the primal."""
SMALL = 1e-3
"""A visit ends when a sweep gains less than this share of the allowed gap."""
QUIET = 0.1
"""Errors of slacks that cost less than this share of the allowed gap are ignored."""
ALIKE = 1e-9
"""Curvature of a difference of kinds, relative to that of one kind, below which it is a rounding error."""
NOTHING = 1e-12
"""Slack of a kind, relative to the margin 1, below which it is a rounding error."""
ROUNDING = 1e-11
"""E of a kind, relative to its C, below which it is a rounding error."""


@compiled
def intercept(task, label, alpha):  # type: ignore[no-untyped-def]
    """Return `b = B^2 sum_i y a`."""
    if task.intercept == 0.0:
        return 0.0
    total = 0.0
    for i in range(len(alpha)):
        total += task.Y[label, i] * alpha[i]
    return task.intercept * total


@compiled
def excess(task, alpha, beta):  # type: ignore[no-untyped-def]
    """Return E of all kinds, (n_kinds,), and whether it is 0: then w~ is 0 and the privileged features are idle."""
    E, idle = beta - task.C * task.sizes, True
    for i in range(len(alpha)):
        E[task.kinds[i]] += alpha[i]
    for k in range(len(E)):
        if abs(E[k]) <= ROUNDING * task.C * task.sizes[k]:
            E[k] = 0.0
        else:
            idle = False
    return E, idle


@compiled
def privileged_sums(task, label, alpha, beta, listed, sums):  # type: ignore[no-untyped-def]
    """Write the number of privileged labels in each kind, (n_kinds,), and h followed by A and H, (n_labels + 2,)."""
    E, _ = excess(task, alpha, beta)
    sums[:] = 0.0
    for k in range(len(E)):
        listed[k] = 0.0
        for p in range(task.indptr[k], task.indptr[k + 1]):
            listed[k] += task.indices[p] != label
        if E[k] != 0.0:
            _move(task, label, listed, k, E[k], sums)


@compiled
def _move(task, label, listed, k, change, sums):  # type: ignore[no-untyped-def]
    """Change E_k."""
    for p in range(task.indptr[k], task.indptr[k + 1]):
        if task.indices[p] != label:
            sums[task.indices[p]] += change
    sums[-2] += change
    sums[-1] += change * listed[k]


@compiled
def _slack(task, label, listed, length, k, sums):  # type: ignore[no-untyped-def]
    """Return `<w~, t_k>`; length is |t|^2."""
    total = 0.0
    for p in range(task.indptr[k], task.indptr[k + 1]):
        if task.indices[p] != label:
            total += sums[task.indices[p]]
    return (4.0 * total - 2.0 * sums[-2] * listed[k] - 2.0 * sums[-1] + sums[-2] * length) / task.gamma


@compiled
def _products(task, label, listed, length, r, near):  # type: ignore[no-untyped-def]
    """Write `<t_k, t_r>` for all kinds k."""
    shared = np.zeros(len(task.Y), np.bool_)
    for p in range(task.indptr[r], task.indptr[r + 1]):
        shared[task.indices[p]] = task.indices[p] != label
    for k in range(len(near)):
        both = 0.0
        for p in range(task.indptr[k], task.indptr[k + 1]):
            both += shared[task.indices[p]]
        near[k] = 4.0 * both - 2.0 * (listed[k] + listed[r]) + length


@compiled
def privileged_weights(task, label, alpha, beta, v):  # type: ignore[no-untyped-def]
    """Write w~ of shape (n_labels + 1,), the constant's last."""
    if excess(task, alpha, beta)[1]:
        v[:] = 0.0
        return
    sums, listed = np.empty(len(v) + 1), np.empty(len(task.sizes))
    privileged_sums(task, label, alpha, beta, listed, sums)
    A = sums[-2]
    for other in range(len(v) - 1):
        v[other] = (2.0 * sums[other] - A) / task.gamma if other != label else 0.0
    v[-1] = A / task.gamma


@compiled
def slacks_of(task, v, slacks):  # type: ignore[no-untyped-def]
    """Write `<v, t_k>` of all kinds, (n_kinds,), for v of shape (n_labels + 1,), 0 for the label itself."""
    if not v.any():
        slacks[:] = 0.0
        return
    base = v[-1] - v[:-1].sum()
    for k in range(len(slacks)):
        total = 0.0
        for p in range(task.indptr[k], task.indptr[k + 1]):
            total += v[task.indices[p]]
        slacks[k] = base + 2.0 * total


@compiled
def lost(task, weights, margins, v, slacks):  # type: ignore[no-untyped-def]
    """Lift v to feasibility by the weight of the constant, in place with its slacks; return `gamma/2 |v|^2 + C sum
    slack + rho/2 sum zeta^2`.
    """
    slacks_of(task, v, slacks)
    least = -slacks.min()
    if least > NOTHING:
        v[-1] += least
        slacks_of(task, v, slacks)
    total = 0.5 * task.gamma * np.sum(v * v) + task.C * np.sum(task.sizes * slacks)
    missing = 0.0
    for i in range(len(margins)):
        zeta = max(0.0, 1.0 - margins[i] - slacks[task.kinds[i]])
        missing += weights[i] * (0.5 * zeta * zeta)
    return total + task.rho * missing


@compiled
def evaluate(  # type: ignore[no-untyped-def]
    task, weights, label, f, alpha, beta, v, known, again, pairs, kinds
):
    """Evaluate the objectives of a label, and list its variables that are not at their bound."""
    slacks, margins = np.empty(len(beta)), f * task.Y[label]
    slacks_of(task, v, slacks)
    n_pairs, n_kinds = list_active(task, weights, margins, alpha, beta, slacks, pairs, kinds)
    squared = np.sum(alpha * alpha / weights)
    linear = alpha.sum() - 0.5 * (task.gamma * np.sum(v * v) + task.ridge * squared)
    idle = not (v.any() or known.any())
    best, chosen = lost(task, weights, margins, known, slacks), known
    if idle or again:  # if it is idle, all candidates are 0
        return best, linear, n_pairs, n_kinds
    feasible = v.copy()
    lost(task, weights, margins, feasible, slacks)
    # The errors of `feasible` and `known` are noise, which their mean reduces.
    for candidate in (feasible, 0.5 * (feasible + known), np.zeros_like(known)):
        cost = lost(task, weights, margins, candidate, slacks)
        if cost < best:
            best, chosen = cost, candidate
    known[:] = chosen
    return best, linear, n_pairs, n_kinds


@compiled
def list_active(task, weights, margins, alpha, beta, slacks, pairs, kinds):  # type: ignore[no-untyped-def]
    """Write the active variables, points and kinds; return their numbers. Where beta is not 0, a can move without e."""
    n_pairs, n_kinds = 0, 0
    for i in range(len(margins)):
        k = task.kinds[i]
        t = 1.0 - margins[i] - task.ridge / weights[i] * alpha[i] - (slacks[k] if beta[k] == 0.0 else 0.0)
        if alpha[i] == 0.0 and t <= -SLACK:
            continue
        pairs[n_pairs] = i
        n_pairs += 1
    for k in range(len(slacks)):
        if slacks[k] < -NOTHING or (slacks[k] > NOTHING and beta[k] > 0.0):
            kinds[n_kinds] = k
            n_kinds += 1
    return n_pairs, n_kinds


@compiled
def visit(X, squares, task, weights, label, pairs, kinds, alpha, beta, s, z, sweeps, goal, state):  # type: ignore[no-untyped-def]
    """Run coordinate descent on the active variables of one label."""
    gained, idle = _visit_idle(X, squares, task, weights, label, pairs, alpha, beta, s, z, sweeps, goal, state)
    if idle:
        return gained
    n_labels, length = len(task.Y), np.float64(len(task.Y))
    sums, listed, near = np.empty(n_labels + 2), np.empty(len(beta)), np.empty(len(beta))
    privileged_sums(task, label, alpha, beta, listed, sums)
    r = np.argmax(beta)
    _products(task, label, listed, length, r, near)
    quiet = QUIET * goal / (task.C * task.sizes.sum())  # raising all slacks by this amount costs that share of the goal
    b, total, first = intercept(task, label, alpha), gained, 0.0
    for sweep in range(sweeps):
        gain, g_r = 0.0, _slack(task, label, listed, length, r, sums)
        shuffle(pairs, state)
        for i in pairs:
            k, y = task.kinds[i], task.Y[label, i]
            ridge = task.ridge / weights[i]
            t = 1.0 - y * (score(X, i, z) + b) - ridge * alpha[i]
            g = _slack(task, label, listed, length, k, sums)
            bends = s * squares[i] + task.intercept + ridge, length / task.gamma, near[k] / task.gamma
            move, shift, back = _step(t, g, g_r, bends, alpha[i], np.inf, beta[k], beta[r], k != r)
            gain += _gain(t, g, g_r, bends, move, shift, back)
            if move != 0.0:
                alpha[i] = max(alpha[i] + move, 0.0)
                b += task.intercept * y * move
                if s != 0.0:
                    add(X, i, s * y * move, z)
            _shift(task, label, listed, k, shift, shift - move, beta, sums)
            _shift(task, label, listed, r, back, back, beta, sums)
            g_r += bends[2] * shift + bends[1] * back
        for _ in range(POLISH if gain <= goal else 1):
            gained, worst, g_r = _sweep_kinds(
                task, label, listed, length, near, r, g_r, kinds, beta, sums, quiet, state
            )
            gain += gained
            if worst <= quiet:
                break
        total += gain
        first = gain if sweep == 0 else first
        if gain <= max(SMALL * goal, ENOUGH * first if sweep else 0.0):
            break
    return total


@compiled
def _sweep_kinds(  # type: ignore[no-untyped-def]
    task, label, listed, length, near, r, g_r, kinds, beta, sums, quiet, state
):
    """Sweep over kinds; return the gain, the slack that misses most, and the slack of r."""
    gain, worst = 0.0, 0.0
    shuffle(kinds, state)
    for k in kinds:
        g = _slack(task, label, listed, length, k, sums)
        if abs(g) <= quiet:
            continue
        bends = 0.0, length / task.gamma, near[k] / task.gamma
        _, shift, back = _step(0.0, g, g_r, bends, 0.0, 0.0, beta[k], beta[r], k != r)
        gain += _gain(0.0, g, g_r, bends, 0.0, shift, back)
        _shift(task, label, listed, k, shift, shift, beta, sums)
        _shift(task, label, listed, r, back, back, beta, sums)
        g_r += bends[2] * shift + bends[1] * back
        worst = max(worst, -g)
    return gain, worst, g_r


@compiled
def _visit_idle(  # type: ignore[no-untyped-def]
    X, squares, task, weights, label, pairs, alpha, beta, s, z, sweeps, goal, state
):
    """Run coordinate descent as `visit` does while e is 0, so that w~ is 0, and no step is better for changing it;
    return the gain and whether it stayed so.
    """
    if not excess(task, alpha, beta)[1]:
        return 0.0, False
    b, total, first = intercept(task, label, alpha), 0.0, 0.0
    for sweep in range(sweeps):
        gain = 0.0
        shuffle(pairs, state)
        for i in pairs:
            k, y = task.kinds[i], task.Y[label, i]
            ridge = task.ridge / weights[i]
            t = 1.0 - y * (score(X, i, z) + b) - ridge * alpha[i]
            bend = s * squares[i] + task.intercept + ridge
            move = _alone(t, bend, alpha[i], np.inf)
            if move > beta[k]:
                return total + gain, False
            gain += move * (t - 0.5 * bend * move)
            if move != 0.0:
                alpha[i] = max(alpha[i] + move, 0.0)
                beta[k] -= move
                b += task.intercept * y * move
                if s != 0.0:
                    add(X, i, s * y * move, z)
        total += gain
        first = gain if sweep == 0 else first
        if gain <= max(SMALL * goal, ENOUGH * first if sweep else 0.0):
            break
    beta[:] = task.C * task.sizes
    for i in range(len(alpha)):
        beta[task.kinds[i]] -= alpha[i]
    beta[:] = np.maximum(beta, 0.0)
    return total, True


@compiled
def _shift(task, label, listed, k, shift, change, beta, sums):  # type: ignore[no-untyped-def]
    """Change E_k by shift, and its beta by change."""
    if change != 0.0:
        beta[k] = max(0.0, beta[k] + change)
    if shift != 0.0:
        _move(task, label, listed, k, shift, sums)


@compiled
def _gain(t, g, g_r, bends, move, shift, back):  # type: ignore[no-untyped-def]
    """Return the gain of a step in the dual objective."""
    curvature, bend, cross = bends
    flat = move * t - shift * g - back * g_r
    return flat - 0.5 * (curvature * move * move + bend * (shift * shift + back * back)) - cross * shift * back


@compiled
def _step(t, g, g_r, bends, a, upper, beta, beta_r, apart):  # type: ignore[no-untyped-def]
    """Return the changes of one a, of the e of its kind, and of the e of a kind r, that maximise `_gain` within the
    bounds.

    `back` is the best change of r for the shift, which leaves two variables; r stays if its beta does not allow the
    change.
    """
    curvature, bend, cross = bends
    if apart and bend > 0.0:
        left = bend - cross * cross / bend
        # Kinds that differ only in this label have the same features, so one can give what the other can take.
        move, shift = (
            _both(t, g - cross * g_r / bend, curvature, left, a, upper, beta)
            if left > ALIKE * bend
            else _both(t, 0.0, curvature, 0.0, a, upper, beta)
        )
        back = -(g_r + cross * shift) / bend
        if beta_r + back >= 0.0:
            return move, shift, back
    move, shift = _both(t, g, curvature, bend, a, upper, beta)
    return move, shift, 0.0


@compiled
def _both(t, g, curvature, bend, a, upper, beta):  # type: ignore[no-untyped-def]
    """Return the best change of one a, and of the e of its kind: separate problems, unless beta + shift - move >= 0
    binds.
    """
    move = _alone(t, curvature, a, upper)
    shift = -g / bend if bend > 0.0 else 0.0
    if beta + shift - move < 0.0:
        if bend > 0.0:
            move = min(max((t - g + bend * beta) / (curvature + bend), -a), upper - a)
        shift = move - beta
    return move, shift


@compiled
def _alone(t, curvature, a, upper):  # type: ignore[no-untyped-def]
    """Return the best change of one a outside e."""
    if curvature > 0.0:
        return min(max(t / curvature, -a), upper - a)
    return upper - a if t > 0.0 else -a
