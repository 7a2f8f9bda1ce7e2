"""The cufile.json a child opens cuFile with: the user's own, with what the proof needs set by us."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.core.errors import ConfigError

VARIABLE: Final = "CUFILE_ENV_PATH_JSON"
SYSTEM_FILE: Final = "/etc/cufile.json"
#: Comments outside of strings, and strings, which are kept.
_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)


@dataclass(frozen=True, slots=True)
class CuFileSettings:
    """Settings as the library gets them.

    Attributes:
        text: the JSON. source: the file they began with; None = the library's defaults.
        allow_compat: requests may be copied through host memory instead of failing.
    """

    text: str
    source: str | None
    allow_compat: bool

    @property
    def sha256(self) -> str:
        """Of the text: two cells with the same one ran under the same settings."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def parse(text: str, name: str = SYSTEM_FILE) -> dict[str, Any]:
    """A cufile.json with its comments and stray commas, which the library accepts.

    Raises:
        ConfigError: it is no JSON object even so.
    """
    plain = _TRAILING_COMMA.sub(lambda found: found[1] or "", _COMMENT.sub(lambda found: found[1] or " ", text))
    try:
        values = json.loads(plain or "{}")
    except ValueError as error:
        raise ConfigError(f"{name} is no JSON ({error}): correct it, or name another file in {VARIABLE}.") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{name} holds no JSON object but {type(values).__name__}: see NVIDIA's cufile.json.")
    return values


def settings(*, allow_compat: bool, environment: Mapping[str, str] = os.environ, root: str = "/") -> CuFileSettings:
    """The settings for a child.

    They are those of the file that ``$CUFILE_ENV_PATH_JSON`` names, else of ``/etc/cufile.json``, and over them whether
    falling back is allowed, counters on, and a log of errors only that is written nowhere near the target.

    Raises:
        ConfigError: the named file cannot be read or is no JSON.
    """
    named = environment.get(VARIABLE)
    path = Path(named) if named else Path(root, SYSTEM_FILE.lstrip("/"))
    values: dict[str, Any] = {}
    source = None
    try:
        values, source = parse(path.read_text(encoding="utf-8"), str(path)), str(path)
    except FileNotFoundError:
        if named:
            raise ConfigError(f"{VARIABLE} names {named}, which is not there: unset it, or name a file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): name a readable file in {VARIABLE}.") from None
    _section(values, "properties")["allow_compat_mode"] = allow_compat
    _section(values, "profile")["cufile_stats"] = 3
    _section(values, "logging").update({"level": "ERROR", "dir": "/dev/shm" if Path("/dev/shm").is_dir() else "/tmp"})
    if not allow_compat:
        _section(values, "properties").pop("force_compat_mode", None)
    return CuFileSettings(json.dumps(values, indent=1, sort_keys=True), source, allow_compat)


def _section(values: dict[str, Any], name: str) -> dict[str, Any]:
    section = values.setdefault(name, {})
    if not isinstance(section, dict):
        raise ConfigError(f"{name} of cufile.json is no object: see NVIDIA's cufile.json.")
    return section


def publish(wanted: CuFileSettings) -> None:
    """Make the settings those of this process; to be called before libcufile is opened by anybody in it.

    They lie in memory (memfd), so nothing is left behind on any file system.
    """
    memory = os.memfd_create("gpuio-cufile.json")
    os.write(memory, wanted.text.encode())
    # The descriptor stays open as long as the process: the library may look again.
    os.environ[VARIABLE] = f"/proc/self/fd/{memory}"
