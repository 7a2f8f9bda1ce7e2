"""Data paths that a Python library drives: a window is a prepared list of calls of the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pytest_gpuio.measure.libraries.calls import Library
from pytest_gpuio.measure.libraries.memory import Memory
from pytest_gpuio.measure.plan import Plan

Opener = Callable[[Plan, int, Memory], Library]


def _kvikio(plan: Plan, fd: int, memory: Memory) -> Library:
    from pytest_gpuio.measure.libraries.kvikio import KvikIO

    return KvikIO(plan, fd, memory)


def _nixl(plan: Plan, fd: int, memory: Memory) -> Library:
    from pytest_gpuio.measure.libraries.nixl import Nixl

    return Nixl(plan, fd, memory)


def load_library(engine: str) -> None:
    """Have the library of an engine load what it needs, a libcufile of its choice among it; opens no driver.

    Raises:
        CapabilityMissing: it is not there.
    """
    if engine == "kvikio":
        from pytest_gpuio.measure.libraries.kvikio import import_kvikio

        import_kvikio().defaults.is_compat_mode_preferred()
    else:
        from pytest_gpuio.measure.libraries.nixl import check_plugin

        check_plugin(engine)


#: How each one is opened, by the name that stands where paths of the compiled engine have an engine's. Nothing of them
#: is imported before.
LIBRARIES: Final[Mapping[str, Opener]] = MappingProxyType(
    {"kvikio": _kvikio, "nixl_posix": _nixl, "nixl_gds": _nixl, "nixl_gds_mt": _nixl}
)
