"""The table of data paths, which third parties extend through the plugin's hook."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from types import MappingProxyType

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.datapaths.base import DataPath
from pytest_gpuio.datapaths.dax import DAX
from pytest_gpuio.datapaths.frameworks import FRAMEWORK_PATHS
from pytest_gpuio.datapaths.gds import GDS_PATHS
from pytest_gpuio.datapaths.io_uring import IO_URING
from pytest_gpuio.datapaths.io_uring_cmd import IO_URING_CMD
from pytest_gpuio.datapaths.io_uring_full import IO_URING_FULL
from pytest_gpuio.datapaths.io_uring_iopoll import IO_URING_IOPOLL
from pytest_gpuio.datapaths.io_uring_sqpoll import IO_URING_SQPOLL
from pytest_gpuio.datapaths.kvikio import KVIKIO
from pytest_gpuio.datapaths.libaio import LIBAIO
from pytest_gpuio.datapaths.mmap import MMAP
from pytest_gpuio.datapaths.nixl import NIXL_GDS, NIXL_GDS_MT, NIXL_POSIX
from pytest_gpuio.datapaths.null import NULL
from pytest_gpuio.datapaths.psync import PSYNC
from pytest_gpuio.datapaths.spdk import SPDK
from pytest_gpuio.datapaths.usrbio import USRBIO

_paths: dict[str, DataPath] = {
    path.name: path
    for path in (
        NULL,
        PSYNC,
        LIBAIO,
        IO_URING,
        IO_URING_SQPOLL,
        IO_URING_IOPOLL,
        IO_URING_FULL,
        IO_URING_CMD,
        MMAP,
        DAX,
        SPDK,
        USRBIO,
        *GDS_PATHS,
        KVIKIO,
        NIXL_POSIX,
        NIXL_GDS,
        NIXL_GDS_MT,
        *FRAMEWORK_PATHS,
    )
}

#: Every known data path by name, in order of registration.
DATAPATHS: Mapping[str, DataPath] = MappingProxyType(_paths)


def register(path: DataPath) -> None:
    """Add a data path.

    Raises:
        ConfigError: the name is malformed or taken by another path.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", path.name):
        raise ConfigError(f"data path name {path.name!r} must be lower-case letters, digits and '_', as ids need it.")
    if _paths.setdefault(path.name, path) is not path:
        raise ConfigError(f"data path {path.name!r} is registered twice: give yours another name.")


def get(name: str) -> DataPath:
    """The data path of that name.

    Raises:
        ConfigError: there is none; the message lists near matches.
    """
    try:
        return _paths[name]
    except KeyError:
        near = difflib.get_close_matches(name, _paths, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(_paths)}."
        raise ConfigError(f"unknown data path {name!r}: {hint}") from None
