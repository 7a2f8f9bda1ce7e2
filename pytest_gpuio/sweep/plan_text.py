"""Reading of a plan's TOML: where each key stands, and the grammar of ranges and conditions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import format_size, parse_size

#: Values that one range may have.
_MOST_VALUES: Final = 1_000
_RANGE: Final = re.compile(r"(?P<low>[^.*+<>=\s]+)\s*\.\.\s*(?P<high>[^.*+<>=\s]+)\s*(?:(?P<op>[*+])\s*(?P<step>\S+))?")
_COMPARED: Final = re.compile(r"(?P<op><=|>=|<|>)\s*(?P<value>\S.*)")
_TABLE: Final = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?")
_ASSIGNED: Final = re.compile(r"\s*([A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')\s*(?:\.\s*([A-Za-z0-9_-]+)\s*)?=")
#: Steps to a value in a document: names of keys, numbers of a table's place in an array of them.
Place = tuple[str | int, ...]


class PlanText:
    """The text of a plan and its values; errors name the line.

    Args:
        text: TOML.
        source: name of the plan for messages.

    Raises:
        ConfigError: it is no TOML.
    """

    def __init__(self, text: str, source: str) -> None:
        self.text, self.source = text, source
        try:
            self.values: Mapping[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            where = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
            place = f":{where[1]}:{where[2]}" if where else f":{text.count(chr(10)) + 1}"
            raise ConfigError(f"{source}{place}: not TOML: {re.sub(r' *[(]at .*', '', str(error))}.") from None
        self._lines = _lines_of(text)

    def line(self, place: Place) -> int:
        """Number of the line where a key stands, from 1; of what it lies in where it has none of its own."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)

    def error(self, place: Place, what: str) -> ConfigError:
        """``plan.toml:12: what``."""
        return ConfigError(f"{self.source}:{self.line(place)}: {what}")

    def table(self, place: Place, known: tuple[str, ...]) -> Mapping[str, Any]:
        """The table at a place, empty when there is none.

        Raises:
            ConfigError: no table, or a key that is not known.
        """
        found: Any = self.values
        for step in place:
            found = found.get(step, {}) if isinstance(step, str) else found[step]
        if not isinstance(found, dict):
            raise self.error(place, f"{place[-1]} must be a table.")
        for key in found:
            if key not in known:
                raise self.error((*place, key), f"unknown key {key!r}: known here are {', '.join(known)}.")
        return found

    def tables(self, name: str) -> range:
        """Numbers of an array of tables.

        Raises:
            ConfigError: it is something else.
        """
        found = self.values.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.error((name,), f"{name} must be written as [[{name}]].")
        return range(len(found))

    def checked(self, place: Place, parse: Callable[[], Any]) -> Any:
        """What ``parse`` gives, its errors with the line.

        Raises:
            ConfigError: of ``parse``.
        """
        try:
            return parse()
        except ConfigError as error:
            raise self.error(place, str(error)) from None


def _lines_of(text: str) -> dict[Place, int]:
    """Where tables and keys begin. Inside a value of several lines nothing is looked for: it is skipped by brackets."""
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    depth = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if depth == 0:
            header = _TABLE.fullmatch(line)
            if header is not None:
                names: Place = tuple(part.strip().strip("\"'") for part in header[2].split("."))
                table = names
                if header[1] == "[[":
                    index = counts[names] = counts.get(names, -1) + 1
                    table = (*names, index)
                    found.setdefault(names, number)
                found.setdefault(table, number)
                continue
            key = _ASSIGNED.match(line)
            if key is not None:
                place = (*table, key[1].strip("\"'"))
                found.setdefault(place, number)
                if key[2]:
                    found.setdefault((*place, key[2]), number)
        bare = re.sub(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|#.*", "", line)
        depth = max(0, depth + bare.count("[") + bare.count("{") - bare.count("]") - bare.count("}"))
    return found


def number_of(text: str | int, *, size: bool, what: str) -> int:
    """A count or a size.

    Raises:
        ConfigError: neither.
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise ConfigError(f"{what} {text!r} is no number.")
    if size and isinstance(text, str):
        return parse_size(text, what=what)
    if isinstance(text, str) and not re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII):
        raise ConfigError(f"{what} {text!r} is not a whole number.")
    if int(text) < 1:
        raise ConfigError(f"{what} {text} must be above zero.")
    return int(text)


def numbers_of(values: Any, *, size: bool, what: str) -> tuple[int, ...]:
    """Numbers of one value or a list; ``4k..1M`` doubles from end to end, ``*4`` takes another factor, ``+2`` steps.

    Raises:
        ConfigError: a range that is none, runs downwards, never reaches its end, or has too many values.
    """
    found: list[int] = []
    for value in values if isinstance(values, list) else [values]:
        match = _RANGE.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            if isinstance(value, str) and ".." in value:
                raise ConfigError(f"{what} {value!r} is no range: write LOW..HIGH, LOW..HIGH*FACTOR or LOW..HIGH+STEP.")
            found.append(number_of(value, size=size, what=what))
            continue
        found += _range(match, value, size=size, what=what)
    if not found:
        raise ConfigError(f"{what} has no value.")
    return tuple(dict.fromkeys(found))


def _range(match: re.Match[str], text: str, *, size: bool, what: str) -> list[int]:
    low, high = (number_of(match[end], size=size, what=what) for end in ("low", "high"))
    if low > high:
        raise ConfigError(f"{what} {text!r} is impossible: {match['low']} is above {match['high']}.")
    adds = match["op"] == "+"
    step = number_of(match["step"], size=size and adds, what=f"step of {what}") if match["op"] else 2
    if not adds and step < 2:
        raise ConfigError(f"{what} {text!r} is impossible: a factor of {step} never gets to {match['high']}.")
    found, value = [], low
    while value <= high:
        found.append(value)
        if len(found) > _MOST_VALUES:
            raise ConfigError(f"{what} {text!r} has more than {_MOST_VALUES:,} values: use a larger step.")
        value = value + step if adds else value * step
    if found[-1] != high:
        shown = format_size(found[-1]) if size else str(found[-1])
        raise ConfigError(
            f"{what} {text!r} is impossible: it ends at {shown} and misses {match['high']}; choose ends that the steps "
            "reach."
        )
    return found


def condition_of(values: Any, *, kind: str, what: str) -> Callable[[Any], bool]:
    """A test of an axis's value: one of a list, a pattern of names, ``4k..64k`` (ends included), ``>1M``, ``<=8``.

    Args:
        values: as the plan has them.
        kind: ``size``, ``count`` or ``name``.
        what: the axis, for messages.

    Raises:
        ConfigError: not of this grammar.
    """
    tests = [_one_condition(value, kind, what) for value in (values if isinstance(values, list) else [values])]
    if not tests:
        raise ConfigError(f"{what} has no value.")
    return tests[0] if len(tests) == 1 else lambda found: any(test(found) for test in tests)


def _one_condition(value: Any, kind: str, what: str) -> Callable[[Any], bool]:
    if kind == "name":
        if not isinstance(value, str):
            raise ConfigError(f"{what} {value!r} is no name or pattern.")
        if any(sign in value for sign in "*?"):
            return lambda found: fnmatchcase(str(found), value)
        return lambda found: str(found) == value
    size = kind == "size"
    if isinstance(value, str):
        compared = _COMPARED.fullmatch(value.strip())
        if compared is not None:
            edge = number_of(compared["value"], size=size, what=what)
            match compared["op"]:
                case "<":
                    return lambda found: found < edge
                case "<=":
                    return lambda found: found <= edge
                case ">":
                    return lambda found: found > edge
                case _:
                    return lambda found: found >= edge
        span = _RANGE.fullmatch(value.strip())
        if span is not None and not span["op"]:
            low, high = (number_of(span[end], size=size, what=what) for end in ("low", "high"))
            if low > high:
                raise ConfigError(f"{what} {value!r} is impossible: {span['low']} is above {span['high']}.")
            return lambda found: low <= found <= high
    exact = number_of(value, size=size, what=what)
    return lambda found: found == exact
