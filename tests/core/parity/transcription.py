"""The promise of parity in plain Python: the recipe, sentence by sentence, with lists and no compiled code."""

import math

from manylabel_core import _elementary

START = [2.2, 1.8, -1.0, -3.8, -0.5, -8.1, -4.2, 3.2, -1.4], [2.5, 1.8, 3.2, 6.0, 1.2, 6.0, 6.0, 2.0, 3.6]


def log(x):
    return float(_elementary.log(float(x)))


def sigmoid(x):
    return float(_elementary.sigmoid(float(x)))


def clip(x, low, high):
    return min(max(x, low), high)


def inputs_of(p, predicted):
    """f of an example: p of all labels, and which of them are predicted."""
    s = sum_of(p)
    candidates = [i for i in range(len(p)) if p[i] >= 0.02]
    yes = [p[i] for i in candidates if predicted[i]]
    no = [p[i] for i in candidates if not predicted[i]]
    r = max(0.0, s - sum_of(yes))
    d = sum_of([1.0 - x for x in yes])
    surprise = 0.0
    for i in candidates:
        surprise -= log(max(p[i], 1e-6)) if predicted[i] else log(max(1.0 - p[i], 1e-6))
    surprise += max(0.0, s - sum_of([p[i] for i in candidates]))
    whole = float(_elementary.exp(-min(surprise, 10.0)))
    n = len(yes)
    return [
        1.0,
        r / (0.1 + r),
        r / (1.0 + r),
        max(no, default=0.0),
        d / (0.1 + d),
        1.0 if n == 0 else 0.0,
        min(n, 4) / 4,
        clip(log(whole / (1.0 - whole + 1e-9)), -6.0, 8.0) / 4,
        1.0 - min(yes) if n else 0.0,
    ]


def sum_of(numbers):
    total = 0.0
    for x in numbers:
        total += x
    return total


class Plain:
    def __init__(self, parity, agreement="exact", audit_rate=0.05):
        self.alpha, self.agreement, self.least = 1.0 - parity, agreement, audit_rate
        self.goal = parity
        self.w, self.most = list(START[0]), START[1]
        self.cov = [[self.most[a] if a == b else 0.0 for b in range(9)] for a in range(9)]
        self.bins = [[0.0] * 4 for _ in range(64)]
        self.weight = 1.0
        self.account, self.openings = 1.6, 0
        self.added, self.missed = {}, {}

    def rate(self):
        return 1.0 if self.account <= 2.0 else min(1.0, max(self.least, 2.0 / self.account))

    def threshold(self):
        found, y, n, q, squares = 99.0, 0.0, 0.0, 0.0, 0.0
        for b in range(63, 7, -1):
            y, n, q = y + self.bins[b][0], n + self.bins[b][1], q + self.bins[b][2]
            squares += self.bins[b][3]
            if n > 0:
                e = n * n / squares
                m = q / n + (y - q) / n * e / (e + 50.0)
                m -= 0.25 * math.sqrt(max(m * (1.0 - m), 0.0) / (e + 50.0))
                if m >= self.goal:
                    found = b / 8 - 1.0
        return found

    def decide(self, p, predicted):
        f = inputs_of(p, predicted)
        u = self.score(f)
        sure = u >= self.threshold()
        return f, u, sure, self.rate() if sure else 1.0

    def score(self, f):
        return clip(sum_of([w * x for w, x in zip(self.w, f, strict=True)]), -8.0, 8.0)

    def learn(self, decision, answer, teacher):
        """Learn the teacher's answer to an example that was asked."""
        f, u, sure, rate = decision
        y = self.agree(answer, teacher)
        self.kalman(f, y)
        c = 1.0 / rate
        self.weight *= 1.0 + c / 5000.0
        row = self.bins[int((clip(u, -1.0, 6.99) + 1.0) * 8.0)]
        for i, x in enumerate((y, 1.0, sigmoid(u))):
            row[i] += self.weight * c * x
        row[3] += (self.weight * c) ** 2
        if sure:
            self.settle(1.0 - y, rate)
            for label in answer - teacher:
                self.added[label] = self.added.get(label, 0) + 1
            for label in teacher - answer:
                self.missed[label] = self.missed.get(label, 0) + 1

    def settle(self, loss, rate):
        was_open = self.account > 2.0
        self.account = min(max(self.account + (self.alpha - loss) / rate, 1.6), 4.0 / self.least)
        if self.account > 2.0 and not was_open:
            if self.openings == 0:
                self.account = 8.0
            self.openings += 1

    def agree(self, answer, teacher):
        if self.agreement == "exact":
            return 1.0 if answer == teacher else 0.0
        size = len(answer) + len(teacher)
        return 2.0 * len(answer & teacher) / size if size else 1.0

    def kalman(self, f, y):
        q = sigmoid(self.score(f))
        h = max(q * (1 - q), 0.01)
        gains = [sum_of([self.cov[a][b] * f[b] for b in range(9)]) for a in range(9)]
        d = 1.0 + h * sum_of([g * x for g, x in zip(gains, f, strict=True)])
        step, shrink = (y - q) / d, h / d
        for a in range(9):
            self.w[a] += gains[a] * step
            for b in range(9):
                self.cov[a][b] -= shrink * gains[a] * gains[b]
            self.cov[a][a] = min(self.cov[a][a] + 1e-6, self.most[a])
