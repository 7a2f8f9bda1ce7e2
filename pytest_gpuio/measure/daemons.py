"""Processes outside that move a file system's bytes: found by name, so that their CPU is counted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pytest_gpuio.machine.reading import slurp

#: Names of daemons by the file system they serve; of 15 characters at most, as the kernel keeps them.
SERVED_BY: Final[Mapping[str, str]] = MappingProxyType({"fuse.hf3fs": "hf3fs_fuse_main"})


def find_daemons(file_system: str | None, root: str = "/") -> tuple[int, ...]:
    """Ids of the processes that serve files of a type, ascending; which of several serves a mount cannot be seen.

    Args:
        file_system: its type, ``fuse.hf3fs``; None = unknown.
        root: where ``/proc`` is.
    """
    name = SERVED_BY.get(file_system or "")
    if name is None:
        return ()
    proc = f"{root.rstrip('/')}/proc"
    ids = (entry for entry in os.listdir(proc) if entry.isdigit())  # noqa: PTH208 - thousands of entries
    return tuple(sorted(int(entry) for entry in ids if (slurp(f"{proc}/{entry}/comm") or "").strip() == name))
