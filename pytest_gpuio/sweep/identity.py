"""What a series stands for: the machine, its kernel, the versions at work, the devices, and how cells are measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pytest_gpuio import __version__
from pytest_gpuio.machine import describe
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.media import Medium
from pytest_gpuio.media.sysfs import read_text
from pytest_gpuio.results.record import SCHEMA
from pytest_gpuio.sweep.expand import PlannedCell, Sweep
from pytest_gpuio.sweep.plan import Environment

#: Facts of the host that make its figures another host's when they change.
_OF_HOST: Final = ("id", "kernel", "architecture", "clocksource", "hypervisor", "irq_time_accounting")
#: Facts of a device. Its link and its temperature change by themselves.
_OF_DEVICE: Final = (
    "model", "firmware", "transport", "logical_block", "physical_block", "scheduler", "write_cache", "io_poll",
    "poll_queues", "dax", "pmem_mode",
)  # fmt: skip
#: Mount options that differ from boot to boot, or from container to container.
_VOLATILE: Final = ("lowerdir", "upperdir", "workdir", "clientaddr")
#: What of an effort changes no figure.
_NOT_EFFORT: Final = ("allow_destroy", "force", "timeout_s", "daemons")
_DIGITS: Final = 16


def identity(sweep: Sweep, media: Mapping[str, Medium], root: str = "/") -> dict[str, Any]:
    """Everything that must be the same for two cells to be compared, as JSON-able values by name.

    Args:
        sweep: the plan on this machine.
        media: of each target that has a path.
        root: folder that holds ``proc`` and ``sys``.
    """
    host = describe(root)
    values: dict[str, Any] = {name: host[name] for name in _OF_HOST}
    values["gpuio"] = __version__
    values["schema"] = SCHEMA
    driver = read_text(Path(root, "proc/driver/nvidia/version"))
    values["nvidia"] = driver.splitlines()[0] if driver else None
    values["effort"] = _effort(sweep.effort)
    for name, medium in media.items():
        values[f"target {name}"] = _target(medium, root)
    return values


def series_of(values: Mapping[str, Any]) -> str:
    """The id of a series, hexadecimal digits: the same for the same identity."""
    return _digest(values)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What differs between two identities, in words."""
    found = []
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            parts = [
                f"{key} {old.get(key)} -> {new.get(key)}" for key in {**old, **new} if old.get(key) != new.get(key)
            ]
            found.append(f"{name}: {', '.join(parts)}")
        else:
            found.append(f"{name}: {_short(old)} -> {_short(new)}")
    return found


def key_of(series: str, planned: PlannedCell, environment: Environment, rung: str = "") -> str:
    """What a finished cell is known by: the series (versions, devices, effort), the cell, and its environment.

    Args:
        series: see :func:`series_of`.
        planned: the cell.
        environment: its environment, whose variables and command count.
        rung: of a plan that measures cells more than once, each time longer.
    """
    more = [environment.name, dict(environment.variables), environment.before, rung]
    return _digest([series, planned.cell.case, planned.arrivals, more])


def _effort(effort: Effort) -> dict[str, Any]:
    values = {name: value for name, value in asdict(effort).items() if name not in _NOT_EFFORT}
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def _target(medium: Medium, root: str) -> dict[str, Any]:
    return {
        "medium": medium.name,
        "file_system": medium.file_system,
        "mount_options": ",".join(
            word for word in medium.mount_options.split(",") if word.partition("=")[0] not in _VOLATILE
        ),
        "devices": [
            {name: getattr(device, name) for name in _OF_DEVICE} | {"which": _which(device.name, root)}
            for device in medium.devices
        ],
    }


def _which(name: str, root: str) -> str | None:
    """Tells two drives of one model apart and gives no serial number away: a part of its digest."""
    folder = Path(root, "sys/block", name.replace("/", "!"))
    for file in ("wwid", "device/wwid", "device/serial", "serial", "loop/backing_file"):
        text = read_text(folder / file)
        if text and text.strip():
            return hashlib.sha256(text.strip().encode()).hexdigest()[:8]
    return None


def _digest(values: Any) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _short(value: Any) -> str:
    return "none" if value is None else "changed" if isinstance(value, dict) else str(value)
