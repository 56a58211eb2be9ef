"""The scores of `timex.metrics.faithfulness`, sample by sample and cell by cell, as METHOD.md defines them."""

from itertools import pairwise

import numpy as np


def order_of(attribution):
    """Cells of one sample, largest |attribution| first, as (t, k)."""
    cells = [(t, k) for t in range(attribution.shape[0]) for k in range(attribution.shape[1])]
    return sorted(cells, key=lambda cell: -abs(attribution[cell]))


class Sample:
    """One series and the model, with a fill (T, D) for hidden cells, and the series without evidence: by default the fill."""

    def __init__(self, predict, x, attribution, fill, blank=None):
        self.predict, self.x, self.attribution, self.fill = predict, x, attribution, fill
        self.blank = fill if blank is None else blank
        self.order = order_of(attribution)
        self.c = int(self.answer(x).argmax())

    def answer(self, x):
        return self.predict(x[None], np.ones_like(x[None], dtype=bool))[0]

    def without(self, cells):
        x = self.x.copy()
        for cell in cells:
            x[cell] = self.filling(cell, cells)
        return self.answer(x)

    def filling(self, cell, hidden):
        return self.fill[cell]

    def alone(self, cells):
        return self.without([cell for cell in self.order if cell not in cells])

    def evidence(self, p):
        return np.log(p[self.c]) - np.log(1 - p[self.c])

    def top(self, share):
        return self.order[: max(1, round(share * len(self.order)))]

    def gap(self, shares):
        blank, whole = self.evidence(self.answer(self.blank)), self.evidence(self.answer(self.x))
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
        return self._changes(self.order[::-1] if smallest_first else self.order, n)

    def signed_changes(self, n):
        return self._changes(sorted(self.order, key=lambda cell: -self.attribution[cell]), n)

    def _changes(self, order, n):
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


class Interpolated(Sample):
    """Hidden cells on a line between the nearest kept cells of their channel; `fill` where it keeps none."""

    def filling(self, cell, hidden):
        t, k = cell
        kept = [step for step in range(len(self.x)) if (step, k) not in hidden]
        before, after = [step for step in kept if step < t], [step for step in kept if step > t]
        if not kept:
            return self.fill[cell]
        if not before or not after:
            return self.x[before[-1] if before else after[0], k]
        left, right = before[-1], after[0]
        return self.x[left, k] + (self.x[right, k] - self.x[left, k]) * (t - left) / (right - left)
