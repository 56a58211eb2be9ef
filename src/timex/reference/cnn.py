"""The convolutional reference model: three blocks (kernels 7, 3, 3; ReLU; max-pool 2), mean over time, MLP head.

Shapes: B samples, T time steps, D channels, W the width of the blocks.
"""

from __future__ import annotations

from torch import Tensor, nn

from timex.engine import Noise
from timex.nn.layers import mean_over_time, mlp_head, observed_steps
from timex.reference.base import Output, ReferenceModel

KERNELS = (7, 3, 3)


def halve(h: Tensor) -> Tensor:
    """Max-pool by 2 along the last axis, (..., T) -> (..., T // 2); written with amax, which vmap can stack."""
    length = h.shape[-1] // 2 * 2
    return h[..., :length].unflatten(-1, (length // 2, 2)).amax(dim=-1)


class CNN(ReferenceModel):
    """A three-block 1-D convolutional classifier. Series shorter than 8 steps cannot be pooled three times.

    Args:
        n_channels: D.
        n_classes: C.
        n_steps: T.
        width: Filters of every block.
    """

    arch = "cnn"

    def __init__(self, n_channels: int, n_classes: int, n_steps: int, width: int = 128) -> None:
        super().__init__()
        if n_steps < 2 ** len(KERNELS):
            raise ValueError(f"Expected at least {2 ** len(KERNELS)} time steps for the CNN, got {n_steps}.")
        self.config = {"n_channels": n_channels, "n_classes": n_classes, "n_steps": n_steps, "width": width}
        self.n_channels, self.n_classes, self.n_steps = n_channels, n_classes, n_steps
        widths = (n_channels, width, width)
        self.blocks = nn.ModuleList(nn.Conv1d(w, width, k, padding=k // 2) for w, k in zip(widths, KERNELS, strict=True))
        self.activations = nn.ModuleList(nn.ReLU() for _ in KERNELS)  # modules, which DeepLift and guided gradients look for
        self.embedding_size = width
        self.head = mlp_head(width, n_classes)

    def output(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Output:
        """Z (B, W) and logits (B, C). Times are not used; steps that were not measured take no part in the mean."""
        if mask is not None:
            raise ValueError("The CNN has no attention to mask: mask the values instead.")
        h = x.transpose(1, 2)  # (B, D, T)
        steps = observed_steps(observed)
        weight = None if steps is None else steps.to(x.dtype)  # (B, T)
        for block, activation in zip(self.blocks, self.activations, strict=True):
            h = halve(activation(block(h)))  # (B, W, T / 2)
            weight = None if weight is None else halve(weight)
        z = mean_over_time(h.transpose(1, 2), weight)
        return Output(z, self.head(z))
