"""The scores of `timex.metrics.faithfulness`, sample by sample and cell by cell, as METHOD.md defines them."""

from itertools import pairwise

import numpy as np


def order_of(attribution):
    """Cells of one sample, largest |attribution| first, as (t, k)."""
    cells = [(t, k) for t in range(attribution.shape[0]) for k in range(attribution.shape[1])]
    return sorted(cells, key=lambda cell: -abs(attribution[cell]))


class Sample:
    """One series and the model, with a fill (T, D) for hidden cells."""

    def __init__(self, predict, x, attribution, fill):
        self.predict, self.x, self.attribution, self.fill = predict, x, attribution, fill
        self.order = order_of(attribution)
        self.c = int(self.answer(x).argmax())

    def answer(self, x):
        return self.predict(x[None], np.ones_like(x[None], dtype=bool))[0]

    def without(self, cells):
        x = self.x.copy()
        for cell in cells:
            x[cell] = self.fill[cell]
        return self.answer(x)

    def alone(self, cells):
        return self.without([cell for cell in self.order if cell not in cells])

    def evidence(self, p):
        return np.log(p[self.c]) - np.log(1 - p[self.c])

    def top(self, share):
        return self.order[: max(1, round(share * len(self.order)))]

    def gap(self, shares):
        blank, whole = self.evidence(self.without(self.order)), self.evidence(self.answer(self.x))
        total = 0.0
        for share in shares:
            for sign, p in ((1, self.alone(self.top(share))), (-1, self.without(self.top(share)))):
                total += sign * min(1, max(-1, (self.evidence(p) - blank) / max(1, whole - blank)))
        return total / len(shares)

    def comprehensiveness(self, share):
        return self.answer(self.x)[self.c] - self.without(self.top(share))[self.c]

    def sufficiency(self, share):
        return self.answer(self.x)[self.c] - self.alone(self.top(share))[self.c]

    def log_odds(self, share):
        return np.log(self.without(self.top(share))[self.c]) - np.log(self.answer(self.x)[self.c])

    def changes(self, n, smallest_first):
        order = self.order[::-1] if smallest_first else self.order
        answers = [self.without(order[:k]) for k in range(n + 1)]
        return sum(np.abs(after - before).sum() for before, after in pairwise(answers))

    def along(self, n_cells, steps, smallest_first=False):
        order = self.order[::-1] if smallest_first else self.order
        return [self.without(order[: round(k / steps * n_cells)])[self.c] for k in range(steps + 1)]

    def aopc(self, share, steps):
        n = max(1, round(share * len(self.order)))
        return np.mean([self.answer(self.x)[self.c] - p for p in self.along(n, steps)])

    def dds(self, n):
        most, least = (self.along(len(self.order), n, flag) for flag in (False, True))
        weight = [((n - i) / n) ** 3 for i in range(n + 1)]
        return sum(w * (b - a) for w, a, b in zip(weight, most, least, strict=True)) / sum(weight[1:])

    def infidelity(self, draws):
        sums, falls = [], []
        for hidden in draws:
            cells = [cell for cell in self.order if hidden[cell]]
            sums.append(sum(self.attribution[cell] for cell in cells))
            falls.append(self.answer(self.x)[self.c] - self.without(cells)[self.c])
        square = sum(s * s for s in sums)
        b = sum(s * fall for s, fall in zip(sums, falls, strict=True)) / square if square else 0
        return np.mean([(b * s - fall) ** 2 for s, fall in zip(sums, falls, strict=True)])
