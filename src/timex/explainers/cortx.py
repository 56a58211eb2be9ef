"""CoRTX (Chuang et al., 2023): an encoder trained by contrast, a head fitted to Shapley values of a few samples.

Shapes: B samples, T time steps, D channels, C classes, H the width of the encoder, M masked copies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from timex import engine
from timex.engine import Noise, Tensors
from timex.explainers.base import Explainer
from timex.explainers.batch import Batch
from timex.explainers.shapley import random_ranks, shapley_values
from timex.nn.layers import TransformerEncoder, mean_over_time, mlp_head, observed_steps
from timex.progress import training_bar
from timex.records import Series
from timex.reference.beside import beside
from timex.settings import Settings, setting

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CoRTXConfig(Settings):
    """Settings of `CoRTX`; ours except where the authors are named."""

    label_share: float = setting(
        0.1, "Share of the training samples whose Shapley values are computed; the authors use .05 to .25.", above=0, most=1
    )
    permutations: int = setting(10, "Permutations per sample whose Shapley values are computed.", least=1)
    copies: int = setting(8, "Masked copies of a sample; the one whose prediction changes least is its positive.", least=1)
    temperature: float = setting(0.1, "Temperature of the contrastive loss.", above=0)
    layers: int = setting(2, "Layers of the encoder, a transformer like the reference models.", least=1)
    hidden: int = setting(64, "Width of the encoder's feed-forward part.", least=1)
    pretrain_epochs: int = setting(10, "Epochs of contrastive training.", least=1)
    epochs: int = setting(150, "Epochs of fitting to Shapley values, at most; the best on validation samples is kept.", least=1)
    lr: float = setting(1e-3, "Learning rate of both trainings.", above=0)
    batch_size: int = setting(64, "Samples in a step of both trainings.", least=1)
    seed: int = setting(0, "Seed of weights, data order, masks, chosen samples and permutations.")


@dataclass(frozen=True, kw_only=True)
class CoRTXReport:
    """Figures of the two trainings."""

    labels: int
    """Samples with Shapley values, those for validation included."""
    contrast_first: float
    """Contrastive loss in the first epoch; log B for an encoder that gives every series the same vector."""
    contrast_last: float
    """Contrastive loss in the last epoch."""
    explained: float
    """Share of the variance of the validation Shapley values that the head predicts; 0 is no better than their mean."""


class Network(nn.Module):
    """An encoder over steps and a head that gives every cell a value for every class.

    The authors' head receives one vector per sample. Here the contrastive loss compares means over time, and the head receives
    the vector of each step.

    Args:
        n_channels: D.
        n_classes: C.
        n_steps: T.
        config: Size of the encoder.
    """

    def __init__(self, n_channels: int, n_classes: int, n_steps: int, config: CoRTXConfig) -> None:
        super().__init__()
        self.n_classes = n_classes
        self.encoder = TransformerEncoder(n_channels, n_steps, config.layers, config.hidden, rate=0.0)
        self.head = mlp_head(self.encoder.width, n_channels * n_classes)

    def embed(self, x: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensor:
        """One unit vector per sample, (B, H)."""
        steps = observed_steps(observed)
        return F.normalize(mean_over_time(self.encoder(x, times, steps), steps), dim=-1)

    def forward(self, x: Tensor, times: Tensor | None, observed: Tensor | None, embed: bool = False) -> Tensor:
        """Values of every cell and class, (B, T, D, C); or, for the contrastive loss, `embed`."""
        if embed:
            return self.embed(x, times, observed)
        h = self.encoder(x, times, observed_steps(observed))
        return self.head(h).unflatten(-1, (-1, self.n_classes))


class Contrast:
    """The engine's program of the first training: InfoNCE of a sample's positive against the other samples."""

    stackable = False  # it runs the explained model, which vmap may not support

    def __init__(self, module: Network, positives: Callable[[Tensors, Noise], Tensor], temperature: float) -> None:
        self.module, self.positives, self.temperature = module, positives, temperature

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """InfoNCE of a batch: each sample's positive against the other samples."""
        extra = (batch.get("times"), batch.get("observed"))
        h, positive = (
            functional_call(self.module, params, (x, *extra), {"embed": True})
            for x in (batch["x"], self.positives(batch, noise))
        )
        return {"loss": info_nce(h, positive, self.temperature)}

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """The contrastive loss on validation data."""
        return {"criterion": self.loss(params, frozen, val, hyper, noise)["loss"]}


class Regression:
    """The engine's program of the second training: mean squared error to Shapley values."""

    stackable = False

    def __init__(self, module: Network) -> None:
        self.module = module

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Mean squared error over the existing cells."""
        out = functional_call(self.module, params, (batch["x"], batch.get("times"), batch.get("observed")))
        error = ((out - batch["values"]) ** 2).mean(-1)  # (B, T, D)
        if "observed" not in batch:
            return {"loss": error.mean()}
        return {"loss": (error * batch["observed"]).sum() / batch["observed"].sum().clamp(min=1)}

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """The error on validation samples."""
        return {"criterion": self.loss(params, frozen, val, hyper, noise)["loss"]}


def info_nce(h: Tensor, positive: Tensor, temperature: float) -> Tensor:
    """-log of the positive's share among the positive and the other samples, for unit vectors (B, H)."""
    near = (h * positive).sum(-1, keepdim=True)  # (B, 1)
    others = (h @ h.T).masked_fill(torch.eye(len(h), dtype=torch.bool, device=h.device), -torch.inf)
    return -(torch.cat([near, others], 1) / temperature).log_softmax(1)[:, 0].mean()


class Taught(NamedTuple):
    """The fitted network, the scale of its outputs, figures of the trainings, and (T, D) of the series."""

    network: Network
    scale: Tensor
    report: CoRTXReport
    shape: tuple[int, ...]


class CoRTX(Explainer[Taught]):
    """One pass through a small network that was fitted to Shapley values (Chuang et al., 2023).

    First the encoder h is trained by contrast: it minimises

        -log(exp(h_i h_i+ / temperature) / (exp(h_i h_i+ / temperature) + sum over j != i of exp(h_i h_j / temperature)))

    h_i+ belongs to the positive of series i: among `copies` copies with random cells set to zero, the one that changes the
    model's prediction least. Then encoder and head are fitted to Shapley values of a small share of the training series, by
    mean squared error. These are Shapley values of the class probabilities against the zero series, by sampled permutations.

    Scores are signed. Assumes that zero is a neutral value of the data, and that explanations of new series resemble those of
    the training series with Shapley values. `fitted.report.explained` measures this on validation samples.
    """

    name = "cortx"
    cost = "0"
    numbers = "none"
    signed = True
    config_class = CoRTXConfig
    config: CoRTXConfig
    needs_fit = True

    def _fit(self, series: Series, held_out: Series | None, progress: bool) -> Taught:
        c = self.config
        train, val = self.training_tensors(series, held_out)
        t, d = train["x"].shape[1:]
        n_classes = self.predictions({name: v[:1] for name, v in train.items()}).shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(c.seed)
            network = Network(d, n_classes, t, c).to(self.device)
        schedule = engine.Schedule(epochs=c.pretrain_epochs, batch_size=c.batch_size, decay=True)
        contrast = Contrast(network, self._positives, c.temperature)
        run = self._train("CoRTX encoder", network, contrast, train, val, schedule, progress)
        labelled = self._labels(train, max(2, round(c.label_share * len(train["x"]))))
        held = self._labels(val, max(2, len(labelled["x"]) // 5))
        schedule = engine.Schedule(epochs=c.epochs, batch_size=c.batch_size, decay=True, patience=max(20, c.epochs // 4))
        # values are scaled to deviation 1, so that one learning rate suits every model
        scale = labelled["values"].std().clamp(min=1e-12)
        for part in (labelled, held):
            part["values"] = part["values"] / scale
        fitted = self._train("CoRTX head", network, Regression(network), labelled, held, schedule, progress)
        network.requires_grad_(False).eval()
        report = CoRTXReport(
            labels=len(labelled["x"]) + len(held["x"]),
            contrast_first=run.history[0]["loss"],
            contrast_last=run.history[-1]["loss"],
            explained=1 - fitted.criterion / float(held["values"].var(unbiased=False).clamp(min=1e-12)),
        )
        if report.explained < 0.1:
            log.warning(
                "CoRTX: the head predicts %.0f %% of the variance of the Shapley values of validation samples: more labels "
                "(label_share) or permutations are needed before its scores mean anything",
                100 * report.explained,
            )
        return Taught(network, scale.to(self.device), report, series.shape[1:])

    def _train(
        self,
        label: str,
        network: Network,
        program: engine.Program,
        train: Tensors,
        val: Tensors,
        schedule: engine.Schedule,
        progress: bool,
    ) -> engine.Trained:
        """Train the network's weights with a program, and load the best."""
        params = {name: p.detach() for name, p in network.named_parameters()}
        member = engine.Member(params=params, frozen={}, train=train, val=val, lr=self.config.lr, seed=self.config.seed)
        with training_bar(label, progress) as on_epoch:
            run = engine.train(program, [member], schedule, device=self.device, on_epoch=on_epoch)[0]
        network.load_state_dict(run.selected())
        return run

    @torch.no_grad()
    def _positives(self, batch: Tensors, noise: Noise) -> Tensor:
        """The masked copy of every series whose prediction changes least, (B, T, D)."""
        x, m = batch["x"], self.config.copies
        b, t, d = x.shape
        share = noise.uniform(b, m, 1, 1)  # share of the cells that a copy keeps
        copies = x[:, None] * (noise.uniform(b, m, t, d) < share)
        place = torch.arange(b, device=x.device)
        extra = (batch.get("times"), batch.get("observed"))
        with beside(batch):
            logits = self.logits(x, *extra)
            of_copies = self.logits_of_copies(copies, Batch(x, logits.argmax(-1), *extra, place, logits))  # (B, M, C)
        change = of_copies.softmax(-1) - logits.softmax(-1)[:, None]
        best = change.abs().sum(-1).argmin(1)  # (B,)
        return copies[place, best]

    def _labels(self, data: Tensors, n: int) -> Tensors:
        """Shapley values of `n` random samples, beside their series."""
        c = self.config
        order = torch.randperm(len(data["x"]), generator=torch.Generator().manual_seed(c.seed))[:n].sort().values
        chosen = {name: v[order] for name, v in data.items()}
        values = [self._shapley(batch).cpu() for batch in self.batches(chosen, copies=16 * c.permutations)]
        return {**chosen, "values": torch.cat(values)}

    def _shapley(self, batch: Batch) -> Tensor:
        """Shapley values of the class probabilities, (B, T, D, C)."""
        rank = random_ranks(self.config.seed, batch.place, self.config.permutations, batch.x[0].numel())
        value = lambda copies: self.logits_of_copies(copies, batch).softmax(-1)  # noqa: E731
        return shapley_values(value, batch.x, rank, self._rows(batch.x.shape))

    @torch.no_grad()
    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        values = self.fitted.network(batch.x, batch.times, batch.observed) * self.fitted.scale  # (B, T, D, C)
        return {"attribution": values.gather(3, batch.target[:, None, None, None].expand(*batch.x.shape, 1))[..., 0]}
