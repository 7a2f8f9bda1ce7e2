"""Terms of an adaptive sweep: how sure, how fine, how long."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from pytest_gpuio.analysis.recommend import LEAST_MARGIN
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import parse_duration, parse_percent
from pytest_gpuio.sweep.plan_text import PlanText

_PLACE: Final = ("adaptive",)
#: Windows of a first look are few: no cell gets more before all have had them.
_MOST_FIRST: Final = 1000


@dataclass(frozen=True, slots=True)
class Terms:
    """What an adaptive sweep keeps to.

    Attributes:
        confidence: of each decision, 0 to 1. margin: relative difference that does not matter.
        first: windows of a first look at each cell. budget_s: seconds of one run; None = what all cells are forecast.
    """

    confidence: float = 0.95
    margin: float = LEAST_MARGIN
    first: int = 2
    budget_s: float | None = None


def read_terms(doc: PlanText) -> Terms | None:
    """A plan's ``[adaptive]``, or None when it has none.

    Raises:
        ConfigError: something in it is wrong: with the line.
    """
    if "adaptive" not in doc.values:
        return None
    usual = Terms()
    table = doc.table(_PLACE, ("confidence", "margin", "first", "budget"))
    for name in ("confidence", "margin", "budget"):
        if not isinstance(table.get(name, ""), str):
            raise doc.error((*_PLACE, name), f"{name} {table[name]!r} must be a text like {_LIKE[name]!r}.")

    def read(name: str, parse: Any, default: Any) -> Any:
        return doc.checked((*_PLACE, name), lambda: parse(table[name])) if name in table else default

    first = table.get("first", usual.first)
    if isinstance(first, bool) or not isinstance(first, int) or not 2 <= first <= _MOST_FIRST:
        raise doc.error((*_PLACE, "first"), f"first {first!r} must be a number of windows, 2 to {_MOST_FIRST}.")
    return Terms(
        confidence=read("confidence", parse_confidence, usual.confidence),
        margin=read("margin", lambda text: parse_percent(text, what="margin"), usual.margin),
        first=first,
        budget_s=read("budget", parse_budget, None),
    )


_LIKE: Final = {"confidence": "95%", "margin": "3%", "budget": "1h"}


def parse_confidence(text: str) -> float:
    """``95%`` or ``0.95``.

    Raises:
        ConfigError: it is no percentage from 50 to 99.99.
    """
    # "95" is what people mean by it; nobody means 95 times.
    value = parse_percent(f"{text}%" if re.fullmatch(r"\s*\d{2}(\.\d{1,9})?\s*", text) else text, what="confidence")
    if not 0.5 <= value <= 0.9999:
        raise ConfigError(f"confidence {text!r} must be from 50% to 99.99%.")
    return value


def parse_budget(text: str) -> float:
    """Seconds of ``1h``, ``90m``, ``20s``.

    Raises:
        ConfigError: it is no duration, or shorter than a second.
    """
    seconds = parse_duration(text, what="budget")
    if seconds < 1.0:
        raise ConfigError(f"budget {text!r} is too short: a sweep needs a second to begin.")
    return seconds
