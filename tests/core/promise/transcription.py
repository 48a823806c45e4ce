"""The promise in plain Python: the recipe, sentence by sentence, with lists and dicts and no compiled code."""

import math

import numpy as np

from manylabel_core import _elementary

START = [0.6, 0.9, -0.3, -0.3, -2.5, -0.6, -0.9, -0.5], [0.3, 0.05, 0.1, 0.3, 2.0, 0.7, 0.7, 1.0]
EXAMPLE_START = [3.5, -1.0, -6.0, -2.5, -0.5, -2.5, 0.8], [0.7, 1.5, 1.5, 0.5, 0.7, 1.5, 0.8]


def clip(x, low, high):
    return min(max(x, low), high)


class Weights:
    def __init__(self, weights, variances):
        self.w, self.most = list(weights), variances
        n = len(weights)
        self.cov = [[variances[a] if a == b else 0.0 for b in range(n)] for a in range(n)]

    def score(self, f):
        total = 0.0
        for w, x in zip(self.w, f, strict=True):
            total += w * x
        return clip(total, -8.0, 8.0)

    def learn(self, f, y):
        n = len(f)
        q = sigmoid(self.score(f))
        h = max(q * (1 - q), 0.01)
        gains, spread = [], 0.0
        for a in range(n):
            gain = 0.0
            for b in range(n):
                gain += self.cov[a][b] * f[b]
            gains.append(gain)
            spread += gain * f[a]
        d = 1.0 + h * spread
        step, shrink = (y - q) / d, h / d
        for a in range(n):
            self.w[a] += gains[a] * step
            for b in range(n):
                self.cov[a][b] -= shrink * gains[a] * gains[b]
            self.cov[a][a] = min(self.cov[a][a] + 1e-6, self.most[a])


def sigmoid(x):
    return float(_elementary.sigmoid(float(x)))


class Gate:
    def __init__(self, target):
        self.target, self.alpha = target, 1.0 - target
        self.cap = 1.0 + 45.0 * math.sqrt(self.alpha * target)
        self.w = self.shadow = self.ledger = 0.0
        self.open, self.openings, self.applied, self.wrong = False, 0, 0, 0
        self.bins = [[0.0] * 64 for _ in range(3)]
        self.weight = 1.0

    def threshold(self):
        owed = 0.5 * max(0.0, -self.ledger)
        if self.open:
            x = (self.w - owed) / self.cap
            raised = 0.5 * max(0.0, 1.0 - x / 0.4) - 0.6 * max(0.0, (x - 0.7) / (1.0 - 0.7))
        else:
            raised = 0.5 * owed / self.cap / 0.4
        goal = self.target + self.alpha * min(raised, 0.9)
        y = n = q = 0.0
        found = 99.0
        for b in range(63, 7, -1):
            y, n, q = y + self.bins[0][b], n + self.bins[1][b], q + self.bins[2][b]
            if n > 0:
                counted = n / self.weight + 100.0
                p = q / n + (y - q) / self.weight / counted
                p -= 0.25 * math.sqrt(max(p * (1 - p), 0.0) / counted)
                if p >= goal:
                    found = b * 0.125 - 1.0
        return found

    def learn(self, score, made, shadow, y):
        self.weight *= 1.0 + 1.0 / 5000.0
        b = int((clip(score, -1.0, 6.99) + 1.0) * 8.0)
        self.bins[0][b] += self.weight * y
        self.bins[1][b] += self.weight
        self.bins[2][b] += self.weight * sigmoid(score)
        gain = self.alpha - (1.0 - y)
        if made:
            self.applied += 1
            self.wrong += 1 - y
            self.ledger += gain
            self.w = min(self.cap, self.w + gain)
            if self.open and self.w < 1.0 - self.alpha:
                self.open, self.shadow = False, 0.0
        elif shadow and not self.open:
            self.shadow = max(0.0, self.shadow + gain)
            if self.shadow >= 0.75:
                self.open = True
                self.w = max(self.w, 1.5 if self.openings else 2.0)
                self.openings += 1


class Plain:
    """One promise; `decide` returns all that `learn` needs later."""

    def __init__(self, target, settled, missed, n_labels):
        self.label, self.example = Weights(*START), Weights(*EXAMPLE_START)
        self.labels_gate, self.examples_gate = Gate(target), Gate(settled)
        self.missed, self.bucket = missed, 0.0
        self.up, self.down, self.blame = [0.0] * n_labels, [0.0] * n_labels, [0.0] * n_labels

    def decide(self, p, allowed=None, parents=None):
        p = [float(x) for x in p]
        s = v = 0.0
        for x in p:
            s, v = s + x, v + x * (1.0 - x)
        ordered = [*sorted(p, reverse=True), 0.0]
        bar = self.labels_gate.threshold()
        names = sorted(sorted((label for label, x in enumerate(p) if x >= 0.1), key=lambda label: -p[label])[:64])
        candidates, would = [], {}
        for label in names:
            x = p[label]
            inside = clip(x, 1e-13, 1 - 1e-13)
            z = clip(float(_elementary.log(inside / (1.0 - inside))), -6.0, 8.0)
            e, h = max(s - x, 0.0), max(v - x * (1.0 - x), 0.0)
            crowd = h / (0.5 + h) - 0.5
            shift = clip(self.up[label] / (self.down[label] + 1.0), -3.0, 3.0)
            other = ordered[1] if x >= ordered[0] else ordered[0]
            f = [1.0, z, max(z - 1.5, 0.0), shift, e / (1.0 + e) - 0.5, crowd, other - 0.25, crowd * z * 0.25]
            u = self.label.score(f)
            candidates.append((label, x, f, u))
            would[label] = u - max(0.0, self.blame[label] - 1.0) >= bar and (allowed is None or bool(allowed[label]))
        own = dict(would)
        for label in names:
            above = label
            while parents is not None and above < len(parents) and parents[above] >= 0:
                above = parents[above]
                would[label] = would[label] and own.get(above, False)
        applied = {label for label in names if would[label]} if self.labels_gate.open else set()
        left, doubt = s, 0.0
        for label, x, _, u in candidates:
            left -= x
            if label in applied:
                doubt += 1.0 - sigmoid(u)
            else:
                left += sigmoid(u)
        left = max(left, 0.0)
        rest = [x for label, x in enumerate(p) if label not in names]
        rest += [sigmoid(u) for label, _, _, u in candidates if label not in applied]
        highest = max([0.0, *rest])
        f = [1.0, left / (0.1 + left), left / (1.0 + left), highest, doubt / (0.1 + doubt)]
        f += [0.0 if applied else 1.0, min(len(applied), 4) * 0.25]
        u = self.example.score(f)
        shadow = u >= self.examples_gate.threshold()
        settled = shadow and self.examples_gate.open and self.bucket >= 1.0
        return candidates, would, applied, f, u, shadow, settled

    def learn(self, decision, truth, complete=True):
        """`truth` has 1 for true, -1 for false and 0 for unknown, by label."""
        candidates, would, applied, f2, u2, shadow, settled = decision
        true = [label for label, known in enumerate(truth) if known > 0]
        right = all((known > 0) == (label in applied) for label, known in enumerate(truth) if known)
        told = [(c, 1.0 if truth[c[0]] > 0 else 0.0) for c in candidates if truth[c[0]]]
        for (_, _, f, _), y in told:
            self.label.learn(f, y)
        for (label, x, _, u), y in told:
            self.up[label] = self.up[label] * 0.98 + (y - x)
            self.down[label] = self.down[label] * 0.98 + x * (1.0 - x)
            if u >= 1.5:
                blame = self.blame[label] + (1.0 - y) - 2.0 * (1.0 - sigmoid(u)) - 0.02
                self.blame[label] = min(max(0.0, blame), 4.0)
            self.labels_gate.learn(u, label in applied, would[label], y)
        missed = sum(label not in applied for label in true) if settled else 0
        if complete or (settled and not right):
            self.example.learn(f2, 1.0 if right else 0.0)
            self.examples_gate.learn(u2, settled, shadow, 1.0 if right else 0.0)
        most = 1.0 + 60.0 * math.sqrt(self.missed * (1.0 - self.missed))
        self.bucket = min(most, self.bucket + self.missed * len(true) - missed)

    def numbers(self):
        """All numbers of the state, in the order of `state_numbers`."""
        found = [*self.label.w, *np.ravel(self.label.cov), *self.example.w, *np.ravel(self.example.cov)]
        for gate in (self.labels_gate, self.examples_gate):
            found += [*np.ravel(gate.bins), gate.w, gate.shadow, gate.ledger, gate.open, gate.openings, gate.weight]
            found += [gate.applied, gate.wrong]
        return [*found, *self.up, *self.down, *self.blame, self.bucket]


def state_numbers(promise):
    memory = promise.memory
    found = [*memory.label_weights, *memory.label_covariance.ravel(), *memory.example_weights]
    found += [*memory.example_covariance.ravel()]
    for bins, gate in zip(memory.bins, memory.gates, strict=True):
        found += [*bins.ravel(), *gate[:8]]
    return [*found, *memory.labels[:3, : promise.n_labels].ravel(), memory.counts[0]]
