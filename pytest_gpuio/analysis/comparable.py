"""Whether two records of one case may be compared at all: the same machine, device, kernel, path and knobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from pytest_gpuio.core.errors import ConfigError

Record = Mapping[str, Any]


def _devices(_: Record, record: Record) -> str:
    target = record["target"]
    names = [
        " ".join(str(device[key]) for key in ("model", "firmware") if device.get(key)) or str(device.get("name", "?"))
        for device in target.get("devices", [])
    ]
    # Of several equal drives the names say nothing more than how many there are.
    return ", ".join(sorted(names)) or str(target.get("file_system", "?"))


def _machine(machine: Record, _: Record) -> str:
    return str(machine.get("id", "?"))


def _kernel(machine: Record, _: Record) -> str:
    return str(machine.get("kernel", "?"))


def _file_system(_: Record, record: Record) -> str:
    return str(record["target"].get("file_system", "?"))


def _path(_: Record, record: Record) -> str:
    return str(record["effective"]["datapath"])


def _knobs(_: Record, record: Record) -> str:
    return ", ".join(sorted(record["effective"]["knobs"])) or "none"


def _direct(_: Record, record: Record) -> str:
    return {True: "O_DIRECT", False: "buffered"}.get(record["effective"]["direct"], "no file")


#: What must be equal, in the order of how much it explains.
ASPECTS: Final[Mapping[str, Callable[[Record, Record], str]]] = {
    "machine": _machine,
    "device": _devices,
    "kernel": _kernel,
    "file_system": _file_system,
    "path": _path,
    "knobs": _knobs,
    "direct": _direct,
}


def check_aspects(names: Collection[str]) -> None:
    """Refuses names that are no aspect.

    Raises:
        ConfigError: with the list of those there are.
    """
    for name in names:
        if name not in ASPECTS:
            raise ConfigError(f"there is nothing named {name!r} to allow: choose from {', '.join(ASPECTS)}.")


def difference(
    old: tuple[Record, Record], new: tuple[Record, Record], allowed: Collection[str] = frozenset()
) -> str | None:
    """The first aspect in which two results differ, as a sentence; None when they may be compared.

    Args:
        old: machine fingerprint and record.
        new: the same.
        allowed: aspects that may differ, because their change is what is looked at.
    """
    for name, of in ASPECTS.items():
        before, after = of(*old), of(*new)
        if name not in allowed and before != after:
            return f"{name.replace('_', ' ')} differs: {before} before, {after} now"
    return None
