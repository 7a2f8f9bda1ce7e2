"""What a gate judges, and how strictly: rules of a TOML file, of a test's mark, or the defaults."""

from __future__ import annotations

import fnmatch
import math
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.analysis.metrics import default_metrics, metric
from pytest_gpuio.core.cell import AXES
from pytest_gpuio.core.errors import ConfigError

#: Relative effects below it are not worth an alarm.
MIN_EFFECT: Final = 0.03
_EFFECT: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*%", re.ASCII)
_KEYS: Final = {
    "default": frozenset({"metrics", "min_effect", "allow"}),
    "rule": frozenset({"match", "metrics", "min_effect", "ignore", "missing"}),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """What applies to the cells it matches; None = as the rules before it say.

    Attributes:
        match: pattern (``*``, ``?``, ``[...]``) by axis, or ``case`` or ``phase``.
        metrics: names of the metrics to judge.
        min_effect: by metric name, ``*`` for all: 0.05 = 5 %.
        ignore: these cells are not judged.
        missing: whether a case that the new runs lack is a failure.
    """

    match: Mapping[str, str]
    metrics: tuple[str, ...] | None = None
    min_effect: Mapping[str, float] | None = None
    ignore: bool | None = None
    missing: bool | None = None

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Whether every pattern fits."""
        axes = {**record["axes"], "case": record["case"], "phase": record["phase"]}
        return all(fnmatch.fnmatchcase(str(axes.get(name, "")), pattern) for name, pattern in self.match.items())


@dataclass(frozen=True, slots=True)
class Terms:
    """What applies to one cell, once every rule was asked."""

    metrics: tuple[str, ...]
    min_effect: Mapping[str, float]
    ignore: bool
    missing: bool

    def effect(self, name: str) -> float:
        """The least relative effect of a metric that is worth an alarm."""
        return self.min_effect.get(name, self.min_effect.get("*", MIN_EFFECT))


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules in order: a later one overrides an earlier one; a test's own mark overrides them all."""

    rules: tuple[Rule, ...] = ()
    allow: frozenset[str] = frozenset()

    def terms(self, record: Mapping[str, Any]) -> Terms:
        """What applies to the cell of a record."""
        terms = Terms(default_metrics(record), {"*": MIN_EFFECT}, ignore=False, missing=True)
        for rule in self.rules:
            if rule.matches(record):
                terms = _with(terms, rule)
        own = record.get("gate_policy")
        return _with(terms, from_mark(own)) if own else terms


def _with(terms: Terms, rule: Rule) -> Terms:
    return Terms(
        terms.metrics if rule.metrics is None else rule.metrics,
        {**terms.min_effect, **(rule.min_effect or {})},
        terms.ignore if rule.ignore is None else rule.ignore,
        terms.missing if rule.missing is None else rule.missing,
    )


def from_mark(keywords: Mapping[str, Any]) -> Rule:
    """The rule of ``@pytest.mark.gpuio_gate(metric=..., min_effect=..., ignore=...)``.

    Raises:
        ConfigError: an unknown keyword or value.
    """
    unknown = sorted(set(keywords) - {"metric", "min_effect", "ignore"})
    if unknown:
        raise ConfigError(f"gpuio_gate knows metric, min_effect and ignore, not {', '.join(unknown)}.")
    named = keywords.get("metric")
    names = None if named is None else _metrics([named] if isinstance(named, str) else named, "gpuio_gate")
    effects = None
    if keywords.get("min_effect") is not None:
        effect = parse_effect(keywords["min_effect"], "gpuio_gate")
        effects = dict.fromkeys(names or ("*",), effect)
    ignore = keywords.get("ignore")
    if ignore is not None and not isinstance(ignore, bool):
        raise ConfigError(f"gpuio_gate: ignore is true or false, not {ignore!r}.")
    return Rule({}, names, effects, ignore)


def with_effect(policy: Policy, effect: float) -> Policy:
    """The policy with another least effect below all its rules."""
    return replace(policy, rules=(Rule({}, min_effect={"*": effect}), *policy.rules))


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy of a TOML file.

    For example::

        [default]
        metrics = ["bytes_per_s", "p99", "cpu_s_per_gb"]
        min_effect = "3%"                 # or {p99 = "10%", "*" = "3%"}
        allow = ["kernel"]                # may differ between the runs

        [[rule]]
        match = {workload = "inference/*", datapath = "io_uring*"}
        min_effect = {p99 = "15%"}

    Raises:
        ConfigError: not TOML (with the line), an unknown key, metric, axis or value.
    """
    name = os.fspath(path)
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"policy {name} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"policy {name} is not TOML: {error}.") from None
    _known(content, frozenset(_KEYS), name)
    default = content.get("default", {})
    rules = content.get("rule", [])
    if not isinstance(default, dict) or not isinstance(rules, list):
        raise ConfigError(f"policy {name}: write [default] once and [[rule]] for each rule.")
    _known(default, _KEYS["default"], f"{name}: [default]")
    parsed = [_rule({**{k: v for k, v in default.items() if k != "allow"}, "match": {}}, f"{name}: [default]")]
    for number, rule in enumerate(rules, start=1):
        place = f"{name}: [[rule]] {number}"
        _known(rule, _KEYS["rule"], place)
        parsed.append(_rule(rule, place))
    allow = default.get("allow", [])
    if not isinstance(allow, list) or not all(isinstance(aspect, str) for aspect in allow):
        raise ConfigError(f'policy {name}: allow is a list of names: allow = ["kernel"].')
    from pytest_gpuio.analysis.comparable import check_aspects

    check_aspects(allow)
    return Policy(tuple(parsed), frozenset(allow))


def parse_effect(value: object, place: str) -> float:
    """``"3%"``, ``"2.5 %"`` or 0.03 as a fraction above 0 and below 1.

    Raises:
        ConfigError: anything else.
    """
    number = math.nan
    if isinstance(value, str) and (match := _EFFECT.fullmatch(value.strip())):
        number = float(match["number"]) / 100.0
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
    if not 0.0 < number < 1.0:
        raise ConfigError(f'{place}: min_effect {value!r} is no share above 0 and below 100 %: write "3%" or 0.03.')
    return number


def _rule(content: Mapping[str, Any], place: str) -> Rule:
    match = content.get("match", {})
    if not isinstance(match, dict):
        raise ConfigError(f'{place}: match is a table of patterns: match = {{workload = "inference/*"}}.')
    for axis in match:
        if axis not in {*AXES, "case", "phase"}:
            raise ConfigError(f"{place}: {axis!r} is no axis: choose from {', '.join(AXES)}, case, phase.")
    effects: dict[str, float] | None = None
    if "min_effect" in content:
        given = content["min_effect"]
        table = given if isinstance(given, dict) else {"*": given}
        for name in table:
            if name != "*":
                metric(name)
        effects = {name: parse_effect(value, place) for name, value in table.items()}
    flags: dict[str, bool | None] = {}
    for flag in ("ignore", "missing"):
        value = content.get(flag)
        if value is not None and not isinstance(value, bool):
            raise ConfigError(f"{place}: {flag} is true or false, not {value!r}.")
        flags[flag] = value
    metrics = _metrics(content["metrics"], place) if "metrics" in content else None
    patterns = {axis: str(pattern) for axis, pattern in match.items()}
    return Rule(patterns, metrics, effects, flags["ignore"], flags["missing"])


def _metrics(names: object, place: str) -> tuple[str, ...]:
    if not isinstance(names, Sequence) or isinstance(names, str) or not names:
        raise ConfigError(f'{place}: metrics is a list of names: metrics = ["bytes_per_s"].')
    return tuple(metric(str(name)).name for name in names)


def _known(content: Mapping[str, Any], keys: frozenset[str], place: str) -> None:
    for key in content:
        if key not in keys:
            raise ConfigError(f"{place}: unknown key {key!r}: choose from {', '.join(sorted(keys))}.")
