"""KvikIO: reads and writes of a file to and from device memory, split over its own pool of threads."""

from __future__ import annotations

import errno
import importlib
import importlib.util
from collections.abc import Mapping
from importlib import metadata
from typing import Any, Final

from pytest_gpuio.core.errors import CapabilityMissing, EngineError
from pytest_gpuio.measure.libraries.calls import Call, Done
from pytest_gpuio.measure.libraries.memory import Memory
from pytest_gpuio.measure.plan import Plan

_INSTALL: Final = "pip install 'pytest-gpuio[kvikio]'"
#: KvikIO's own: below this size a request is copied by its POSIX code, whatever else it would do.
_GDS_THRESHOLD: Final = 16 << 10


def import_kvikio() -> Any:
    """The module.

    Raises:
        CapabilityMissing: it is not installed, or cannot be imported here.
    """
    if importlib.util.find_spec("kvikio") is None:
        raise CapabilityMissing(f"KvikIO is not installed: {_INSTALL}")
    try:
        importlib.import_module("kvikio.defaults")
        return importlib.import_module("kvikio")
    except (ImportError, OSError, RuntimeError) as error:
        raise CapabilityMissing(f"KvikIO cannot be imported ({error}): {_INSTALL}, on a machine with a GPU") from error


class DeviceBuffer:
    """A piece of device memory in the form of the CUDA array interface, version 3."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3, "strides": None,
        }  # fmt: skip


class KvikIO:
    """One file open in KvikIO, with every setting that decides about its speed made explicit.

    Raises:
        CapabilityMissing: see :func:`import_kvikio`.
        EngineError: it refuses the file.
    """

    def __init__(self, plan: Plan, fd: int, memory: Memory) -> None:
        self._kvikio = import_kvikio()
        self._block, self._memory = plan.bs, memory
        wanted = {
            "num_threads": plan.jobs * plan.qd,
            "task_size": max(plan.bs, 4096),
            "gds_threshold": min(_GDS_THRESHOLD, plan.bs),
            "bounce_buffer_size": max(plan.bs, 16 << 20),
            "auto_direct_io_read": plan.cache == "direct",
            "auto_direct_io_write": plan.cache == "direct",
        }
        try:
            self._kvikio.defaults.set(wanted)
            # Opened by descriptor: it is the file that was checked to be ours, whatever lies at its name meanwhile.
            self._file = self._kvikio.CuFile(f"/proc/self/fd/{fd}", "r" if plan.read_percent == 100 else "r+")
        except (RuntimeError, ValueError, OSError) as error:
            raise EngineError(
                f"KvikIO does not open {plan.path} ({error}): see cufile.log, or KVIKIO_COMPAT_MODE"
            ) from error
        self._wanted = wanted

    def prepare(self, call: Call) -> Any:
        """The buffer and where it goes."""
        if len(call.offsets) != 1:
            raise EngineError("KvikIO takes one piece of a file in a call", errno.EINVAL)
        buffer = DeviceBuffer(self._memory.address + call.places[0], self._block)
        return buffer, call.offsets[0], self._file.pwrite if call.write else self._file.pread

    def post(self, prepared: Any) -> Any:
        """Queue it for the pool of threads."""
        buffer, offset, move = prepared
        try:
            return move(buffer, self._block, offset)
        except (RuntimeError, ValueError, OSError) as error:
            return error

    def finish(self, posted: Any) -> Done:
        """Wait for it."""
        if isinstance(posted, Exception):
            return Done(0, errno.EIO)
        try:
            return Done(int(posted.get()))
        except (RuntimeError, ValueError, OSError):
            return Done(0, errno.EIO)

    def release(self, prepared: Any) -> None:
        """Nothing: a buffer is a view."""

    def settings(self) -> Mapping[str, Any]:
        """What was set, and what KvikIO makes of the machine; its word on the route is not evidence."""
        defaults = self._kvikio.defaults
        return {
            "library": "kvikio",
            "version": metadata.version(_distribution()),
            "compat_mode": str(defaults.get("compat_mode")),
            "compat_mode_preferred": bool(defaults.is_compat_mode_preferred()),
        } | {name: defaults.get(name) for name in self._wanted}

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _distribution() -> str:
    for name in ("kvikio-cu13", "kvikio-cu12", "kvikio"):
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        return name
    return "kvikio"
