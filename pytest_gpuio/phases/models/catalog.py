"""Models by name: those that are packaged, and a user's own from a TOML file."""

from __future__ import annotations

import difflib
import re
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.models.architecture import Architecture

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES: Final = {"int": int, "str": str, "bool": bool}
_KEYS: Final = {field.name: field for field in fields(Architecture) if field.name != "name"}
_MOST_BYTES: Final = 1 << 20


@cache
def packaged() -> Mapping[str, Architecture]:
    """The models that come with the package, by name."""
    from importlib.resources import files

    source = files("pytest_gpuio.phases.models") / "catalog.toml"
    return parse(source.read_text(encoding="utf-8"), "catalog.toml")


def find(name: str) -> Architecture:
    """A model: ``llama-3.1-8b``, or ``FILE.toml:NAME`` for one of a user's own (``FILE.toml`` if it holds only one).

    Raises:
        ConfigError: no such model; the text lists near ones. The file cannot be read or is wrong.
    """
    stem, dot, wanted = name.rpartition(".toml")
    if dot and (not wanted or wanted.startswith(":")):
        path, wanted = stem + dot, wanted[1:]
        models = read(Path(path))
        if not wanted and len(models) == 1:
            return next(iter(models.values()))
        if not wanted:
            raise ConfigError(f"{path} holds {len(models)} models: name one, as in {path}:{next(iter(models))}.")
        return _of(models, wanted, f" in {path}")
    return _of(packaged(), name, "")


def read(path: Path) -> Mapping[str, Architecture]:
    """The models of a TOML file, by name.

    Raises:
        ConfigError: it cannot be read, or is wrong, naming line and key.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"model file {path} cannot be read: {error}.") from None
    if len(raw) > _MOST_BYTES:
        raise ConfigError(f"model file {path} is larger than {_MOST_BYTES:,} bytes: that is no list of models.")
    return parse(text, str(path))


def parse(text: str, origin: str) -> dict[str, Architecture]:
    """The models of TOML text.

    Args:
        text: tables ``[models.NAME]`` with the keys of :class:`Architecture`.
        origin: what errors call it.

    Raises:
        ConfigError: wrong TOML, table, key or value, naming the line.
    """
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin}: {error}.") from None
    extra = [key for key in document if key != "models"]
    if extra or not isinstance(document.get("models"), dict) or not document["models"]:
        where = f"{origin}:{_line(text, extra[0])}: {extra[0]!r} is not known here" if extra else f"{origin}: no models"
        raise ConfigError(f'{where}. Write each model as a table [models."my-model"] with layers, hidden, ...')
    return {name: _model(name, table, text, origin) for name, table in document["models"].items()}


def _model(name: str, table: Any, text: str, origin: str) -> Architecture:
    if not isinstance(table, dict):
        raise ConfigError(f"{origin}:{_line(text, name)}: model {name!r} is not a table of keys.")
    for key, value in table.items():
        where = f"{origin}:{_line(text, key, within=name)}: model {name!r}: {key}"
        if key not in _KEYS:
            near = difflib.get_close_matches(key, list(_KEYS), n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(_KEYS)}."
            raise ConfigError(f"{where} is not a known key. {hint}")
        kind = _TYPES[str(_KEYS[key].type)]
        if type(value) is not kind:  # a bool is no int here
            raise ConfigError(f"{where} = {value!r} is not {'text' if kind is str else f'of type {kind.__name__}'}.")
    missing = [key for key, field in _KEYS.items() if field.default is MISSING and key not in table]
    if missing:
        raise ConfigError(f"{origin}:{_line(text, name)}: model {name!r} lacks {', '.join(missing)}.")
    try:
        return Architecture(name=name, **table)
    except ConfigError as error:
        key = next((key for key in table if re.search(rf"': {key}\b", str(error))), None)
        line = _line(text, key, within=name) if key else _line(text, name)
        raise ConfigError(f"{origin}:{line}: {error}") from None


def _line(text: str, key: str, within: str = "") -> int:
    """Number of the line that first speaks of a key, after the line that first speaks of ``within``."""
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if _names(line, within)), 0) if within else 0
    return next((index for index in range(start, len(lines)) if _names(lines[index], key)), start) + 1


def _names(line: str, key: str) -> bool:
    bare = line.split("#", 1)[0] if "#" not in key else line
    return re.search(rf"(?<![\w.-]){re.escape(key)}(?![\w-])", bare.replace("models.", "models ")) is not None


def _of(models: Mapping[str, Architecture], name: str, where: str) -> Architecture:
    try:
        return models[name]
    except KeyError:
        near = difflib.get_close_matches(name.lower(), list(models), n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Known are: {', '.join(models)}."
        raise ConfigError(
            f"model {name!r} is unknown{where}. {hint} Your own: write its numbers in a TOML file and name it "
            "FILE.toml:NAME."
        ) from None
