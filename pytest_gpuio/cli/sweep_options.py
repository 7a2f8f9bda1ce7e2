"""What the actions of ``gpuio sweep`` have in common: a plan, and the plugin's options for it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.measure.options import OPTIONS
from pytest_gpuio.measure.settings import Settings, read
from pytest_gpuio.media import classify
from pytest_gpuio.sweep.expand import PlannedCell, Sweep, expand, place
from pytest_gpuio.sweep.plan import BUNDLED, Plan, load
from pytest_gpuio.sweep.shards import Shard

#: Of a pytest run only: a sweep has a journal, and gates judge exports.
_NOT_HERE: Final = frozenset({"plan", "results", "gate", "gate-new", "gate-policy", "require", "strict"})


def add_plan(result: argparse.ArgumentParser) -> None:
    """Adds the plan, and every ``--gpuio-*`` option that means something for a sweep."""
    result.add_argument("plan", metavar="PLAN", nargs="?", help="study, hour, smoke, or a TOML file")
    group = result.add_argument_group(
        "options of measuring",
        "The same as pytest's. An axis given here takes the place of the plan's, an option that of its [options].",
    )
    for option in OPTIONS:
        if option.name in _NOT_HERE:
            continue
        keywords: dict[str, Any] = {"dest": option.dest, "default": None, "help": option.help.replace("%", "%%")}
        if option.flag:
            keywords["action"] = "store_true"
        else:
            keywords["metavar"] = option.metavar
            keywords["action"] = "append" if option.repeat else "store"
        group.add_argument(option.flag_name, **keywords)


def add_shard(result: argparse.ArgumentParser) -> None:
    """Adds ``--shard``."""
    result.add_argument(
        "--shard", metavar="I/N", help="only the I-th of N parts of the plan, for one of several hosts (default: all)"
    )


def part_of(arguments: argparse.Namespace, sweep: Sweep) -> tuple[list[PlannedCell], Mapping[str, Any] | None]:
    """The cells of the plan, or those of the shard that was asked for, with what a journal says of it.

    Raises:
        ConfigError: it is no shard.
    """
    cells = list(expand(sweep))
    if not arguments.shard:
        return cells, None
    shard = Shard.parse(arguments.shard)
    return shard.part(cells), shard.describe(cells)


def settings_of(arguments: argparse.Namespace, plan: Plan) -> Settings:
    """The options: those of the command line before those of the plan.

    Raises:
        ConfigError: one is malformed.
    """
    names = {option.name: option.dest for option in OPTIONS}

    def value(name: str) -> Any:
        given = getattr(arguments, names[name], None)
        return given if given not in (None, [], "", False) else plan.options.get(name)

    return read(value, Path.cwd())


def sweep_of(arguments: argparse.Namespace) -> Sweep:
    """The plan on this machine.

    Raises:
        ConfigError: there is no such plan, something in it or in an option is wrong, a target is not the plan's.
    """
    if arguments.plan is None:
        raise ConfigError(f"name a plan: {', '.join(BUNDLED)}, or a TOML file.")
    plan = load(arguments.plan)
    settings = settings_of(arguments, plan)
    given = dict(settings.targets)
    if arguments.gpuio_target is None and "target" in plan.axes:
        given = {}
    return place(plan, settings, given, {name: classify(path).name for name, path in given.items()})
