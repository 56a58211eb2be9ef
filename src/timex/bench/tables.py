"""The paper's tables and figures, and the battery, as data: which explainers, on which data sets and models, measured how.

`experiments` has the parts and the notation of the methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from timex.bench.experiments import CENTRE, CONTROLS, Claim, Experiment, Table, Where
from timex.bench.recipes import R_VALUES, REFERENCE, TIMEX
from timex.data.battery import BATTERY, FINAL, GUIDE, HeldOut

PAPERS = "timex:paper"
BOTH = ("timex", PAPERS)
"""Our default and the paper's objective, on the same models."""
METHODS = ("ig", "ig:absolute", "dynamask", "winit", "cortx", "sgt_grad", "gradients", *BOTH, *CONTROLS)
"""The rows of the paper's ground-truth tables, |IG|, our gradients and the controls."""
FEW = ("ig", "ig:absolute", "dynamask", "winit", "gradients", *BOTH, *CONTROLS)
"""The same for the paper's tables of other architectures."""
GROUND_TRUTH = ("auprc", "aup", "aur")
QUANTILES = (0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99)
"""Shares of cells occluded, least important first."""
LANDMARK_GROUPS = ("landmark", "kmeans", "kmeans_as_many", "random")


def _ground_truth(title: str, datasets: tuple[str, ...], where: Where, **more: Any) -> Table:
    options = {"methods": METHODS, "metrics": GROUND_TRUTH, "measure": "ground_truth", **more}
    return Table(title=title, datasets=datasets, where=where, **options)


def _r1(e: Experiment, metric: str) -> tuple[str, str, str]:
    return f"r1/{e.dataset}/{e.published_arch}", e.method, metric


def _by_arch(e: Experiment, metric: str) -> tuple[str, str, str]:
    return f"{e.published_arch}/{e.dataset}", e.method, metric


def _landmarks(e: Experiment, metric: str) -> tuple[str, str, str]:
    group, _, score = metric.partition("/")
    return f"landmarks/clustering_{e.dataset}", group, score


def _occlusion(e: Experiment, metric: str) -> tuple[str, str, str]:
    return "later/occlusion_auroc", f"{e.dataset}/{e.method}{e.swap}", metric  # no row is called timexas_occluded


def _runtime(e: Experiment, metric: str) -> tuple[str, str, str]:
    return "runtime_seconds", e.method, f"{e.dataset}_{'train' if metric == 'fit_seconds' else 'infer'}"


def _ablation(name: str, title: str, full: str, claims: dict[str, str]) -> Table:
    """An ablation of the paper's objective: ours has no such terms.

    Args:
        name: The paper's table.
        title: What it shows.
        full: The paper's row without a swap.
        claims: What the paper concludes from each swap.
    """

    def where(e: Experiment, metric: str) -> tuple[str, str, str]:
        row = e.swap or full if e.method == TIMEX else e.method
        return f"ablation/{name}", f"{e.dataset}/{row}", metric

    arms = {f"{PAPERS}_{swap}": text for swap, text in claims.items()}
    return _ground_truth(
        f"Ablation of the paper's objective: {title}",
        ("freqshapes", "seqcomb_mv", "ecg"),
        where,
        methods=(PAPERS, *arms, *CONTROLS),
        claims=tuple(Claim(text=text, better=(PAPERS, "auprc"), worse=(arm, "auprc")) for arm, text in arms.items()),
        needs=ECG,
    )


def _r_sweep() -> Table:
    """The paper's objective at every r; the paper says that r from .4 on makes no difference."""
    return Table(
        title="The prior r of the paper's objective, everything else held",
        measure="ground_truth",
        datasets=("seqcomb_uv",),
        methods=tuple(f"{PAPERS}_r{r:g}" for r in R_VALUES),
        metrics=GROUND_TRUTH,
        claims=tuple(
            Claim(
                text=f"r is stable above .4: {r:g} is as good as .5",
                better=(f"{PAPERS}_r{r:g}", "auprc"),
                worse=(f"{PAPERS}_r0.5", "auprc"),
                higher=None,
            )
            for r in R_VALUES
            if r >= 0.4 and r != 0.5
        ),
    )


def _battery(title: str, sets: Mapping[str, HeldOut], methods: tuple[str, ...], groups: dict[str, Sequence[str]]) -> Table:
    """A table over sets of the battery, each with the architecture it names."""
    return Table(
        title=title,
        measure="ground_truth",
        datasets=tuple(sets),
        arch_of={name: s.arch for name, s in sets.items()},
        methods=methods,
        metrics=(*GROUND_TRUTH, "gap"),
        groups=groups,
    )


HALVES: dict[str, Sequence[str]] = {
    "The half that may guide choices": tuple(GUIDE),
    "The half of the last run": tuple(FINAL),
}
ECG = "MIT-BIH (ecg)"
TABLES: dict[str, Table] = {
    "univariate": _ground_truth("Univariate synthetic data", ("freqshapes", "seqcomb_uv"), _r1),
    "multivariate": _ground_truth("Multivariate synthetic data", ("seqcomb_mv", "lowvar"), _r1),
    "ecg": _ground_truth("ECG", ("ecg", "ecg_by_patient"), _r1, methods=(*METHODS, CENTRE), needs=ECG),
    "ablation-ste": _ablation(
        "ste",
        "without the straight-through estimator",
        "ste",
        {"no_ste": "the straight-through estimator helps"},
    ),
    "ablation-simclr": _ablation("simclr", "SimCLR in the place of MBC", "mbc", {"simclr": "MBC beats SimCLR"}),
    "ablation-losses": _ablation(
        "losses",
        "MBC or label consistency alone",
        "full",
        {"mbc_only": "MBC + LC beats MBC alone", "lc_only": "MBC + LC beats LC alone"},
    ),
    "iou": _ground_truth(
        "IoU beside AUPRC",
        ("seqcomb_uv",),
        lambda e, metric: (f"iou/{e.dataset}", e.method, metric),
        methods=("ig", "ig:absolute", "dynamask", "gradients", *BOTH, *CONTROLS),
        metrics=("iou", "auprc"),
    ),
    "occlusion": Table(
        title="Occlusion of the least important cells: AUROC of the model on what is left",
        measure="occlusion",
        datasets=("epilepsy", "pam", "boiler"),
        methods=("ig", "dynamask", "gradients", *BOTH, "timex:as_occluded", "random"),
        metrics=tuple(f"{q:g}" for q in QUANTILES),
        where=_occlusion,
        needs="Epilepsy, PAM, Boiler",
    ),
    "runtime": Table(
        title="Seconds to fit, and to explain the test part",
        measure="runtime",
        datasets=("pam", "epilepsy"),
        methods=("dynamask", "winit", "gradients", *BOTH),
        metrics=("fit_seconds", "explain_seconds"),
        where=_runtime,
        needs="PAM, Epilepsy",
    ),
    "classification": Table(
        title="The models that are explained",
        measure="classification",
        datasets=(
            "freqshapes",
            "seqcomb_uv",
            "seqcomb_mv",
            "lowvar",
            "ecg",
            "ecg_by_patient",
            "epilepsy",
            "epilepsy_by_recording",
            "pam",
            "boiler",
        ),
        methods=(REFERENCE,),
        metrics=("f1", "auprc", "auroc"),
        where=lambda e, metric: ("classification", e.dataset, metric),
        needs="ECG, Epilepsy, PAM, Boiler for their rows",
    ),
    "lstm": _ground_truth(
        "LSTM", ("freqshapes", "seqcomb_mv", "ecg"), _by_arch, archs=("lstm",), methods=FEW, needs=ECG + " for its rows"
    ),
    "cnn": _ground_truth(
        "CNN", ("freqshapes", "seqcomb_mv", "ecg"), _by_arch, archs=("cnn",), methods=FEW, needs=ECG + " for its rows"
    ),
    "irregular": _ground_truth(
        "Irregularly sampled SeqComb-MV",
        ("seqcomb_mv_irregular",),
        lambda e, metric: (f"irregular/{e.dataset.removesuffix('_irregular')}", e.method, metric),
        methods=("ig", "ig:absolute", "gradients", *BOTH, *CONTROLS),
    ),
    "forecasting": Table(
        title="Forecasting ETTh1: 720 hours in, 24 out",
        measure="forecast",
        datasets=("ett",),
        methods=("timex:forecast", "timex:paper"),
        folds=1,
        archs=("forecaster",),
        metrics=("mse", "mse_persistence", "change_kept", "change_random", "late_share"),
        needs="ETTh1 (ett)",
    ),
    "landmarks-dtw": Table(
        title="DTW between the salient steps within groups of explanations",
        measure="landmarks_dtw",
        datasets=("ecg",),
        methods=BOTH,
        metrics=("landmark/dtw", "random/dtw"),
        claims=tuple(
            Claim(
                text="groups around landmarks have lower DTW than random groups",
                better=(label, "landmark/dtw"),
                worse=(label, "random/dtw"),
                higher=False,
            )
            for label in BOTH
        ),
        needs=ECG,
    ),
    "landmarks-clusters": Table(
        title="Nearest landmark, nearest K-means centre, nearest random explanation: agreement with the labels",
        measure="landmarks_clusters",
        datasets=("ecg",),
        methods=BOTH,
        metrics=tuple(f"{group}/{score}" for group in LANDMARK_GROUPS for score in ("nmi", "ari", "purity")),
        where=_landmarks,
        claims=tuple(
            Claim(
                text=f"landmarks beat K-means in {score.upper()}",
                better=(label, f"landmark/{score}"),
                worse=(label, f"kmeans/{score}"),
            )
            for label in BOTH
            for score in ("nmi", "ari")
        ),
        needs=ECG,
    ),
    "r-sweep": _r_sweep(),
    "heldout": _battery(
        "The battery: data that no setting was tuned for",
        BATTERY,
        ("timex", "gradients", "ig", "ig:absolute", "dynamask", *CONTROLS),
        HALVES,
    ),
    "ablation-evidence": _battery(
        "Ablation of our objective",
        GUIDE,
        ("timex", *(f"timex:{arm}" for arm in ("no_gradients", "blended", "sampled", "mean_fill")), *CONTROLS),
        {"Mean": tuple(GUIDE)},
    ),
    "explanations": Table(
        title="Explanations of three samples of the last class",
        measure="panel",
        folds=1,
        datasets=("seqcomb_uv",),
        methods=("ig", "dynamask", "gradients", *BOTH),
    ),
    "landmark-figure": Table(
        title="The latent map of explanations, four landmarks and the explanations nearest to them",
        measure="landmark_map",
        folds=1,
        datasets=("ecg",),
        methods=BOTH,
        needs=ECG,
    ),
    "architectures-figure": Table(
        title="TimeX, IG and Dynamask on three architectures",
        measure="panel",
        folds=1,
        datasets=("freqshapes",),
        methods=(*BOTH, "ig", "dynamask", "gradients"),
        archs=("transformer", "cnn", "lstm"),
    ),
}
"""Every table and figure by the name it has on the command line."""
