"""Settings: a field is declared once, and checks, tables, text and JSON follow from it."""

import json
from dataclasses import FrozenInstanceError, asdict, dataclass, field
from typing import Literal

import pytest

from timex.settings import Row, Settings, setting


@dataclass(frozen=True, kw_only=True)
class Inner(Settings):
    rate: float = setting(0.5, "A rate.", above=0, most=1, scalar=True)
    kind: Literal["soft", "hard"] = setting("soft", "A kind.")
    steps: int | None = setting(None, "Steps; None for all.", least=1)


@dataclass(frozen=True, kw_only=True)
class Outer(Settings):
    seed: int = setting(0, "A seed.")
    verbose: bool = setting(False, "More output.")
    inner: Inner = field(default_factory=Inner)


def test_rows_are_the_declared_fields():
    assert list(Outer.rows()) == [
        Row("seed", "int", 0, "A seed.", False),
        Row("verbose", "bool", False, "More output.", False),
        Row("inner.rate", "float > 0 <= 1", 0.5, "A rate.", True),
        Row("inner.kind", "soft, hard", "soft", "A kind.", False),
        Row("inner.steps", "int or None >= 1", None, "Steps; None for all.", False),
    ]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"inner.rate": 0}, "Expected rate > 0, got 0"),
        ({"inner.rate": 1.5}, "Expected rate <= 1, got 1.5"),
        ({"inner.rate": "much"}, "Expected rate as float, got 'much'"),
        ({"inner.kind": "medium"}, "Expected kind among soft, hard, got 'medium'"),
        ({"inner.steps": 0}, "Expected steps >= 1, got 0"),
        ({"inner.steps": True}, "Expected steps as int or None, got True"),
        ({"seed": 1.0}, "Expected seed as int, got 1.0"),
        ({"verbose": 1}, "Expected verbose as bool, got 1"),
        ({"inner": 3}, "Unknown setting 'inner'"),
        ({"inner.rates": 1}, r"Unknown setting 'inner\.rates': did you mean inner\.rate"),
    ],
)
def test_errors_name_the_setting(values, words):
    with pytest.raises(ValueError, match=words):
        Outer().replaced(values)


def test_replaced_makes_a_copy():
    before = Outer()
    after = before.replaced({"seed": 3, "inner.rate": 1, "inner.steps": 4})
    assert after.flat() == {"seed": 3, "verbose": False, "inner.rate": 1, "inner.kind": "soft", "inner.steps": 4}
    assert before == Outer()
    with pytest.raises(FrozenInstanceError):
        after.seed = 4


def test_updated_reads_text():
    after = Outer().updated(["seed = 3", "verbose=TRUE", "inner.rate=1e-1", "inner.kind=hard", "inner.steps=7"])
    assert after == Outer(seed=3, verbose=True, inner=Inner(rate=0.1, kind="hard", steps=7))
    assert after.updated(["inner.steps=none"]).inner.steps is None
    for text, words in {
        "seed": "Expected a setting as name=value, got 'seed'",
        "seed=x": "Expected seed as a number, got 'x'",
        "verbose=1": "Expected verbose as true or false, got '1'",
        "sed=1": "Unknown setting 'sed': did you mean seed",
    }.items():
        with pytest.raises(ValueError, match=words):
            Outer().updated([text])


def test_json_and_back():
    settings = Outer(seed=2, inner=Inner(rate=0.25, steps=3))
    assert Outer.from_dict(json.loads(json.dumps(asdict(settings)))) == settings
    with pytest.raises(ValueError, match="Unknown setting 'sed'"):
        Outer.from_dict({"sed": 1})


def test_groups_are_groups():
    with pytest.raises(ValueError, match="Expected inner as Inner, got dict"):
        Outer(inner={"rate": 0.1})
