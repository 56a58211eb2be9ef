"""Settings: a field is declared once, with its default, bounds and meaning; checks, tables and flags are derived from it."""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, Self, Union, get_args, get_origin, get_type_hints


def setting(
    default: Any,
    meaning: str,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    scalar: bool = False,
) -> Any:
    """A field of a `Settings` class.

    Args:
        default: Its default value.
        meaning: What it does, in one or two sentences.
        above: The value must be greater.
        least: The value must be at least this.
        below: The value must be smaller.
        most: The value must be at most this.
        scalar: A number in the program, not part of its structure: stacked trainings may differ in it.
    """
    bounds = {">": above, ">=": least, "<": below, "<=": most}
    kept = {sign: bound for sign, bound in bounds.items() if bound is not None}
    return field(default=default, metadata={"meaning": meaning, "bounds": kept, "scalar": scalar})


class Row(NamedTuple):
    """One setting: its dotted name, allowed values, default and meaning."""

    name: str
    values: str
    default: Any
    meaning: str
    scalar: bool


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of every settings class: frozen, checked when made, and readable as a table.

    Example:
        >>> @dataclass(frozen=True, kw_only=True)
        ... class Example(Settings):
        ...     rate: float = setting(0.1, "Learning rate.", above=0)
        >>> Example(rate=-1)
        Traceback (most recent call last):
        ...
        ValueError: Expected rate > 0, got -1.
        >>> Example().updated(["rate=0.5"]).rate
        0.5
    """

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for f in fields(self):
            _check(f, hints[f.name], getattr(self, f.name))

    @classmethod
    def rows(cls, prefix: str = "") -> Iterator[Row]:
        """Every setting, those of groups under dotted names."""
        hints = get_type_hints(cls)
        for f in fields(cls):
            if _is_group(hints[f.name]):
                yield from hints[f.name].rows(f"{prefix}{f.name}.")
            else:
                values = _values(hints[f.name], f.metadata["bounds"])
                yield Row(f"{prefix}{f.name}", values, f.default, f.metadata["meaning"], f.metadata["scalar"])

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Settings from what `dataclasses.asdict` gave, read back from JSON."""
        hints = get_type_hints(cls)
        if not isinstance(values, Mapping):
            raise ValueError(f"Expected the settings of {cls.__name__} by name, got {values!r}.")
        _check_known(values, hints)
        return cls(**{n: hints[n].from_dict(v) if _is_group(hints[n]) else v for n, v in values.items()})

    def flat(self) -> dict[str, Any]:
        """Every value by its dotted name."""
        return {row.name: self.get(row.name) for row in self.rows()}

    def get(self, name: str) -> Any:
        """The value of a setting, by its dotted name."""
        value: Any = self
        for part in name.split("."):
            value = getattr(value, part)
        return value

    def replaced(self, values: Mapping[str, Any]) -> Self:
        """A copy with other values, by dotted names."""
        known = {row.name for row in self.rows()}
        _check_known(values, known)
        changes: dict[str, Any] = {}
        for name, value in values.items():
            head, _, rest = name.partition(".")
            if not rest:
                changes[head] = value
            else:
                changes[head] = changes.get(head, getattr(self, head)).replaced({rest: value})
        return dataclasses.replace(self, **changes)

    def updated(self, assignments: Iterable[str]) -> Self:
        """A copy with values given as text, `name=value`, as on the command line."""
        types_ = dict(_types(type(self)))
        values = {}
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            name = name.strip()
            if not equals:
                raise ValueError(f"Expected a setting as name=value, got {assignment!r}.")
            _check_known([name], types_)
            values[name] = _parsed(name, text.strip(), types_[name])
        return self.replaced(values)


def _is_group(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Settings)


def _types(cls: type[Settings], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, hint in get_type_hints(cls).items():
        if _is_group(hint):
            yield from _types(hint, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", hint


def _check_known(names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}."
            raise ValueError(f"Unknown setting {name!r}: {hint}")


def _check(f: dataclasses.Field[Any], hint: Any, value: Any) -> None:
    if _is_group(hint):
        if not isinstance(value, hint):
            raise ValueError(f"Expected {f.name} as {hint.__name__}, got {type(value).__name__}.")
        return
    allowed, kinds = _choices(hint), _kinds(hint)
    if allowed is not None:
        if value not in allowed:
            raise ValueError(f"Expected {f.name} among {', '.join(map(str, allowed))}, got {value!r}.")
        return
    if value is None and type(None) in kinds:
        return
    numeric = {float: (int, float), int: (int,)}
    wanted = tuple(k for kind in kinds for k in numeric.get(kind, (kind,)))
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"Expected {f.name} as {_names(kinds)}, got {value!r}.")
    for sign, bound in f.metadata.get("bounds", {}).items():
        within = {">": value > bound, ">=": value >= bound, "<": value < bound, "<=": value <= bound}[sign]
        if not within:
            raise ValueError(f"Expected {f.name} {sign} {bound}, got {value}.")


def _choices(hint: Any) -> tuple[Any, ...] | None:
    return get_args(hint) if get_origin(hint) is Literal else None


def _kinds(hint: Any) -> tuple[type, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _names(kinds: Iterable[type]) -> str:
    return " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)


def _values(hint: Any, bounds: Mapping[str, float]) -> str:
    choices = _choices(hint)
    if choices is not None:
        return ", ".join(map(str, choices))
    return " ".join([_names(_kinds(hint)), *(f"{sign} {bound}" for sign, bound in bounds.items())])


def _parsed(name: str, text: str, hint: Any) -> Any:
    if _choices(hint) is not None:
        return text
    kinds = _kinds(hint)
    if text.lower() == "none" and type(None) in kinds:
        return None
    if bool in kinds:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"Expected {name} as true or false, got {text!r}.")
        return text.lower() == "true"
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                continue
    raise ValueError(f"Expected {name} as a number, got {text!r}.")
