"""One cause at a time: how each choice in TimeX changes the explanations. Rows of JSON, one per data set, fold and variant.

References are trained with their presets and gated, or those of a benchmark run are taken (`--references`); TimeX variants of
equal structure train as one program. Scores are taken on the check draw, which is no part of any data set, so that choices made
from them leave the test part untouched; real data, which have none, are scored on their validation part (`--part val`). `--part
test` is for reporting.

    python benchmarks/quality.py --data freqshapes --folds 0 1 --variants default paper --out quality.json
    python benchmarks/quality.py --data ecg --part val --epochs 2 --variants default lam_model_2 r_0.3
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from timex import TimeX, TimeXConfig, fit_many, load_dataset
from timex.data.synthetic import check_part
from timex.engine import Noise, Tensors
from timex.method.config import PAPER
from timex.method.objective import Objective
from timex.metrics import ground_truth_scores
from timex.reference import load_reference
from timex.reference.train import preset, train_references
from timex.types import Dataset

DEFAULT = TimeXConfig()
VARIANTS = {
    "default": DEFAULT,
    "model_none": replace(DEFAULT, lam_model=0.0),
    "hidden_none": replace(DEFAULT, lam_hidden=0.0),
    "lam_model_2": replace(DEFAULT, lam_model=2.0),
    "lam_hidden_0.5": replace(DEFAULT, lam_hidden=0.5),
    "lam_hidden_3": replace(DEFAULT, lam_hidden=3.0),
    "epochs_60": replace(DEFAULT, epochs=60),
    "lr_1e-3": replace(DEFAULT, lr=1e-3),
    "lr_4e-3": replace(DEFAULT, lr=4e-3),
    "batch_256": replace(DEFAULT, batch_size=256),
    "generator_wide": replace(DEFAULT, generator_hidden=256),
    "generator_deep": replace(DEFAULT, generator_layers=4),
    "judged_draw": replace(DEFAULT, judged="draw"),
    "judged_strength": replace(DEFAULT, judged="strength"),
    "tau_0.5": replace(DEFAULT, tau=0.5),
    "tau_2": replace(DEFAULT, tau=2.0),
    "landmark_spread_0.1": replace(DEFAULT, landmark_spread=0.1),
    "resolution_1": replace(DEFAULT, resolution=1),
    "resolution_2": replace(DEFAULT, resolution=2),
    "resolution_5": replace(DEFAULT, resolution=5),
    "resolution_12": replace(DEFAULT, resolution=12),
    "filters_none": replace(DEFAULT, generator_filters=0),
    "filters_32": replace(DEFAULT, generator_filters=32),
    "shown_none": replace(DEFAULT, shown=0.0),
    "fill_draw": replace(DEFAULT, fill="draw"),
    "masking_attention": replace(DEFAULT, masking="attention"),
    "masking_both": replace(DEFAULT, masking="both"),
    "label_pairwise": replace(DEFAULT, label="pairwise"),
    "label_batch": replace(DEFAULT, label="batch"),
    "connectivity_equation": replace(DEFAULT, connectivity="equation"),
    "select_consistency": replace(DEFAULT, select="consistency"),
    "lr_constant": replace(DEFAULT, scheduler="none"),
    "r_0.1": replace(DEFAULT, r=0.1),
    "r_0.2": replace(DEFAULT, r=0.2),
    "r_0.3": replace(DEFAULT, r=0.3),
    "r_0.5": replace(DEFAULT, r=0.5),
    "mask_soft": replace(DEFAULT, mask="soft"),
    "simclr": replace(DEFAULT, consistency="simclr"),
    "mbc_only": replace(DEFAULT, label="none"),
    "lc_only": replace(DEFAULT, consistency="none"),
}


class SeveralDraws(Objective):
    """Four draws of the masks, fills and dropout in every step; each term is the mean over them."""

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Every term, as a mean."""
        terms = [super(SeveralDraws, self).loss(params, frozen, batch, hyper, noise) for _ in range(4)]
        return {name: torch.stack([t[name] for t in terms]).mean(0) for name in terms[0]}


class FrozenDropout(Objective):
    """The frozen model judges masked series with its dropout on, as one left in training mode would."""

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Every term on one batch."""
        with patch.object(self.reference, "forward", partial(self.reference.forward, noise=noise)):
            return super().loss(params, frozen, batch, hyper, noise)


OBJECTIVES = {"draws_4": SeveralDraws, "frozen_dropout": FrozenDropout}
"""Variants that are no settings: the default with another program."""


def variant(name: str, dataset: str) -> TimeXConfig:
    return PAPER[dataset] if name == "paper" else VARIANTS.get(name, DEFAULT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["freqshapes", "seqcomb_uv", "seqcomb_mv", "lowvar"])
    parser.add_argument("--folds", nargs="+", type=int, default=[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="of TimeX, on the same reference")
    names = ["paper", *VARIANTS, *OBJECTIVES]
    parser.add_argument(
        "--variants", nargs="+", choices=names, default=["default", "paper"], metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--arch", default="transformer")
    parser.add_argument("--part", choices=["check", "val", "test"], default="check")
    parser.add_argument("--epochs", type=int, help="instead of each variant's own")
    parser.add_argument("--reference-epochs", type=int, help="instead of the preset's")
    parser.add_argument("--references", type=Path, help="folder of references that a benchmark run trained, to take instead")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.data:
        rows += study(name, arguments)
        text = json.dumps({"torch": torch.__version__, "device": arguments.device, "rows": rows}, indent=1)
        print(text) if arguments.out is None else arguments.out.write_text(text + "\n")


def study(name: str, arguments: argparse.Namespace) -> list[dict]:
    data = [load_dataset(name, fold) for fold in arguments.folds]
    models, facts = zip(*references_of(data, arguments), strict=True)
    grid = [(v, i, seed) for v in arguments.variants for i in range(len(data)) for seed in arguments.seeds]
    explainers = []
    for v, i, seed in grid:
        settings = replace(variant(v, name), seed=seed)
        settings = settings if arguments.epochs is None else replace(settings, epochs=arguments.epochs)
        explainers.append(TimeX(models[i], config=settings, device=arguments.device))
    started = time.perf_counter()
    programs: dict[type[Objective], list[tuple]] = {}
    for (v, i, _), explainer in zip(grid, explainers, strict=True):
        task = explainer, (data[i].train.x, None, data[i].val.x)
        programs.setdefault(OBJECTIVES.get(v, Objective), []).append(task)
    for program, tasks in programs.items():
        with patch("timex.method.explainer.Objective", program):
            fit_many(*zip(*tasks, strict=True))
    seconds = time.perf_counter() - started
    rows = []
    for (v, i, seed), explainer in zip(grid, explainers, strict=True):
        part = check_part(name, data[i].fold, data[i].seed) if arguments.part == "check" else getattr(data[i], arguments.part)
        explanation = explainer.explain(part.x)
        scores = ground_truth_scores(explanation.attribution, part.truth)
        row = {"data": name, "fold": data[i].fold, "arch": arguments.arch, "variant": v, "seed": seed, "part": arguments.part}
        row |= {metric: round(float(np.nanmean(values)), 4) for metric, values in scores.items()}
        row |= {
            "agreement": round(float(explanation.agreement.mean()), 4),
            "kept": round(float(explanation.attribution.mean()), 4),
        }
        groups = explainer.landmarks.composition  # by the model's class, on training explanations
        row |= {
            "landmarks_used": int((groups.sum(1) > 0).sum()),
            "landmark_purity": round(groups.max(1).sum() / groups.sum(), 4),
        }
        history = explainer.history
        selected = history[history.selected].iloc[0]  # what validation data say of the run, without truth
        row |= {k: round(float(selected[k]), 4) for k in ("criterion", "val_mbc", "val_lc", "val_model", "val_l_m")}
        row |= facts[i]
        row |= {"seconds_for_all": round(seconds, 1), "config": asdict(explainer.config)}
        rows.append(row)
        print(*list(row.values())[:-1], flush=True)
    return rows


def references_of(data: list[Dataset], arguments: argparse.Namespace) -> list[tuple]:
    """For every fold the model that is explained, and what its row says of it."""
    if arguments.references is None:
        config = preset(data[0].name, arguments.arch)
        config = config if arguments.reference_epochs is None else replace(config, epochs=arguments.reference_epochs)
        trained = train_references(data, arguments.arch, config, device=arguments.device, seeds=arguments.folds)
        return [(t.model, {"reference_f1": round(t.test["f1"], 4), "reference_passed": t.passed}) for t in trained]
    found = []
    for d in data:
        folders = sorted(arguments.references.glob(f"{d.name}-{arguments.arch}-f{d.fold}-*"))
        if len(folders) != 1:
            raise SystemExit(
                f"Expected one {d.name}-{arguments.arch}-f{d.fold}-* in {arguments.references}, got {len(folders)}."
            )
        facts = json.loads((folders[0] / "reference.json").read_text())
        row = {"reference_f1": round(facts["scores"]["test"]["f1"], 4), "reference_passed": facts["passed"]}
        found.append((load_reference(folders[0]), row))
    return found


if __name__ == "__main__":
    main()
