"""NIXL's storage plug-ins: prepared, posted and polled transfers between memory and a file."""

from __future__ import annotations

import errno
import importlib
import importlib.util
import time
from collections.abc import Mapping
from importlib import metadata
from typing import Any, Final

from pytest_gpuio.core.errors import CapabilityMissing, EngineError
from pytest_gpuio.measure.libraries.calls import Call, Done
from pytest_gpuio.measure.libraries.memory import Memory
from pytest_gpuio.measure.plan import Plan

#: NIXL's name of each data path's plug-in.
PLUGINS: Final[Mapping[str, str]] = {"nixl_posix": "POSIX", "nixl_gds": "GDS", "nixl_gds_mt": "GDS_MT"}
#: The wheels' modules, newest CUDA first; the meta package ``nixl`` only imports one of them.
_MODULES: Final = ("nixl_cu13", "nixl_cu12", "nixl")
_INSTALL: Final = "pip install 'pytest-gpuio[nixl]'"
_AGENT: Final = "gpuio"


def module_name() -> str | None:
    """Name of the module that is installed; None = NIXL is not. Imports nothing."""
    return next((name for name in _MODULES if importlib.util.find_spec(name) is not None), None)


def _api() -> Any:
    name = module_name()
    if name is None:
        raise CapabilityMissing(f"NIXL is not installed: {_INSTALL}")
    try:
        return importlib.import_module(f"{name}._api")
    except (ImportError, OSError) as error:
        raise CapabilityMissing(f"NIXL cannot be imported ({error}): {_INSTALL}, or see its log") from error


def _agent(api: Any) -> Any:
    # Only the plug-in that is asked for: the default would open UCX, which takes a second and threads.
    return api.nixl_agent(_AGENT, api.nixl_agent_config(enable_prog_thread=False, backends=[]))


def check_plugin(path: str) -> None:
    """Load the plug-in's parameters: being in NIXL's list does not mean that it loads.

    Args:
        path: a data path of :data:`PLUGINS`.

    Raises:
        CapabilityMissing: NIXL is not installed, or the plug-in does not load here.
    """
    plugin = PLUGINS[path]
    agent = _agent(_api())
    listed = agent.get_plugin_list()
    if plugin not in listed:
        raise CapabilityMissing(f"this NIXL has no plug-in {plugin}, it has {', '.join(sorted(listed))}: {_INSTALL}")
    try:
        agent.agent.getPluginParams(plugin)
    except Exception as error:  # its classes differ between releases
        needs = "libcufile.so.0 and libcuda.so.1" if plugin.startswith("GDS") else "its shared libraries"
        raise CapabilityMissing(
            f"NIXL's plug-in {plugin} is listed but does not load ({type(error).__name__}: {error}): it needs {needs}; "
            "see ldd of the plug-in in the wheel"
        ) from error


class Nixl:
    """One agent with one plug-in, the file and the memory registered.

    Raises:
        CapabilityMissing: see :func:`check_plugin`.
        EngineError: the plug-in cannot be started, or refuses the file or the memory.
    """

    def __init__(self, plan: Plan, fd: int, memory: Memory) -> None:
        self._plugin = PLUGINS[plan.engine]
        self._block, self._deadline_s = plan.bs, plan.timeout_s
        self._memory, self._fd = memory, fd
        if plan.cufile is not None:
            from pytest_gpuio.measure.cufile import check_file

            check_file(fd)
        api = _api()
        self._errors = (api.nixlBind.nixlBackendError, api.nixlBind.nixlNotFoundError, RuntimeError)
        self._parameters = self._choose_parameters(plan)
        config = api.nixl_agent_config(enable_prog_thread=False, backends=[], capture_telemetry=True)
        self._agent = api.nixl_agent(_AGENT, config)
        begin = time.monotonic()
        self._try("starting the plug-in", self._agent.create_backend, self._plugin, self._parameters)
        self._start_seconds = time.monotonic() - begin
        self._kind = "DRAM" if memory.gpu < 0 else "VRAM"
        self._device = max(memory.gpu, 0)
        self._registered = [
            self._try(
                "registering the memory", self._register, (memory.address, memory.size, self._device, ""), self._kind
            ),
            self._try(
                "registering the file", self._register, (0, plan.region_offset + plan.region_bytes, fd, ""), "FILE"
            ),
        ]

    def _choose_parameters(self, plan: Plan) -> dict[str, str]:
        """Explicit ones: the plug-in's defaults change between releases."""
        if self._plugin == "POSIX":
            return {"use_aio": "false", "use_uring": "true", "use_posix_aio": "false"}
        if self._plugin == "GDS_MT":
            return {"thread_count": str(max(plan.jobs * plan.qd, 1))}
        return {}

    def _register(self, piece: tuple[int, int, int, str], kind: str) -> Any:
        return self._agent.register_memory(self._agent.get_reg_descs([piece], mem_type=kind), backends=[self._plugin])

    def _try(self, what: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:  # its classes differ between releases
            raise EngineError(
                f"NIXL's plug-in {self._plugin} failed at {what} ({type(error).__name__}: {error}); its log is in this "
                "child's last words, NIXL_LOG_LEVEL=DEBUG tells more"
            ) from error

    def prepare(self, call: Call) -> Any:
        """Descriptor lists of both sides, and a request made of them."""
        here = [(self._memory.address + place, self._block, self._device) for place in call.places]
        there = [(offset, self._block, self._fd) for offset in call.offsets]
        return self._try(
            "preparing a transfer",
            self._agent.initialize_xfer,
            "WRITE" if call.write else "READ",
            self._agent.get_xfer_descs(here, mem_type=self._kind),
            self._agent.get_xfer_descs(there, mem_type="FILE"),
            _AGENT,
            b"",
            [self._plugin],
        ), len(call.offsets)

    def post(self, prepared: Any) -> Any:
        """Start it."""
        handle, requests = prepared
        try:
            state = self._agent.transfer(handle)
        except Exception:  # noqa: BLE001 - its classes differ between releases; the call has failed
            state = "ERR"
        return handle, requests, state

    def finish(self, posted: Any) -> Done:
        """Poll it: NIXL has no call that waits."""
        handle, requests, state = posted
        check, until = self._agent.check_xfer_state, None
        while state == "PROC":
            try:
                state = check(handle)
            except Exception:  # noqa: BLE001 - as above
                state = "ERR"
            if until is None:
                until = time.monotonic() + self._deadline_s
            elif time.monotonic() > until:
                raise EngineError(
                    f"a transfer of NIXL's plug-in {self._plugin} was not over within {self._deadline_s:.3g} s: the "
                    "device is stuck or far slower than expected",
                    errno.ETIMEDOUT,
                )
        if state != "DONE":
            return Done(0, errno.EIO)
        return Done(requests * self._block, inside_ns=self._inside(handle))

    def _inside(self, handle: Any) -> int | None:
        try:
            return int(self._agent.get_xfer_telemetry(handle).xferDuration) * 1000
        except Exception:  # noqa: BLE001 - telemetry is optional in NIXL
            return None

    def release(self, prepared: Any) -> None:
        """Give the request back."""
        self._try("releasing a transfer", self._agent.release_xfer_handle, prepared[0])

    def settings(self) -> Mapping[str, Any]:
        """Plug-in, its parameters, NIXL's version, and how long starting it took."""
        name = module_name() or ""
        return {
            "library": name,
            "version": metadata.version(name.replace("_", "-")),
            "plugin": self._plugin,
            "parameters": self._parameters,
            "memory": self._kind,
            "start_seconds": self._start_seconds,
        }

    def close(self) -> None:
        """Deregister; NIXL's agent ends with its object."""
        for descriptors in reversed(self._registered):
            self._try("deregistering", self._agent.deregister_memory, descriptors)
        self._registered = []
        del self._agent
