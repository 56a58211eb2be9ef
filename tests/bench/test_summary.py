"""Means, errors, differences and claims, by hand."""

import math
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from timex.bench import TABLES, Grid
from timex.bench.cells import REVISIONS, cells_of, outdated
from timex.bench.experiments import Claim
from timex.bench.figures import occlusion_curves
from timex.bench.names import method_name
from timex.bench.render import POOLED, Sheet, Terminal, Text, latex, markdown, sheet, sheets
from timex.bench.store import Result, Score
from timex.bench.summary import Stat, blocks, difference, verdict
from timex.metrics import score_summary

HIGHER = Claim(text="", better=("a", "x"), worse=("b", "x"))


def stat(*values, n=1):
    return Stat({k: Score(v, n, n * v * v) for k, v in enumerate(values)})


def made(
    method,
    values,
    *,
    dataset="freqshapes",
    arm="",
    measure="ground_truth",
    metric="auprc",
    config="c",
    error=None,
    smoke=False,
    **facts,
):
    """The cells of one method, one per fold."""
    out = []
    for fold, value in enumerate(values):
        identity = {"dataset": dataset, "arch": "transformer", "method": method, "arm": arm, "measure": measure, "fold": fold}
        identity["smoke"] = smoke
        scores = {} if error else {metric: Score(value, 100, 100 * value**2)}
        about = {"finished": "2026-01-01", "device": "cpu", "torch": "2", "timex": "0", **facts}
        key = f"{dataset}-{method}-{arm}-{measure}-{fold}-{config}"
        out.append(Result(cell=identity, key=key, config_hash=config, scores=scores, error=error, facts=about))
    return out


def test_a_stat_is_what_the_metrics_say_of_the_samples():
    samples, fold = [0.1, 0.3, 0.8, 0.9, 0.4], [0, 0, 1, 1, 1]
    pooled = score_summary({"auprc": samples}, fold)["auprc"]
    own = Stat({0: Score.of(samples[:2]), 1: Score.of(samples[2:])})
    assert own.mean == pytest.approx(pooled["mean"])
    assert own.se_folds == pytest.approx(pooled["se_folds"])
    assert own.se_pooled == pytest.approx(pooled["se_samples"])


def test_plain_values_have_no_pooled_error():
    own = stat(1.0, 3.0)
    assert (own.mean, own.se_folds) == (2.0, 1.0)
    assert math.isnan(own.se_pooled)
    assert math.isnan(stat(1.0).se_folds)


def test_differences_are_paired():
    d = difference(stat(0.5, 0.9, 0.1), stat(0.4, 0.7, 0.0))  # .1, .2, .1: mean .4/3, sd .1/sqrt 3, se 1/30, t(.975, 2) 4.3027
    assert d.mean == pytest.approx(0.4 / 3)
    assert d.high - d.mean == pytest.approx(4.302653 / 30)
    assert d.p == pytest.approx(0.0572, abs=1e-4)  # t = 4 with 2 degrees of freedom
    assert difference(stat(0.5), stat(0.4)) is None
    assert difference(stat(0.5, 0.6), Stat({5: Score(1.0), 6: Score(1.0)})) is None
    same = difference(stat(0.5, 0.6), stat(0.25, 0.35))
    assert same.mean == pytest.approx(0.25)
    assert same.folds == 2


@pytest.mark.parametrize(
    ("a", "b", "higher", "said"),
    [
        ((0.9, 0.91), (0.1, 0.11), True, "holds"),
        ((0.1, 0.11), (0.9, 0.92), True, "contradicted"),
        ((0.1, 0.9), (0.5, 0.5), True, "undecided"),
        ((0.1, 0.11), (0.9, 0.92), False, "holds"),
        ((0.1, 0.9), (0.5, 0.5), None, "undecided"),
        ((0.51, 0.512, 0.511), (0.5, 0.5, 0.5), None, "holds"),
        ((0.9, 0.91), (0.1, 0.12), None, "contradicted"),
    ],
)
def test_verdicts(a, b, higher, said):
    claim = Claim(text="", better=("a", "x"), worse=("b", "x"), higher=higher)
    assert verdict(claim, difference(stat(*a), stat(*b))) == said
    assert verdict(claim, None) == "not measured"


def test_a_block_ranks_explainers_not_controls():
    results = [*made("timex", [0.9, 0.8]), *made("ig", [0.5, 0.7]), *made("winit", [0.1, 0.2]), *made("amplitude", [1.0, 1.0])]
    results += [r for label in ("timex", "centre") for r in made(label, [1.0], dataset="ecg")]
    (block,) = blocks(TABLES["univariate"], results)
    assert [r.label for r in block.rows] == ["ig", "winit", "timex", "amplitude"]  # the order of the table
    assert block.ranking("auprc") == ["timex", "ig", "winit"]
    rival, d = block.against_best("auprc")
    assert rival == "ig"
    assert d.mean == pytest.approx(0.25)
    assert block.rows[2].paper == {"auprc": 0.8324, "aup": 0.7219, "aur": 0.6381}
    (ecg,) = blocks(TABLES["ecg"], results)
    assert [r.control for r in ecg.rows] == [False, True]


def test_other_methods_join_a_table_arms_of_other_tables_do_not():
    results = [
        *made("timex", [0.9]),
        *made("mine", [0.5]),
        *made("timex", [0.1], arm="blended"),
        *made("timex", [0.2], arm="paper"),
    ]
    (block,) = blocks(TABLES["univariate"], results)
    assert [r.label for r in block.rows] == ["timex", "timex:paper", "mine"]
    assert block.rows[1].paper["auprc"] == 0.8324
    (only,) = blocks(TABLES["univariate"], results, methods=["mine"])
    assert [r.label for r in only.rows] == ["mine"]


def test_the_configuration_measured_last_is_shown():
    old, new = made("timex", [0.1, 0.2]), made("timex", [0.9], config="new", finished="2026-02-01")
    (block,) = blocks(TABLES["univariate"], [*new, *old])
    assert block.rows[0].stats["auprc"].mean == 0.9


def test_failures_of_a_later_configuration_replace_no_value_but_are_shown():
    old = made("timex", [0.1, 0.3])
    new = made("timex", [0, 0], config="new", finished="2026-02-01", error="ValueError: no")
    (block,) = blocks(TABLES["univariate"], [*new, *old])
    assert block.rows[0].stats["auprc"].mean == pytest.approx(0.2)
    assert block.rows[0].errors == {0: "ValueError: no", 1: "ValueError: no"}
    (block,) = blocks(TABLES["univariate"], [*old, *made("timex", [0], config="older", finished="2025-01-01", error="no")])
    assert block.rows[0].errors == {}  # it was mended since
    (block,) = blocks(TABLES["univariate"], new)
    assert block.rows[0].stats == {}
    assert len(block.rows[0].errors) == 2


def test_smoke_counts_only_where_there_is_nothing_else():
    smoke = [*made("timex", [0.9], smoke=True, config="s", finished="2026-03-01"), *made("ig", [0.8], smoke=True, config="s")]
    (block,) = blocks(TABLES["univariate"], smoke)
    assert block.title == "freqshapes, transformer, smoke"
    (block,) = blocks(TABLES["univariate"], [*smoke, *made("timex", [0.5])])
    assert block.title == "freqshapes, transformer"
    assert [(r.label, r.stats["auprc"].mean) for r in block.rows] == [("timex", 0.5)]


@pytest.mark.parametrize("fact", ["reference", "weights"])
def test_only_explanations_of_the_same_model_are_paired(fact):
    """IG of an older run explained other models in folds 0 and 1: of another recipe, or trained on another machine."""
    old = [{"reference": f"m{k}", fact: f"m{k}-{'old' if k < 2 else 'new'}"} for k in range(4)]
    new = [{"reference": f"m{k}", fact: f"m{k}-new"} for k in range(4)]
    ig = [made("ig", [0.5, 0.5, 0.4, 0.3], **facts)[k] for k, facts in enumerate(old)]
    ours = [made("timex", [0.0, 0.0, 0.9, 0.9], **facts)[k] for k, facts in enumerate(new)]
    (block,) = blocks(TABLES["univariate"], [*ig, *ours])
    _, d = block.against_best("auprc")
    assert (d.folds, d.mean) == (2, pytest.approx(0.55))
    assert (
        "fold 0, 1: not all rows are known to explain the same model; differences are taken between rows that do"
        in sheet(block).notes
    )
    (block,) = blocks(TABLES["univariate"], ours)
    assert block.mixed == []


def test_a_model_whose_weights_nobody_noted_is_taken_for_another():
    """The folder alone says how a model was trained, not on which machine."""
    results = [*made("ig", [0.5, 0.4], reference="m"), *made("timex", [0.9, 0.9], reference="m", weights="1")]
    (block,) = blocks(TABLES["univariate"], results)
    assert block.against_best("auprc") is None
    assert block.mixed == [0, 1]
    (block,) = blocks(TABLES["univariate"], [*made("ig", [0.5, 0.4], reference="m"), *made("timex", [0.9, 0.9], reference="m")])
    assert block.against_best("auprc") is not None


def test_seconds_of_different_devices_are_told_apart():
    ours, other = made("timex", [0.9, 0.9], explain_seconds=1.0), made("ig", [0.5, 0.5], explain_seconds=9.0)
    (block,) = blocks(TABLES["univariate"], [*ours, *other])
    assert not any("seconds" in note for note in sheet(block).notes)
    other = [replace(r, facts={**r.facts, "device": "NVIDIA H200"}) for r in other]
    (block,) = blocks(TABLES["univariate"], [*ours, *other, *made("random", [0.2, 0.2])])  # of which no seconds are known
    assert "seconds that cannot be compared: IG on NVIDIA H200; TimeX (ours) on cpu" in sheet(block).notes


def test_best_says_among_which_methods():
    results = [*made("timex", [0.9]), *made("ig", [0.5]), *made("random", [0.5])]
    (block,) = blocks(TABLES["univariate"], results)
    left_out = "|IG|, Dynamask, WinIT, CoRTX, SGT + Grad, smoothed IG (ours), TimeX (paper's objective), amplitude (control)"
    assert sheet(block).notes[0] == f"not measured: {left_out}; best and second best are those among IG, TimeX (ours)"
    (block,) = blocks(TABLES["univariate"], results, methods=["timex", "winit"])
    assert sheet(block).notes == ["not measured: WinIT"]
    (block,) = blocks(TABLES["univariate"], made("timex", [0.9], arm="paper"), methods=["timex:paper"])
    assert block.missing == []


def printed(words, width):
    """A sheet as the terminal shows it, and the header of every table in it."""
    rows = [[Text(w) for w in row] for row in words[1:]]
    console = Console(width=width, file=StringIO(), color_system=None)
    console.print(Terminal(Sheet("block", words[0], rows, ["a note"])))
    lines = console.file.getvalue().splitlines()
    return lines, [line.split() for line in lines if line.startswith("  method")]


def test_the_terminal_cuts_no_number():
    """What does not fit beside goes below, a score and the paper's together, the methods before each."""
    words = [
        ["method", "AUPRC", "paper", "AUP", "paper", "folds"],
        ["TimeX", ".123 ± .456 (.789)", ".832", ".654 ± .321 (.789)", ".722", "5"],
    ]
    everything, *_ = rest = printed(words, 200)[1]
    assert everything == words[0]
    assert len(rest) == 1
    for width in range(33, 60):
        lines, headers = printed(words, width)
        assert headers[0][:3] == words[0][:3]
        assert [name for header in headers for name in header[1:]] == words[0][1:]
        shown = " ".join(lines)
        assert "…" not in shown
        assert all(POOLED.sub("", word) in shown for word in words[1])
        assert lines[-1] == "  a note"
        assert all(len(line.rstrip()) <= width for line in lines)


def test_lowvar_is_shown_with_and_without_class_0():
    cells = made("timex", [0.9], dataset="lowvar")
    cells[0] = Result(**{**vars(cells[0]), "scores": {"auprc": Score(0.9), "without_class_0/auprc": Score(0.8)}})
    everyone, without = blocks(TABLES["multivariate"], cells)
    assert everyone.title == "lowvar, transformer, all classes"
    assert without.title == "lowvar, transformer, without class 0"
    assert [b.rows[0].stats["auprc"].mean for b in (everyone, without)] == [0.9, 0.8]


def test_claims_are_held_against_the_folds():
    results = [*made("timex", [0.9, 0.91, 0.9], arm="paper"), *made("timex", [0.5, 0.51, 0.52], arm="paper_no_ste")]
    (block,) = blocks(TABLES["ablation-ste"], results)
    ((claim, d),) = block.claims
    assert verdict(claim, d) == "holds"
    assert block.rows[1].paper["auprc"] == 0.6695


def test_groups_inside_a_measure_are_rows():
    scores = {"landmark/nmi": Score(0.3), "kmeans/nmi": Score(0.1), "random/nmi": Score(0.2), "landmark/ari": Score(0.5)}
    cells = made("timex", [0.0], dataset="ecg", measure="landmarks_clusters")
    cells[0] = Result(**{**vars(cells[0]), "scores": scores})
    (block,) = blocks(TABLES["landmarks-clusters"], cells)
    assert [r.label for r in block.rows] == ["landmark", "kmeans", "kmeans_as_many", "random groups"]
    assert block.metrics == ["nmi", "ari", "purity"]
    assert block.ranking("nmi") == ["landmark", "random groups", "kmeans"]
    assert [r.paper.get("nmi") for r in block.rows] == [0.191, 0.147, None, 0.109]


def test_each_objective_has_its_own_landmarks():
    def cells(arm, *values):
        own = made("timex", values, arm=arm, dataset="ecg", measure="landmarks_dtw")
        scores = [{"landmark/dtw": Score(v), "random/dtw": Score(9.0 + v / 2)} for v in values]
        return [replace(r, scores=s) for r, s in zip(own, scores, strict=True)]

    ours, papers = blocks(TABLES["landmarks-dtw"], [*cells("", 1.0, 2.0), *cells("paper", 20.0, 21.0)])
    assert [b.title for b in (ours, papers)] == [
        "ecg, transformer, TimeX (ours)",
        "ecg, transformer, TimeX (paper's objective)",
    ]
    assert [row.stats["dtw"].mean for b in (ours, papers) for row in b.rows] == [1.5, 9.75, 20.5, 19.25]
    assert [[verdict(*claim) for claim in b.claims] for b in (ours, papers)] == [["holds"], ["undecided"]]
    (alone,) = blocks(TABLES["landmarks-dtw"], cells("", 1.0, 2.0))
    assert [c.better[0] for c, _ in alone.claims] == ["timex"]
    assert alone.missing == ["timex:paper"]


def test_models_with_residuals_have_a_block_of_their_own():
    results = made("timex", [0.9])
    residual = [replace(r, cell={**r.cell, "arch": "transformer_residual"}) for r in made("timex", [0.8])]
    plain, other = blocks(TABLES["univariate"], [*residual, *results])
    assert [b.title for b in (plain, other)] == ["freqshapes, transformer", "freqshapes, transformer_residual"]
    assert [b.rows[0].stats["auprc"].mean for b in (plain, other)] == [0.9, 0.8]
    assert [b.rows[0].paper["auprc"] for b in (plain, other)] == [0.8324, 0.8324]
    note = "the models have residuals around self-attention; the paper's have none"
    assert [note in sheet(b).notes for b in (plain, other)] == [False, True]


def test_occlusion_curves_have_one_colour_for_a_method_and_one_legend():
    here = {"measure": "occlusion", "metric": "0.9"}
    results = [r for name in ("epilepsy", "boiler") for r in made("timex", [0.9, 0.8], dataset=name, **here)]
    results += made("ig", [0.5, 0.6], dataset="epilepsy", **here)  # on one of the two only
    results += made("timex", [0.95, 0.9], arm="as_occluded", dataset="boiler", **here)
    ((_, figure),) = occlusion_curves(Path(), blocks(TABLES["occlusion"], results))
    epilepsy, boiler = ({line.get_label(): line for line in ax.get_lines()} for ax in figure.axes)
    ours = "TimeX (ours)"
    assert epilepsy[ours].get_color() == boiler[ours].get_color() != epilepsy["IG"].get_color()
    # published: TimeX on both; IG and the arm have none there
    assert [
        sum(line.get_linestyle() == ":" and len(line.get_xdata()) > 0 for line in ax.get_lines()) for ax in figure.axes
    ] == [1, 1]
    (legend,) = figure.legends
    assert sorted(t.get_text() for t in legend.get_texts()) == [
        "IG",
        "TimeX (ours)",
        "TimeX (ours, cells hidden as in the experiment)",
        "dotted: published",
    ]


# ------------------------------------------------------------------------------------------------------------- as words


def test_an_arm_beside_other_methods_is_compared_too():
    here = {"dataset": "boiler", "measure": "occlusion", "metric": "0.9"}
    cells = {("dynamask", ""): [0.7, 0.6], ("timex", ""): [0.5, 0.5], ("timex", "as_occluded"): [0.9, 0.9]}
    results = [r for (method, arm), values in cells.items() for r in made(method, values, arm=arm, **here)]
    (block,) = blocks(TABLES["occlusion"], results)
    ours, hidden = [note for note in sheet(block).notes if "−" in note]
    assert ours.startswith("0.9: TimeX (ours) − Dynamask = -.150 [-.785")
    assert hidden.startswith("0.9: TimeX (ours, cells hidden as in the experiment) − Dynamask = +.250 ")


def test_markdown():
    results = [
        *made("timex", [0.9, 0.8], fit_seconds=12.0, explain_seconds=0.25),
        *made("ig", [0.5, 0.7], fit_seconds=0.0, explain_seconds=123.4),
        *made("winit", [0, 0], error="ValueError: no | way"),
    ]
    (block,) = blocks(TABLES["univariate"], results)
    text = markdown(sheet(block, per_fold=True))
    assert (
        "| TimeX (ours) | **.850 ± .050 (.004)** | .832 | - | .722 | - | .638 | 2 | 12.0 | 0.25 |\n| - fold 0 | .900 |" in text
    )
    assert "| IG | _.600 ± .100 (.007)_ | .752 |" in text
    assert "| 123 |\n| - fold 0 | .500 |" in text
    assert "- AUPRC: TimeX (ours) − IG = +.250 [-1.656, 2.156], p = 0.34, paired over 2 folds" in text
    assert "- failed: WinIT fold 0, WinIT fold 1: ValueError: no \\| way" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


def test_a_tiny_p_is_no_number():
    (block,) = blocks(TABLES["univariate"], [*made("timex", [0.9, 0.91, 0.92]), *made("ig", [0.3, 0.31, 0.3199])])
    assert "- AUPRC: TimeX (ours) − IG = +.600 [.600, .600], p < 0.001, paired over 3 folds" in markdown(sheet(block))


def test_latex_is_escaped():
    (block,) = blocks(TABLES["univariate"], [*made("ig", [0.5, 0.7], arm="absolute"), *made("my_own", [0.9, 0.9])])
    text = latex(sheet(block))
    assert r"my\_own & \textbf{.900 $\pm$ .000" in text
    assert r"$|$IG$|$ & \underline{" in text
    assert "_" not in text.replace(r"\_", "")


def test_long_notes_are_wrapped_in_markdown():
    (block,) = blocks(TABLES["univariate"], [*made("timex", [0.9]), *made("ig", [0.5])])
    lines = [line for line in markdown(sheet(block)).splitlines() if not line.startswith("|")]
    assert max(map(len, lines)) <= 120
    note = next(note for note in sheet(block).notes if note.startswith("not measured"))
    assert f"- {note}".replace("|", "\\|") in "\n".join(lines).replace("\n  ", " ")


def test_names():
    assert method_name("ig:absolute") == "|IG|"
    assert method_name("timex:paper_as_occluded") == "TimeX (paper's objective, cells hidden as in the experiment)"
    assert method_name("mine") == "mine"
    assert method_name("mine:absolute") == "mine (absolute)"


def test_tables_with_nothing_measured_are_left_out():
    results = [*made("timex", [0.9]), *made("random", [0.2]), *made("timex", [0.5], arm="paper_simclr")]
    titles = [table.title for table, _ in sheets(TABLES, results)]
    # no arm of the other ablations was measured
    assert titles == ["Univariate synthetic data", "Ablation of the paper's objective: SimCLR in the place of MBC"]
    assert sheets(["ablation-ste"], results, methods=["random"])


def test_weak_models_are_named():
    (block,) = blocks(TABLES["univariate"], made("timex", [0.9, 0.8], reference_passed=False))
    assert "the model of fold 0, 1 stayed more than .02 under the paper's F1" in sheet(block).notes


def test_rows_measured_before_a_change_are_named(monkeypatch):
    (cell,) = cells_of([TABLES["univariate"]], Grid(folds=1), ["freqshapes"], ["timex"])
    facts = {"finished": "2026-01-01", "device": "cpu", "torch": "2", "timex": "0"}
    result = Result(cell=cell.identity, key=cell.key, config_hash=cell.config_hash, scores={"auprc": Score(0.5)}, facts=facts)

    def notes():
        (block,) = blocks(TABLES["univariate"], [result, *made("ig", [0.5])])
        return block.outdated, markdown(sheet(block))

    assert notes()[0] == []
    assert not outdated(replace(result, cell={**result.cell, "method": "of a plugin"}, config_hash="other"))
    monkeypatch.setitem(REVISIONS, "objective/evidence", 99)
    found, text = notes()
    assert found == ["timex"]
    assert "- measured before settings, recipes or code were changed: TimeX (ours)\n" in text
