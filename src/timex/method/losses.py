"""The terms of the TimeX objective, one pure function per equation of the paper.

Shapes: B samples, T time steps, D channels, C classes, Z width of the embedding, H outputs of a forecast, M negatives.
Every function works under `torch.vmap` and has finite gradients wherever its inputs are finite. All terms are means
over cells or pairs: the paper writes some of them as sums, but the weights in its tables belong to means.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Similarity = Callable[[Tensor], Tensor]
"""Maps a batch (B, Z) to its pairwise similarities or distances (B, B)."""

P_EPS = 1e-6  # keeps log p and log(1 - p) finite, and is still representable next to 1 in float32
PAIR_BYTES = 256 * 2**20  # the most memory one block of pairs may take
SQUARED_NORM_EPS = 1e-12  # vectors shorter than 1e-6 have no direction


# ---- the explanation p itself ----------------------------------------------------------------------------------------


def mask_kl(p: Tensor, r: float | Tensor, observed: Tensor | None = None) -> Tensor:
    """L_m, the KL divergence of Bern(p) from Bern(r), as the mean over cells.

    Args:
        p: Probability that a cell is kept, (B, T, D).
        r: The probability wanted, in (0, 1); a 0-d tensor where members of a stack have their own.
        observed: Cells that exist, (B, T, D) bool; the mean is taken over these. All of them by default.

    Returns:
        A scalar, 0 where p = r everywhere.

    Example:
        >>> round(float(mask_kl(torch.full((1, 2, 1), 0.75), r=0.5)), 4)  # .75 log 1.5 + .25 log .5
        0.1308
    """
    p = p.clamp(P_EPS, 1 - P_EPS)
    kl = p * torch.log(p / r) + (1 - p) * torch.log((1 - p) / (1 - r))  # (B, T, D)
    if observed is None:
        return kl.mean()
    return (kl * observed).sum() / observed.sum().clamp_min(1)


def connectivity(p: Tensor, observed: Tensor | None = None) -> Tensor:
    """L_con (eq:connect), the total variation of p along time over T * D, averaged over the batch.

    With missing cells a pair counts when both its ends are observed, and the number of observed cells takes the place
    of B * T * D, as it does in `mask_kl`, so that padding does not dilute either term.

    Args:
        p: Probability that a cell is kept, (B, T, D).
        observed: Cells that exist, (B, T, D) bool. All of them by default.

    Returns:
        A scalar, 0 where p does not change along time.

    Example:
        >>> p = torch.tensor([0.0, 1.0, 1.0, 0.5]).view(1, 4, 1)
        >>> float(connectivity(p))  # (1 + 0 + .5) / 4
        0.375
    """
    steps = (p[:, 1:] - p[:, :-1]).abs()  # (B, T-1, D)
    if observed is None:
        return steps.sum() / p.numel()
    return (steps * (observed[:, 1:] & observed[:, :-1])).sum() / observed.sum().clamp_min(1)


def connectivity_published(p: Tensor, observed: Tensor | None = None) -> Tensor:
    """L_con as the published code computes it for one channel: one L2 norm over the whole batch, over its size.

    The form is ||p[:, 1:] - p[:, :-1]||_2 / (B (T-1) D). It weakens with the square root of the batch size, which
    eq:connect does not. For D > 1 that code takes differences along the batch; this takes them along time for every D.

    Args:
        p: Probability that a cell is kept, (B, T, D).
        observed: Cells that exist, (B, T, D) bool; a pair counts when both its ends do. All of them by default.
    """
    steps = p[:, 1:] - p[:, :-1]  # (B, T-1, D)
    if observed is None:
        return torch.linalg.vector_norm(steps) / steps.numel()
    pairs = observed[:, 1:] & observed[:, :-1]
    return torch.linalg.vector_norm(steps * pairs) / pairs.sum().clamp_min(1)


def connectivity_published_batch(p: Tensor, observed: Tensor | None = None) -> Tensor:
    """L_con as the published code computes it for several channels: differences along the batch axis, not along time.

    It ties neighbouring samples of a shuffled batch together, which no equation of the paper contains. For one channel that
    code is `connectivity_published`.

    Args:
        p: Probability that a cell is kept, (B, T, D).
        observed: Cells that exist, (B, T, D) bool; a pair counts when both its ends do. All of them by default.
    """
    if p.shape[-1] == 1:
        return connectivity_published(p, observed)
    return connectivity_published(p.transpose(0, 1), None if observed is None else observed.transpose(0, 1))


# ---- the embedding ---------------------------------------------------------------------------------------------------


def cosine_similarity(a: Tensor, b: Tensor | None = None) -> Tensor:
    """Cosine similarities of every row of `a` with every row of `b`, or with every row of `a` itself.

    Args:
        a: Vectors, (B, Z).
        b: Vectors, (N, Z).

    Returns:
        (B, N), or (B, B) without `b`. A zero vector has similarity 0 with everything, itself included.

    Example:
        >>> cosine_similarity(torch.tensor([[3.0, 0.0], [0.0, 2.0]]))
        tensor([[1., 0.],
                [0., 1.]])
    """
    a_unit = _unit(a)
    b_unit = a_unit if b is None else _unit(b)
    return a_unit @ b_unit.mT


def mbc(z: Tensor, z_e: Tensor, similarity: Similarity = cosine_similarity) -> Tensor:
    """L_MBC (eq:mbc), model behavior consistency: the mean over pairs of the squared difference of their similarities.

    Args:
        z: Embeddings by the reference, (B, Z).
        z_e: Embeddings of the explanations or of their landmarks, (B, Z); their width may differ from z's.
        similarity: D_Z and D_ZE of the equation.

    Example:
        >>> z, z_e = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> float(mbc(z, z_e))  # two of the four pairs differ, by 1
        0.5
    """
    return (similarity(z) - similarity(z_e)).square().mean()


def mbc_normalised(z: Tensor, z_e: Tensor, similarity: Similarity = cosine_similarity, eps: float = 1e-6) -> Tensor:
    """L_MBC (eq:mbc) over the variance of the reference's similarities: "Distance norm." in the paper's tables.

    Args:
        z: Embeddings by the reference, (B, Z).
        z_e: Embeddings of the explanations or of their landmarks, (B, Z).
        similarity: D_Z and D_ZE of the equation.
        eps: Added to the variance, for a reference whose embeddings all point the same way.
    """
    pairs = similarity(z)  # (B, B)
    return (pairs - similarity(z_e)).square().mean() / (pairs.var(correction=0) + eps)


def simclr(z: Tensor, z_e: Tensor, negatives: Tensor | None = None) -> Tensor:
    """L_SimCLR of the paper's second ablation: contrast a sample's embedding with those of other samples.

    As in the paper's equation, the positive pair is no part of the denominator, so the loss has no lower bound of 0.

    Args:
        z: Embeddings by the reference, (B, Z).
        z_e: Embeddings of the explanations, (B, Z).
        negatives: For every sample the rows of z to contrast it with, (B, M) int64, without its own; the paper samples 32.
            All other samples of the batch by default.
    """
    n = z.shape[0]
    if negatives is None and n < 2:
        raise ValueError(f"Expected at least 2 samples to contrast, got {n}: drop the last, incomplete batch.")
    pairs = cosine_similarity(z_e, z)  # (B, B): row i holds D(z_j, z_e_i)
    if negatives is None:
        others = pairs.masked_fill(torch.eye(n, dtype=torch.bool, device=z.device), -torch.inf)
    else:
        others = pairs.gather(1, negatives)  # (B, M)
    return (others.logsumexp(dim=1) - pairs.diagonal()).mean()


# ---- the prediction --------------------------------------------------------------------------------------------------


def js(logits_a: Tensor, logits_b: Tensor) -> Tensor:
    """Jensen-Shannon divergence of two predictions, sample by sample, in nats: from 0 to log 2.

    Args:
        logits_a: Logits, (..., C).
        logits_b: Logits, (..., C).

    Returns:
        (...), the leading axes broadcast.

    Example:
        >>> apart = js(torch.tensor([[100.0, 0.0]]), torch.tensor([[0.0, 100.0]]))
        >>> [round(v, 4) for v in apart.tolist()]  # nothing in common: log 2
        [0.6931]
    """
    return _js_of_probabilities(logits_a.softmax(-1), logits_b.softmax(-1))


def pairwise_js(logits: Tensor, published: bool = False) -> Tensor:
    """Jensen-Shannon divergence of all pairs of predictions in a batch, in nats.

    Args:
        logits: Logits, (B, C).
        published: Take the published code's divergence instead, see `_published_divergence`.

    Returns:
        (B, B), symmetric, with an exact 0 on the diagonal.
    """
    return _pairwise(_published_divergence if published else _js_of_probabilities, logits.softmax(-1))


def label_consistency(logits: Tensor, logits_e: Tensor, published: bool = False) -> Tensor:
    """L_LC (eq:la), pair by pair: the mean over pairs of the squared difference of their JS divergences.

    Args:
        logits: Predictions of the reference, F(z), (B, C).
        logits_e: Predictions from the explanations, F^E(z^E), (B, C).
        published: Take the published code's divergence in the place of JS.
    """
    return (pairwise_js(logits, published) - pairwise_js(logits_e, published)).square().mean()


def label_consistency_batch(logits: Tensor, logits_e: Tensor, published: bool = False) -> Tensor:
    """L_LC in the published code's form: the mean JS divergence of each side's pairs first, then one squared gap.

    The term compares how diverse the two sides' predictions are, not which of them differ.

    Args:
        logits: Predictions of the reference, F(z), (B, C).
        logits_e: Predictions from the explanations, F^E(z^E), (B, C).
        published: Take the published code's divergence in the place of JS.
    """
    return (pairwise_js(logits, published).mean() - pairwise_js(logits_e, published).mean()).square()


def label_consistency_instance(logits: Tensor, logits_e: Tensor) -> Tensor:
    """L_LC instance by instance: the mean JS divergence of a sample's explained prediction from the reference's.

    This is the second half of the paper's definition of consistency (y and y^E alike for every sample), which eq:la,
    blind to a permutation of the classes, does not enforce.

    Args:
        logits: Predictions of the reference, F(z), (B, C).
        logits_e: Predictions from the explanations, F^E(z^E), (B, C).
    """
    return js(logits, logits_e).mean()


def label_consistency_mse(y: Tensor, y_e: Tensor) -> Tensor:
    """L_LC (eq:la) for forecasts, with D(y_i, y_j) = the mean squared difference over outputs in the place of JS.

    Args:
        y: Forecasts of the reference, (B, ...).
        y_e: Forecasts from the explanations, (B, ...).

    Returns:
        The mean over pairs of the squared difference of the two sides' D.
    """
    flat, flat_e = y.reshape(y.shape[0], -1), y_e.reshape(y_e.shape[0], -1)  # (B, H)
    return (_pairwise(_squared_difference, flat) - _pairwise(_squared_difference, flat_e)).square().mean()


def label_consistency_mse_instance(y: Tensor, y_e: Tensor) -> Tensor:
    """L_LC for forecasts sample by sample: the mean squared difference of the two forecasts.

    Args:
        y: Forecasts of the reference, (B, H).
        y_e: Forecasts from the explanations, (B, H).
    """
    return _squared_difference(y, y_e).mean()


# ---- helpers ---------------------------------------------------------------------------------------------------------


def _unit(z: Tensor) -> Tensor:
    """Rows scaled to length 1; rows without a direction stay as they are, so that their gradient stays moderate."""
    squared = z.square().sum(-1, keepdim=True)  # (B, 1)
    return z * torch.where(squared > SQUARED_NORM_EPS, squared, 1.0).rsqrt()


def _entropy(p: Tensor) -> Tensor:
    """Entropy over the last axis in nats, with 0 log 0 = 0 and a finite slope there."""
    return -(p * p.clamp_min(torch.finfo(p.dtype).tiny).log()).sum(-1)


def _js_of_probabilities(p: Tensor, q: Tensor) -> Tensor:
    """JS as H(mean) - mean H: two entropies need no pairs, and no ratio of probabilities can overflow."""
    return _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2


def _published_divergence(p: Tensor, q: Tensor) -> Tensor:
    """The published code's divergence: the mean over classes of (KL(m || p) + KL(m || q)) / 2 with m = (p + q) / 2."""
    tiny = torch.finfo(p.dtype).tiny
    m = (p + q) / 2
    log_p, log_q, log_m = (v.clamp_min(tiny).log() for v in (p, q, m))
    return (m * (log_m - (log_p + log_q) / 2)).mean(-1)


def _squared_difference(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).square().mean(-1)


def _pairwise(distance: Callable[[Tensor, Tensor], Tensor], rows: Tensor) -> Tensor:
    """`distance` of all pairs of rows (B, C) as (B, B), in blocks of rows whose (block, B, C) fits `PAIR_BYTES`.

    Blocks bound the temporaries of one member of a stack; what autograd keeps for the backward pass still grows with
    B * B * C.
    """
    bytes_per_row = max(1, rows.numel() * rows.element_size())
    blocks = rows.split(max(1, PAIR_BYTES // bytes_per_row))
    return torch.cat([distance(block[:, None], rows[None]) for block in blocks])  # (B, B)
