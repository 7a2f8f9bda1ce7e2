"""The ``--gpuio-*`` options and their ini twins, given to pytest."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from pytest_gpuio.measure.options import OPTIONS


def add_options(parser: pytest.Parser) -> None:
    """Add every option of :data:`OPTIONS`."""
    group = parser.getgroup("gpuio", "storage data paths for GPU servers (pytest-gpuio)")
    for option in OPTIONS:
        keywords: dict[str, Any] = {"dest": option.dest, "default": None, "help": option.help.replace("%", "%%")}
        if option.flag:
            keywords["action"] = "store_true"
        else:
            keywords["metavar"] = option.metavar
            keywords["action"] = "append" if option.repeat else "store"
        group.addoption(option.flag_name, **keywords)
        if option.ini:
            kind: Literal["linelist", "bool", "string"] = (
                "linelist" if option.repeat else "bool" if option.flag else "string"
            )
            parser.addini(option.dest, f"{option.help} (twin of {option.flag_name})", type=kind, default=None)


def value(config: pytest.Config, name: str) -> Any:
    """The command line's value, else the ini twin's, else None."""
    option = next(option for option in OPTIONS if option.name == name)
    given = config.getoption(option.dest, None)
    if (given is None or given == []) and option.ini:
        given = config.getini(option.dest)
    return given if given not in ("", []) else None
