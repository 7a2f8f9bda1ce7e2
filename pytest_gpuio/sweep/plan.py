"""A sweep's plan: which cells, in which order, how each is measured, and what is tried again."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

from pytest_gpuio.core.cell import CACHES, DESTINATIONS, MEDIA
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import parse_duration
from pytest_gpuio.measure.options import OPTIONS
from pytest_gpuio.sweep.plan_text import Place, PlanText, condition_of, number_of, numbers_of
from pytest_gpuio.sweep.terms import Terms, read_terms

AxisKind = Literal["name", "count", "size"]
#: Axes of a plan in the order in which cells are made, with what their values are.
AXIS_KINDS: Final[Mapping[str, AxisKind]] = {
    "environment": "name",
    "target": "name",
    "workload": "name",
    "datapath": "name",
    "destination": "name",
    "gpus": "count",
    "cache": "name",
    "bs": "size",
    "qd": "count",
    "jobs": "count",
    "batch": "name",
    "arrivals": "name",
}
#: What a condition may also ask for.
_FACTS: Final[Mapping[str, AxisKind]] = {**AXIS_KINDS, "medium": "name", "phase": "name"}
#: Name of the environment that changes nothing.
PLAIN: Final = "default"
#: Options that say what a plan says otherwise, or that are not about measuring.
_NOT_OPTIONS: Final = frozenset({
    "target", "datapath", "workload", "destination", "gpus", "bs", "qd", "jobs", "batch", "arrivals", "cache", "seed",
    "case", "plan", "results", "gate", "gate-new", "gate-policy", "allow-destroy", "force", "require", "lock-timeout",
})  # fmt: skip
PLAN_OPTIONS: Final = {option.name: option for option in OPTIONS if option.name not in _NOT_OPTIONS}
#: Plans that come with the package.
BUNDLED: Final = ("study", "hour", "smoke")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")

Condition = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Windows:
    """Short windows instead of the profile's: each of ``length_s`` seconds, ``count`` of them, after ``warm_up_s``."""

    length_s: float
    count: int
    warm_up_s: float


@dataclass(frozen=True, slots=True)
class Environment:
    """Variables that measuring children are started with, and a shell command that is run before (None = none)."""

    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """Cells that meet all of ``when`` must meet all of ``then``; without ``then`` they are left out."""

    when: Mapping[str, Condition]
    then: Mapping[str, Condition] | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """A cell that is measured again and again on each target, after every ``every`` cells, to watch drift."""

    datapath: str = "psync"
    workload: str = "micro/randread"
    bs: int = 4096
    qd: int = 1
    jobs: int = 1
    every: int = 100


@dataclass(frozen=True, slots=True)
class Precondition:
    """What a target is written with before its first writing cell: a workload for ``seconds``."""

    workload: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CoolDown:
    """A target hotter than ``above`` degrees Celsius rests until it is at ``below``, or for ``longest_s``."""

    above: float
    below: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as it was written, before anything is known of the machine.

    Attributes:
        name, title: for people; the name is part of nothing that is compared.
        source, text: where it was read from, and the text itself.
        seed: of the order. block: cells whose order is drawn together.
        axes: values by axis; an axis that is not there has the workload's or data path's own.
        media: the medium that a named target must lie on. environments: by name, ``default`` among them.
        options: defaults of ``--gpuio-*`` options, as their own grammar has them.
        windows: None = as the profile says.
        rules: exclusions and constraints. in_flight, in_flight_bytes: limits of depth x jobs, and of it x block size.
        baseline, precondition, cool_down: None = none of it.
        retries: how often a void or failed cell is tried again, by ``void`` and ``failure``.
        adaptive: terms of measuring only what is open; None = every cell as long as the next.
    """

    name: str
    title: str
    source: str
    text: str
    seed: int
    block: int
    axes: Mapping[str, tuple[Any, ...]]
    media: Mapping[str, str]
    environments: Mapping[str, Environment]
    options: Mapping[str, Any]
    windows: Windows | None
    rules: tuple[Rule, ...]
    in_flight: int | None
    in_flight_bytes: int | None
    baseline: Baseline | None
    precondition: Precondition | None
    cool_down: CoolDown | None
    retries: Mapping[str, int]
    adaptive: Terms | None


def load(name: str | os.PathLike[str]) -> Plan:
    """A bundled plan by its name, or one of a file.

    Raises:
        ConfigError: neither, or something in it is wrong: with the line.
    """
    text = os.fspath(name)
    if text in BUNDLED:
        there = resources.files("pytest_gpuio.sweep").joinpath("plans", f"{text}.toml")
        return parse(there.read_text(encoding="utf-8"), f"{text}.toml")
    try:
        return parse(Path(text).read_text(encoding="utf-8"), text)
    except (OSError, UnicodeDecodeError) as error:
        known = f"bundled plans are {', '.join(BUNDLED)}"
        if "/" not in text and not text.endswith(".toml"):
            near = difflib.get_close_matches(text, BUNDLED, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(f"there is no plan {text!r}: {hint}{known}, or name a TOML file.") from None
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"plan {text} cannot be read: {why}; {known}.") from None


def parse(text: str, source: str) -> Plan:
    """A plan from its text.

    Args:
        text: TOML.
        source: its name, for messages.

    Raises:
        ConfigError: ``source:line: what is wrong``.
    """
    doc = PlanText(text, source)
    top = doc.table(
        (),
        (
            "name", "title", "seed", "block", "axes", "targets", "environments", "options", "windows", "limits",
            "exclude", "constraint", "baseline", "precondition", "cool_down", "retry", "adaptive",
        ),
    )  # fmt: skip
    environments = _environments(doc)
    axes = _axes(doc, environments)
    limits = doc.table(("limits",), ("in_flight", "in_flight_bytes"))
    return Plan(
        name=_text(doc, ("name",), Path(source).stem),
        title=_text(doc, ("title",), ""),
        source=source,
        text=text,
        seed=_whole(doc, ("seed",), top.get("seed", 1)),
        block=_whole(doc, ("block",), top.get("block", 200)),
        axes=axes,
        media=_media(doc),
        environments=environments,
        options=_options(doc),
        windows=_windows(doc),
        rules=_rules(doc),
        in_flight=_number(doc, ("limits", "in_flight"), limits.get("in_flight"), size=False),
        in_flight_bytes=_number(doc, ("limits", "in_flight_bytes"), limits.get("in_flight_bytes"), size=True),
        baseline=_baseline(doc),
        precondition=_precondition(doc),
        cool_down=_cool_down(doc),
        retries=_retries(doc),
        adaptive=read_terms(doc),
    )


def _text(doc: PlanText, place: Place, default: str) -> str:
    value = doc.values.get(str(place[0]), default)
    if not isinstance(value, str):
        raise doc.error(place, f"{place[-1]} must be a text.")
    return value


def _whole(doc: PlanText, place: Place, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 62:
        raise doc.error(place, f"{place[-1]} {value!r} must be a whole number of at least {least}.")
    return value


def _number(doc: PlanText, place: Place, value: Any, *, size: bool) -> int | None:
    if value is None:
        return None
    return int(doc.checked(place, lambda: number_of(value, size=size, what=str(place[-1]))))


def _seconds(doc: PlanText, place: Place, value: Any) -> float:
    if not isinstance(value, str):
        raise doc.error(place, f"{place[-1]} {value!r} must be a text like '20ms'.")
    return float(doc.checked(place, lambda: parse_duration(value, what=str(place[-1]))))


def _axes(doc: PlanText, environments: Mapping[str, Environment]) -> dict[str, tuple[Any, ...]]:
    table = doc.table(("axes",), tuple(AXIS_KINDS))
    found: dict[str, tuple[Any, ...]] = {}
    for axis, values in table.items():
        place = ("axes", axis)
        if AXIS_KINDS[axis] != "name":
            size = AXIS_KINDS[axis] == "size"
            found[axis] = doc.checked(place, lambda v=values, a=axis, s=size: numbers_of(v, size=s, what=a))  # type: ignore[misc]
            continue
        names = values if isinstance(values, list) else [values]
        if not names or not all(isinstance(name, str) for name in names):
            raise doc.error(place, f"{axis} must be a list of names.")
        found[axis] = tuple(dict.fromkeys(names))
        doc.checked(place, lambda a=axis, n=found[axis]: _check_names(a, n, environments))  # type: ignore[misc]
    return found


def _check_names(axis: str, names: tuple[str, ...], environments: Mapping[str, Environment]) -> None:
    """Refuses names that are none of an axis's.

    Raises:
        ConfigError: with near ones.
    """
    from pytest_gpuio import datapaths, phases
    from pytest_gpuio.measure.settings import parse_batches
    from pytest_gpuio.phases.arrivals import Arrivals

    fixed = {"destination": DESTINATIONS, "cache": CACHES, "environment": tuple(environments)}
    for name in names:
        if axis in fixed and name not in fixed[axis]:
            raise ConfigError(f"{axis} {name!r} is none of {', '.join(fixed[axis])}.")
        match axis:
            case "datapath":
                datapaths.get(name)
            case "workload":
                phases.match([name])
            case "batch":
                parse_batches(name)
            case "arrivals":
                Arrivals.parse(name)
            case "target" if not _NAME.fullmatch(name):
                raise ConfigError(f"target name {name!r} must be lower-case letters, digits and '_'.")


def _media(doc: PlanText) -> dict[str, str]:
    found = {}
    for name, medium in doc.table(("targets",), tuple(doc.values.get("targets", ()))).items():
        if medium not in MEDIA:
            raise doc.error(("targets", name), f"medium {medium!r} is none of {', '.join(MEDIA)}.")
        found[name] = medium
    return found


def _environments(doc: PlanText) -> dict[str, Environment]:
    found = {PLAIN: Environment(PLAIN)}
    for name in doc.table(("environments",), tuple(doc.values.get("environments", ()))):
        place = ("environments", name)
        if not _NAME.fullmatch(name) or name == PLAIN:
            raise doc.error(place, f"environment {name!r}: letters, digits and '_', and not {PLAIN!r}.")
        own = doc.table(place, ("variables", "before"))
        variables = doc.table((*place, "variables"), tuple(own.get("variables", ())))
        before = own.get("before")
        if not all(isinstance(value, str) for value in variables.values()):
            raise doc.error((*place, "variables"), "variables must be texts.")
        if before is not None and not isinstance(before, str):
            raise doc.error((*place, "before"), "before must be a shell command.")
        found[name] = Environment(name, dict(variables), before)
    return found


def _options(doc: PlanText) -> dict[str, Any]:
    found = {}
    for name, value in doc.table(("options",), tuple(PLAN_OPTIONS)).items():
        option, place = PLAN_OPTIONS[name], ("options", name)
        if option.flag != isinstance(value, bool):
            raise doc.error(place, f"{name} must be {'true or false' if option.flag else 'a text'}.")
        if not option.flag and not isinstance(value, str):
            raise doc.error(place, f"{name} must be a text, as {option.flag_name} takes it.")
        if option.choices and value not in option.choices:
            raise doc.error(place, f"{name} {value!r} is none of {', '.join(option.choices)}.")
        found[name] = [value] if option.repeat else value
    return found


def _windows(doc: PlanText) -> Windows | None:
    if "windows" not in doc.values:
        return None
    table = doc.table(("windows",), ("length", "count", "warm_up"))
    length = _seconds(doc, ("windows", "length"), table.get("length", "250ms"))
    count = _whole(doc, ("windows", "count"), table.get("count", 5))
    warm_up = _seconds(doc, ("windows", "warm_up"), table.get("warm_up", f"{length / 2}"))
    return Windows(length, count, warm_up)


def _rules(doc: PlanText) -> tuple[Rule, ...]:
    rules = [Rule(_conditions(doc, ("exclude", index))) for index in doc.tables("exclude")]
    for index in doc.tables("constraint"):
        place = ("constraint", index)
        doc.table(place, ("when", "then"))
        rules.append(Rule(_conditions(doc, (*place, "when")), _conditions(doc, (*place, "then"))))
    return tuple(rules)


def _conditions(doc: PlanText, place: Place) -> dict[str, Condition]:
    table = doc.table(place, tuple(_FACTS))
    if not table:
        raise doc.error(place, "names no axis: it would be about every cell.")
    return {
        axis: doc.checked(
            (*place, axis), lambda v=values, a=axis: condition_of(v, kind=_FACTS[a], what=a)  # type: ignore[misc]
        )
        for axis, values in table.items()
    }  # fmt: skip


def _baseline(doc: PlanText) -> Baseline | None:
    if "baseline" not in doc.values:
        return None
    table = doc.table(("baseline",), ("datapath", "workload", "bs", "qd", "jobs", "every"))
    for axis in ("datapath", "workload"):
        if axis in table:
            doc.checked(("baseline", axis), lambda a=axis: _check_names(a, (table[a],), {}))  # type: ignore[misc]
    numbers = {
        name: _number(doc, ("baseline", name), table[name], size=name == "bs")
        for name in table
        if name in ("bs", "qd", "jobs", "every")
    }
    names = {name: str(table[name]) for name in ("datapath", "workload") if name in table}
    return Baseline(**names, **numbers)  # type: ignore[arg-type]


def _precondition(doc: PlanText) -> Precondition | None:
    if "precondition" not in doc.values:
        return None
    place = ("precondition", "workload")
    table = doc.table(("precondition",), ("workload", "time"))
    name = str(table.get("workload", "micro/seqwrite"))
    from pytest_gpuio import phases

    workload = doc.checked(place, lambda: phases.get(name))
    if not isinstance(workload, phases.Workload) or not workload.writes:
        raise doc.error(place, f"{name} is no generated stream that writes: it brings no device into a state.")
    return Precondition(name, _seconds(doc, ("precondition", "time"), table.get("time", "60s")))


def _cool_down(doc: PlanText) -> CoolDown | None:
    if "cool_down" not in doc.values:
        return None
    table = doc.table(("cool_down",), ("above", "below", "longest"))
    above, below = table.get("above", 70), table.get("below", 60)
    for name, value in (("above", above), ("below", below)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise doc.error(("cool_down", name), f"{name} {value!r} must be degrees Celsius.")
    if not 0 < below < above:
        raise doc.error(("cool_down",), f"below ({below}) must lie under above ({above}).")
    longest = _seconds(doc, ("cool_down", "longest"), table.get("longest", "10m"))
    return CoolDown(float(above), float(below), longest)


def _retries(doc: PlanText) -> dict[str, int]:
    table = doc.table(("retry",), ("void", "failure"))
    return {kind: _whole(doc, ("retry", kind), table.get(kind, 1), least=0) for kind in ("void", "failure")}
