"""The recurrent reference model: a bidirectional LSTM, mean over time, MLP head.

Shapes: B samples, T time steps, D channels, W = 2 * hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from timex.engine import Noise
from timex.nn.layers import mean_over_time, mlp_head, observed_steps
from timex.reference.base import Output, ReferenceModel


class LSTM(ReferenceModel):
    """A bidirectional LSTM classifier. With padded series its backward direction starts in the padding, and so sees its length.

    Args:
        n_channels: D.
        n_classes: C.
        n_steps: T.
        hidden: Units per direction.
        n_layers: Stacked layers.
    """

    arch = "lstm"
    stackable = False  # torch.vmap has no rule for recurrent layers

    def __init__(self, n_channels: int, n_classes: int, n_steps: int, hidden: int = 64, n_layers: int = 3) -> None:
        super().__init__()
        self.config = {
            "n_channels": n_channels,
            "n_classes": n_classes,
            "n_steps": n_steps,
            "hidden": hidden,
            "n_layers": n_layers,
        }
        self.n_channels, self.n_classes, self.n_steps = n_channels, n_classes, n_steps
        self.lstm = nn.LSTM(n_channels, hidden, n_layers, batch_first=True, bidirectional=True)
        self.embedding_size = 2 * hidden
        self.head = mlp_head(self.embedding_size, n_classes)
        leave_weights_in_place(self)

    def train(self, mode: bool = True) -> LSTM:
        """Set the mode of all layers but the recurrent ones.

        These have no dropout, so the mode changes no value. cuDNN refuses the backward pass of a recurrent layer in evaluation
        mode, and the alternatives are many times slower.
        """
        super().train(mode)
        self.lstm.train()
        return self

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
            raise ValueError("The LSTM has no attention to mask: mask the values instead.")
        h, _ = self.lstm(x)  # (B, T, W)
        z = mean_over_time(h, observed_steps(observed))
        return Output(z, self.head(z))


def leave_weights_in_place(module: nn.Module) -> None:
    """Keep recurrent layers from moving their weights into one block of memory, as they do on a GPU.

    The engine trains weights that share memory with its optimiser; weights moved elsewhere would never be updated.
    """
    for layer in module.modules():
        if isinstance(layer, nn.RNNBase):
            vars(layer)["flatten_parameters"] = _nothing


def _nothing() -> None:
    pass


def backward_in_eval(x: Tensor) -> AbstractContextManager[None]:
    """Without cuDNN, which refuses the backward of a recurrent layer in evaluation mode; the same numbers, a little slower."""
    return _without_cudnn() if x.requires_grad and x.is_cuda else nullcontext()


@contextmanager
def _without_cudnn() -> Iterator[None]:
    # not `torch.backends.cudnn.flags`, which puts every other setting of the user's to its default
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before
