"""A parameter of a record model: its name, what values it takes, and how they are spelled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pytest_gpuio.core.errors import ConfigError

Value = int | float | str | bool

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
#: What ids, case keys and the spelling ``name[key=value,...]`` can hold.
_WORD: Final = re.compile(r"[A-Za-z0-9_.:/@+-]{1,200}", re.ASCII)
_NUMBER: Final = re.compile(r"-?\d{1,18}(\.\d{1,18})?([eE]-?\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter.

    Attributes:
        name: in ``[a-z0-9_]``.
        default: its value unless another is asked for; its type is the parameter's.
        help: what it is, with its unit.
        least, most: bounds of a number, both allowed; None = none.
        choices: allowed words; empty = any.

    Raises:
        ConfigError: a default that the parameter itself would refuse.
    """

    name: str
    default: Value
    help: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"parameter name {self.name!r} is malformed: use [a-z0-9_].")
        self.check(self.default)

    def check(self, value: Value) -> Value:
        """The value, as this parameter's type.

        Raises:
            ConfigError: it is of another type, out of range, or not one of the choices.
        """
        if isinstance(self.default, float) and type(value) is int:
            value = float(value)
        if type(value) is not type(self.default):
            raise ConfigError(
                f"parameter {self.name}={value!r}: a value like {self.default!r} is needed ({self.help})."
            )
        if isinstance(value, str):
            if self.choices and value not in self.choices:
                raise ConfigError(f"parameter {self.name}={value!r} is none of {', '.join(self.choices)}.")
            if not _WORD.fullmatch(value):
                raise ConfigError(f"parameter {self.name}={value!r}: use letters, digits and any of _.:/@+- only.")
        elif not isinstance(value, bool):
            below = self.least is not None and not value >= self.least
            above = self.most is not None and not value <= self.most
            if below or above or value != value:
                least = "" if self.least is None else f"{self.least:,g}"
                most = "" if self.most is None else f"{self.most:,g}"
                raise ConfigError(f"parameter {self.name}={value:g} is outside {least} .. {most} ({self.help}).")
        return value

    def parse(self, text: str) -> Value:
        """The value of its spelling.

        Raises:
            ConfigError: not such a spelling.
        """
        if isinstance(self.default, bool):
            if text not in ("on", "off"):
                raise ConfigError(f"parameter {self.name}={text!r}: write on or off ({self.help}).")
            return text == "on"
        if isinstance(self.default, str):
            return self.check(text)
        if not _NUMBER.fullmatch(text) or (isinstance(self.default, int) and not re.fullmatch(r"-?\d+", text)):
            kind = "whole number" if isinstance(self.default, int) else "number"
            raise ConfigError(f"parameter {self.name}={text[:40]!r} is not a {kind} ({self.help}).")
        return self.check(int(text) if isinstance(self.default, int) else float(text))


#: Every model has these two; the default of its scale is the model's own.
SCALE: Final = Parameter("scale", 1.0, "factor on bytes of files; 1 = the real thing", least=1e-9, most=1e6)
SEED: Final = Parameter("seed", 1, "of every draw", least=0, most=2**63 - 1)


def spell(value: Value) -> str:
    """Inverse of :meth:`Parameter.parse`."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def parse_pairs(text: str) -> Mapping[str, str]:
    """``model=llama-3.1-8b,ranks=8`` as a mapping.

    Raises:
        ConfigError: a part is no pair, or a name comes twice.
    """
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not value or not _NAME.fullmatch(name):
            raise ConfigError(f"{part!r} is no parameter: write NAME=VALUE, several separated by commas.")
        if name in pairs:
            raise ConfigError(f"parameter {name} is given twice.")
        pairs[name] = value
    return pairs


def check_names(parameters: Iterable[Parameter], given: Iterable[str], whose: str) -> None:
    """Refuses a name that is none of the parameters.

    Raises:
        ConfigError: listing what there is.
    """
    known = {parameter.name for parameter in parameters}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ConfigError(f"{whose} has no parameter {', '.join(unknown)}: it has {', '.join(sorted(known))}.")
