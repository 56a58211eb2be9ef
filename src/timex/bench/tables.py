"""The paper's tables and figures as data: which explainers, on which data sets and models, measured how.

A method is written `name` or `name:arm`: `timex:no_ste` is TimeX with the setting of that arm (`ARMS`) swapped, and
`ig:absolute` is integrated gradients without their sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from timex.paper import published

CONTROLS = ("random", "amplitude")
"""Explainers that see no model: what they score, the data gives away by itself."""
CENTRE = "centre"
"""A control for windows that are cut around what matters in them; it sees no data either."""
METHODS = ("ig", "ig:absolute", "dynamask", "winit", "cortx", "sgt_grad", "timex", *CONTROLS)
"""The rows of the paper's ground-truth tables, IG also without its sign, and the controls."""
FEW = ("ig", "ig:absolute", "dynamask", "winit", "timex", *CONTROLS)
"""Those of its tables of other architectures."""
GROUND_TRUTH = ("auprc", "aup", "aur")
QUANTILES = (0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99)
"""Shares of cells occluded, least important first."""
R_VALUES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LANDMARK_GROUPS = ("landmark", "kmeans", "kmeans_as_many", "random")

ARMS: dict[str, dict[str, Any]] = {
    "no_ste": {"mask": "soft"},
    "simclr": {"consistency": "simclr"},
    "mbc_only": {"label": "none"},
    "lc_only": {"consistency": "none"},
    "as_occluded": {"masking": "both", "fill": "draw"},  # cells hidden as the occlusion experiment hides them
    "forecast": {"label": "mse", "lam_model": 2.0},  # of squared differences, not of shares
    **{f"r{r:g}": {"r": r} for r in R_VALUES},
}
"""What an arm swaps in the settings of TimeX."""

REFERENCE = "reference"
"""The method of a row that measures the model itself."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One thing to measure on every fold.

    Attributes:
        dataset: A key of `DATASETS`.
        arch: The architecture of the model that is explained.
        method: A key of `EXPLAINERS`, or `REFERENCE` for the model itself.
        arm: A variant of the method: a key of `ARMS` for TimeX, `absolute` for signed attributions; empty for none.
        measure: A key of `timex.bench.measures.MEASURES`.
    """

    dataset: str
    arch: str = "transformer"
    method: str
    arm: str = ""
    measure: str

    @property
    def label(self) -> str:
        """The method as it is written in tables and on the command line."""
        return f"{self.method}:{self.arm}" if self.arm else self.method


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Something the paper says, to be held against our folds: one value is better than another.

    Attributes:
        text: The claim.
        better: Method and metric said to be better.
        worse: Method and metric it is compared with.
        higher: Whether the better value is the higher one; None if the claim is that there is no difference.
    """

    text: str
    better: tuple[str, str]
    worse: tuple[str, str]
    higher: bool | None = True


Where = Callable[[Experiment, str], tuple[str, str, str]]
"""Where the paper has the value of an experiment's metric: its table, row and column in paper.json."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table or figure.

    Attributes:
        title: What it shows.
        measure: How it is measured.
        datasets: The data sets.
        methods: The methods, as `name` or `name:arm`.
        metrics: The metrics shown.
        archs: The architectures of the models explained.
        where: Where the paper's numbers are.
        claims: What the paper concludes from it, checked on every data set and architecture.
        needs: What must be at hand beyond this package.
        folds: Folds at most; a figure draws one.
    """

    title: str
    measure: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    archs: tuple[str, ...] = ("transformer",)
    where: Where | None = None
    claims: tuple[Claim, ...] = ()
    needs: str = ""
    folds: int | None = None

    def experiments(self, datasets: Sequence[str] = (), methods: Sequence[str] = ()) -> Iterator[Experiment]:
        """Everything to measure, with other data sets or methods if given."""
        for dataset, arch, label in product(datasets or self.datasets, self.archs, methods or self.methods):
            method, _, arm = label.partition(":")
            yield Experiment(dataset=dataset, arch=arch, method=method, arm=arm, measure=self.measure)

    def paper(self, experiment: Experiment, metric: str) -> float | None:
        """The paper's value, or None where it has none: a method or an arm that is no row of this table has none."""
        if self.where is None or experiment.arm == "absolute" or experiment.label not in self.methods:
            return None
        table, row, column = self.where(experiment, metric)
        return published(table, row).get(column)


def _ground_truth(title: str, datasets: tuple[str, ...], where: Where, **more: Any) -> Table:
    options = {"methods": METHODS, "metrics": GROUND_TRUTH, "measure": "ground_truth", **more}
    return Table(title=title, datasets=datasets, where=where, **options)


def _r1(e: Experiment, metric: str) -> tuple[str, str, str]:
    return f"r1/{e.dataset}/{e.arch}", e.method, metric


def _split(metric: str) -> tuple[str, str]:
    group, _, name = metric.partition("/")
    return group, name


def _by_arch(e: Experiment, metric: str) -> tuple[str, str, str]:
    return f"{e.arch}/{e.dataset}", e.method, metric


def _ablation(name: str, title: str, full: str, arms: tuple[str, ...], claims: tuple[Claim, ...]) -> Table:
    def where(e: Experiment, metric: str) -> tuple[str, str, str]:
        row = e.arm or full if e.method == "timex" else e.method
        return f"ablation/{name}", f"{e.dataset}/{row}", metric

    methods = ("timex", *(f"timex:{arm}" for arm in arms), *CONTROLS)
    datasets = ("freqshapes", "seqcomb_mv", "ecg")
    return _ground_truth(f"Ablation: {title}", datasets, where, methods=methods, claims=claims, needs=ECG)


def _better(text: str, arm: str) -> Claim:
    return Claim(text=text, better=("timex", "auprc"), worse=(f"timex:{arm}", "auprc"))


ECG = "MIT-BIH (ecg)"
TABLES: dict[str, Table] = {
    "univariate": _ground_truth("Univariate synthetic data", ("freqshapes", "seqcomb_uv"), _r1),
    "multivariate": _ground_truth("Multivariate synthetic data", ("seqcomb_mv", "lowvar"), _r1),
    "ecg": _ground_truth("ECG", ("ecg", "ecg_by_patient"), _r1, methods=(*METHODS, CENTRE), needs=ECG),
    "ablation-ste": _ablation(
        "ste",
        "without the straight-through estimator",
        "ste",
        ("no_ste",),
        (_better("the straight-through estimator helps", "no_ste"),),
    ),
    "ablation-simclr": _ablation(
        "simclr", "SimCLR in the place of MBC", "mbc", ("simclr",), (_better("MBC beats SimCLR", "simclr"),)
    ),
    "ablation-losses": _ablation(
        "losses",
        "MBC or label consistency alone",
        "full",
        ("mbc_only", "lc_only"),
        (_better("MBC + LC beats MBC alone", "mbc_only"), _better("MBC + LC beats LC alone", "lc_only")),
    ),
    "iou": _ground_truth(
        "IoU beside AUPRC",
        ("seqcomb_uv",),
        lambda e, metric: (f"iou/{e.dataset}", e.method, metric),
        methods=("ig", "ig:absolute", "dynamask", "timex", *CONTROLS),
        metrics=("iou", "auprc"),
    ),
    "occlusion": Table(
        title="Occlusion of the least important cells: AUROC of the model on what is left",
        measure="occlusion",
        datasets=("epilepsy", "pam", "boiler"),
        methods=("ig", "dynamask", "timex", "timex:as_occluded", "random"),
        metrics=tuple(f"{q:g}" for q in QUANTILES),
        where=lambda e, metric: ("later/occlusion_auroc", f"{e.dataset}/{e.label}", metric),
        needs="Epilepsy, PAM, Boiler",
    ),
    "runtime": Table(
        title="Seconds to fit, and to explain the test part",
        measure="runtime",
        datasets=("pam", "epilepsy"),
        methods=("dynamask", "winit", "timex"),
        metrics=("fit_seconds", "explain_seconds"),
        where=lambda e, metric: (
            "runtime_seconds",
            e.method,
            f"{e.dataset}_{'train' if metric == 'fit_seconds' else 'infer'}",
        ),
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
        methods=("ig", "ig:absolute", "timex", *CONTROLS),
    ),
    "forecasting": Table(
        title="Forecasting ETTh1: 720 hours in, 24 out",
        measure="forecast",
        datasets=("ett",),
        methods=("timex:forecast",),
        folds=1,
        archs=("forecaster",),
        metrics=("mse", "mse_persistence", "change_kept", "change_random", "late_share"),
        needs="ETTh1 (ett)",
    ),
    "landmarks-dtw": Table(
        title="DTW between the salient steps within groups of explanations",
        measure="landmarks_dtw",
        datasets=("ecg",),
        methods=("timex",),
        metrics=("landmark/dtw", "random/dtw"),
        claims=(
            Claim(
                text="groups around landmarks have lower DTW than random groups",
                better=("timex", "landmark/dtw"),
                worse=("timex", "random/dtw"),
                higher=False,
            ),
        ),
        needs=ECG,
    ),
    "landmarks-clusters": Table(
        title="Nearest landmark, nearest K-means centre, nearest random explanation: agreement with the labels",
        measure="landmarks_clusters",
        datasets=("ecg",),
        methods=("timex",),
        metrics=tuple(f"{group}/{score}" for group in LANDMARK_GROUPS for score in ("nmi", "ari", "purity")),
        where=lambda e, metric: (f"landmarks/clustering_{e.dataset}", *_split(metric)),
        claims=tuple(
            Claim(
                text=f"landmarks beat K-means in {score.upper()}",
                better=("timex", f"landmark/{score}"),
                worse=("timex", f"kmeans/{score}"),
            )
            for score in ("nmi", "ari")
        ),
        needs=ECG,
    ),
    "r-sweep": Table(
        title="The prior r, everything else held",
        measure="ground_truth",
        datasets=("seqcomb_uv",),
        methods=tuple(f"timex:r{r:g}" for r in R_VALUES),
        metrics=GROUND_TRUTH,
        claims=tuple(
            Claim(
                text=f"r is stable above .4: {r:g} is as good as .5",
                better=(f"timex:r{r:g}", "auprc"),
                worse=("timex:r0.5", "auprc"),
                higher=None,
            )
            for r in R_VALUES
            if r >= 0.4 and r != 0.5
        ),
    ),
    "explanations": Table(
        title="Explanations of three samples of the last class",
        measure="panel",
        folds=1,
        datasets=("seqcomb_uv",),
        methods=("ig", "dynamask", "timex"),
    ),
    "landmark-figure": Table(
        title="The latent map of explanations, four landmarks and the explanations nearest to them",
        measure="landmark_map",
        folds=1,
        datasets=("ecg",),
        methods=("timex",),
        needs=ECG,
    ),
    "architectures-figure": Table(
        title="TimeX, IG and Dynamask on three architectures",
        measure="panel",
        folds=1,
        datasets=("freqshapes",),
        methods=("timex", "ig", "dynamask"),
        archs=("transformer", "cnn", "lstm"),
    ),
}
"""Every table and figure by the name it has on the command line."""
