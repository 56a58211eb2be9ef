"""How well attributions find the cells that are known to decide the class.

Shapes: N samples, T time steps, D channels; inside a chunk B samples and L = T * D cells.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from timex.conversions import as_numbers
from timex.metrics.hiding import Probe
from timex.records import Explanation

SCORES = ("auprc", "auprc_trapezoid", "aup", "aur", "iou", "aup_rank", "aur_rank")
IOU_QUANTILE = 0.9
# Bounds memory, keeps a chunk in cache, and is the size up to which torch uses one thread: its threads wait for each other
# after every operation, which made larger chunks up to twenty times slower on a busy machine.
CHUNK_CELLS = 1 << 15


def ground_truth_scores(
    attribution: ArrayLike | Tensor, truth: ArrayLike | Tensor, observed: ArrayLike | Tensor | None = None
) -> dict[str, NDArray[np.float64]]:
    """Score every sample's attribution against the cells known to decide its class.

    The attribution of each sample is min-max normalised to [0, 1] over its observed cells. Then, per sample:

    - `auprc`: average precision, the step-wise area under precision over recall.
    - `auprc_trapezoid`: the same area with straight lines between the points, as some papers report it.
    - `aup`, `aur`: area under precision and under recall as functions of the threshold, by trapezoid over the sample's
      distinct scores.
    - `aup_rank`, `aur_rank`: the same two after each score is replaced by its rank (ties share their mean rank), since
      `aup` and `aur` move under any monotone rescaling of the scores and these do not.
    - `iou`: Jaccard index of the truth with the cells at or above the .9 quantile of the sample's scores.

    Where a score has no textbook value:

    - No observed cell is salient: NaN everywhere, as recall divides by the number of salient cells. `score_summary`
      leaves such samples out.
    - Every observed cell is salient: precision is 1 at every threshold, so both `auprc`, `aup` and `aup_rank` are 1.
    - Constant attribution: it normalises to zeros, a single threshold, and `aup`, `aur` and their rank versions are 0:
      the interval to integrate over is empty. `auprc` and `iou` are the share of
      salient cells, as every cell is kept.

    Args:
        attribution: One score per cell, higher is more important, (N, T, D). The work is done on its device.
        truth: Which cells decide the class, bool or 0 and 1, (N, T, D).
        observed: Which cells were measured, (N, T, D) or (N, T); all of them by default. The rest are ignored and
            may hold any value, NaN included.

    Returns:
        One float64 array (N,) for every name above.

    Raises:
        ValueError: If shapes do not match, an observed attribution is not finite, or an observed truth is not 0 or 1.

    >>> scores = ground_truth_scores([[[0.9], [0.1], [0.5], [0.3]]], [[[1], [0], [0], [1]]])
    >>> {name: round(float(value[0]), 3) for name, value in scores.items() if "rank" not in name}
    {'auprc': 0.833, 'auprc_trapezoid': 0.792, 'aup': 0.667, 'aur': 0.688, 'iou': 0.5}
    """
    values, salient, seen = _check(attribution, truth, observed)
    n, t, d = values.shape
    chunk = max(1, CHUNK_CELLS // (t * d))
    parts = [_chunk_scores(values, salient, seen, slice(i, i + chunk)) for i in range(0, n, chunk)]
    table = torch.cat([*parts, values.new_empty((0, len(SCORES)), dtype=torch.float64)]).cpu().numpy()  # (N, scores)
    return {name: table[:, i].copy() for i, name in enumerate(SCORES)}


def truth_scores(explanation: Explanation, probe: Probe | None = None) -> dict[str, NDArray[np.float64]]:
    """`ground_truth_scores` of an explanation whose series have a truth; without one, no scores. The model is not needed."""
    series = explanation.series
    return {} if series.truth is None else ground_truth_scores(explanation.attribution, series.truth, series.observed)


def score_summary(scores: Mapping[str, ArrayLike], fold: ArrayLike | None = None) -> dict[str, dict[str, float]]:
    """Mean and standard errors of per-sample scores; samples whose score is NaN are left out.

    Samples of one fold share a trained model, so they are not independent and `se_samples`, which pools them as the
    paper does, is too small. `se_folds` treats each fold's mean as one observation.

    Args:
        scores: Per-sample values by name, each (N,).
        fold: The fold of every sample, (N,), if there are folds.

    Returns:
        By name: `mean` over samples, `se_samples` and `samples` (how many were defined); with `fold` also `se_folds`
        and `folds` (how many had a defined sample). An error of fewer than two observations is NaN.

    >>> score_summary({"iou": [0.25, 0.25, 0.75, 0.75, float("nan")]}, fold=[0, 0, 1, 1, 1])["iou"]["se_folds"]
    0.25
    """
    folds = None if fold is None else np.asarray(fold)
    summary = {}
    for name, value in scores.items():
        column = np.asarray(value, dtype=np.float64)
        if folds is not None and folds.shape != column.shape:
            raise ValueError(f"Expected one fold per sample, shape {column.shape} as {name!r}, got {folds.shape}.")
        defined = ~np.isnan(column)
        row = {
            "mean": float(column[defined].mean()) if defined.any() else float("nan"),
            "se_samples": _standard_error(column[defined]),
            "samples": int(defined.sum()),
        }
        if folds is not None:
            means = [column[defined & (folds == k)].mean() for k in np.unique(folds[defined])]
            row |= {"se_folds": _standard_error(np.array(means)), "folds": len(means)}
        summary[name] = row
    return summary


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def _check(
    attribution: ArrayLike | Tensor, truth: ArrayLike | Tensor, observed: ArrayLike | Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The three inputs as tensors (N, T, D) on one device that knows float64."""
    values = _tensor(attribution, "attribution", attribution.device if isinstance(attribution, Tensor) else "cpu")
    if values.device.type == "mps":  # has no float64
        values = values.cpu()
    shape = tuple(values.shape)
    if len(shape) != 3 or shape[1] * shape[2] == 0:
        raise ValueError(f"Expected attribution of shape (N, T, D) with at least one cell, got {shape}.")
    salient = _tensor(truth, "truth", values.device)
    if tuple(salient.shape) != shape:
        raise ValueError(f"Expected truth of the shape of attribution, {shape}, got {tuple(salient.shape)}.")
    if observed is None:
        return values, salient, torch.ones((1, 1, 1), dtype=torch.bool, device=values.device).expand(shape)
    seen = _tensor(observed, "observed", values.device)
    if tuple(seen.shape) == shape[:2]:
        seen = seen[:, :, None].expand(shape)
    if tuple(seen.shape) != shape:
        raise ValueError(f"Expected observed of shape {shape} or {shape[:2]}, got {tuple(seen.shape)}.")
    return values, salient, seen.bool()


def _tensor(value: ArrayLike | Tensor, name: str, device: torch.device | str) -> Tensor:
    """Numbers as a tensor."""
    if isinstance(value, Tensor) and not value.is_complex():
        return value.detach().to(device)
    # A copy in C order, as torch takes neither read-only arrays nor negative strides.
    return torch.from_numpy(np.array(as_numbers(value, None, name), order="C")).to(device)


def _chunk_scores(values: Tensor, salient: Tensor, seen: Tensor, rows: slice) -> Tensor:
    """The scores of some samples, (B, 7), columns as in `SCORES`."""
    seen = seen[rows].flatten(1)  # (B, L)
    truth = salient[rows].flatten(1)
    raw = values[rows].flatten(1).double()
    # Highest score first. What was not observed goes last, as no hit, and adds nothing to any sum below.
    raw, order = _sort_down(raw.masked_fill(~seen, -torch.inf))  # not in place: raw may be the caller's
    count = seen.sum(1, keepdim=True)  # (B, 1)
    _check_cells(raw, truth, seen, count, rows.start)
    hits = (truth.bool() & seen).gather(1, order)
    total = hits.sum(1, keepdim=True)

    score = _normalise(raw, count)
    first, last = _runs(score)
    rank = _normalise((first + last).double().neg_(), count)  # mean rank of a tie, up to scale and shift
    # A threshold keeps all cells of a tie or none: every cell of a run takes the values at the run's last cell.
    found = hits.cumsum(1).gather(1, last).double()
    precision, recall = found / (last + 1), found / total

    # Trapezoids: the width of every step, in score, rank or recall, times precision or recall in its middle.
    score_step, rank_step, recall_step = _fall(score), _fall(rank), recall.diff(dim=1)  # (B, L - 1)
    middle_precision, middle_recall = _middle(precision), _middle(recall)
    from_zero_recall = recall[:, 0] * (1 + precision[:, 0]) / 2  # the curve starts at precision 1, recall 0
    columns = {
        "auprc": (precision * hits).sum(1) / total[:, 0],
        "auprc_trapezoid": from_zero_recall + (recall_step * middle_precision).sum(1),
        "aup": (score_step * middle_precision).sum(1),
        "aur": (score_step * middle_recall).sum(1),
        "iou": _jaccard(score, hits, count, total),
        "aup_rank": (rank_step * middle_precision).sum(1),
        "aur_rank": (rank_step * middle_recall).sum(1),
    }
    return torch.stack([columns[name] for name in SCORES], 1).masked_fill_(total == 0, torch.nan)


def _sort_down(values: Tensor) -> tuple[Tensor, Tensor]:
    """Rows from high to low, NaN first, and where each cell came from."""
    if values.device.type != "cpu":
        return values.sort(dim=1, descending=True)
    order = torch.from_numpy(np.argsort(values.numpy(), axis=1)).flip(1)  # vectorised: three times as fast as torch's
    return values.gather(1, order), order


def _check_cells(raw: Tensor, truth: Tensor, seen: Tensor, count: Tensor, start: int) -> None:
    """Refuse non-finite scores, sorted (B, L), and truth other than 0 and 1, unsorted (B, L), in cells seen."""
    # Sorting puts NaN and inf first and -inf last, so the two ends are enough.
    finite = (raw[:, :1].isfinite() & _lowest(raw, count).isfinite()) | (count == 0)  # (B, 1)
    if not finite.all():
        row = int((~finite).nonzero()[0, 0])
        cells = raw[row, : int(count[row])]
        bad = cells[~cells.isfinite()]
        raise ValueError(
            f"Expected finite attributions, got {bad[0].item()} in sample {start + row} ({len(bad)} such cells there): "
            "mend the explainer, or pass observed= with False there."
        )
    if truth.dtype == torch.bool:
        return
    odd = seen & (truth != 0) & (truth != 1)
    if odd.any():
        row, cell = odd.nonzero()[0].tolist()
        raise ValueError(f"Expected truth of 0 and 1, got {truth[row, cell].item()} in sample {start + row}.")


def _lowest(values: Tensor, count: Tensor) -> Tensor:
    """The last of the first `count` cells of every row, (B, 1); of the first one where there is none."""
    return values.gather(1, (count - 1).clamp(min=0))


def _normalise(values: Tensor, count: Tensor) -> Tensor:
    """Min-max to [0, 1] over the first `count` cells of rows sorted from high to low; zeros where they are constant."""
    low = _lowest(values, count)
    span = values[:, :1] - low
    return (values - low) / torch.where(span > 0, span, 1.0)


def _runs(score: Tensor) -> tuple[Tensor, Tensor]:
    """For every cell the places of the first and of the last cell of its run of ties, in sorted rows (B, L)."""
    length = score.shape[1]
    place = torch.arange(length, device=score.device)
    change = score[:, 1:] != score[:, :-1]
    edge = change.new_ones((len(score), 1))
    first = torch.where(torch.cat([edge, change], 1), place, 0).cummax(1).values
    last = torch.where(torch.cat([change, edge], 1), place, length).flip(1).cummin(1).values.flip(1)
    return first, last


def _fall(values: Tensor) -> Tensor:
    """The steps down of normalised rows; none from the last observed cell, which is at 0, to those not observed."""
    return -values.clamp(min=0).diff(dim=1)


def _middle(values: Tensor) -> Tensor:
    return (values[:, 1:] + values[:, :-1]) / 2


def _jaccard(score: Tensor, hits: Tensor, count: Tensor, total: Tensor) -> Tensor:
    """Jaccard index of the hits and the cells at or above the quantile, in sorted rows, (B,)."""
    kept = score >= _quantile(score, count)  # cells not observed are at -inf
    both = (kept & hits).sum(1)
    return both.double() / (kept.sum(1) + total[:, 0] - both)


def _quantile(score: Tensor, count: Tensor) -> Tensor:
    """`numpy.quantile` of every row's first `count` cells, (B, 1), to the last bit, so that `>=` agrees with it."""
    top = (count - 1).clamp(min=0)  # rows with no observed cell end as NaN
    position = IOU_QUANTILE * top.double()
    below = position.long()
    low = score.gather(1, top - below)  # rows are sorted from high to low
    high = score.gather(1, (top - below - 1).clamp(min=0))
    weight = position - below
    return torch.where(weight < 0.5, low + (high - low) * weight, high - (high - low) * (1 - weight))
