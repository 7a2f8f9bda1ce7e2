"""The measuring child's entry point: ``python -P -m pytest_gpuio.measure.child``."""

from __future__ import annotations

import gc
import os
from dataclasses import asdict
from mmap import PAGESIZE
from typing import Any

from pytest_gpuio.isolation.serve import serve, stop_word
from pytest_gpuio.measure.plan import Plan


class _Measuring:
    """State kept between the cells of one child: the calibrated clock and the pooled buffers."""

    def __init__(self) -> None:
        from pytest_gpuio.engine import Clock, Pool

        # A clock source that is distrusted can be overruled from outside.
        self.clock = Clock.calibrate(os.environ.get("GPUIO_CLOCK") or None)
        self.pool = Pool()
        self._node: int | None = None
        self._settled = False

    def settle(self) -> None:
        """After the first cell everything is loaded: looking at it again for garbage would cost later cells time."""
        if not self._settled:
            gc.freeze()
        self._settled = True

    def place(self, plan: Plan) -> None:
        """Have buffers on the plan's NUMA node: pages come from where they are touched first."""
        from pytest_gpuio.engine import Pool
        from pytest_gpuio.measure.placement import running_on

        if plan.node != self._node:
            self.pool.close()
            self.pool = Pool()
            self._node = plan.node
        if plan.node is not None:
            with running_on(plan.node):
                self.pool.reserve(plan.in_flight * -(-plan.bs // PAGESIZE) * PAGESIZE)


class Handlers:
    """What a measuring child can be asked."""

    def __init__(self) -> None:
        self._measuring: _Measuring | None = None

    def _state(self) -> _Measuring:
        if self._measuring is None:
            self._measuring = _Measuring()
        return self._measuring

    def probe(self, params: dict[str, Any], emit: Any) -> str | None:  # noqa: ARG002 - the handler's signature
        """None when the capability ``name`` is there, else the sentence with the remedy."""
        from pytest_gpuio.measure import probes

        return probes.run(params["name"], params["target"])

    def cufile(self, params: dict[str, Any], emit: Any) -> dict[str, Any]:  # noqa: ARG002 - the handler's signature
        """CuFile's driver as it opens in this child, and whether it takes the target."""
        from pytest_gpuio.measure import cufile

        return cufile.describe(params["mode"], params["target"])

    def clock(self, params: dict[str, Any], emit: Any) -> dict[str, Any]:  # noqa: ARG002 - the handler's signature
        """The clock that stamps requests: source, cost of a stamp and resolution in nanoseconds."""
        clock = self._state().clock
        return {"source": clock.source, "cost_ns": clock.cost_ns, "resolution_ns": clock.resolution_ns}

    def gpus(self, params: dict[str, Any], emit: Any) -> list[dict[str, Any]]:  # noqa: ARG002 - the handler's signature
        """Every GPU that the CUDA driver shows; makes no context."""
        from pytest_gpuio.engine import gpus

        return [asdict(gpu) for gpu in gpus()]

    def lay_out(self, params: dict[str, Any], emit: Any) -> dict[str, Any]:
        """Make sure a target of ours is there; emits ``overwrite`` once for a device, and ``progress`` with bytes."""
        from pytest_gpuio.targets import (
            FoundContent,
            TargetFile,
            direct_alignment,
            is_allowed,
            lay_out,
            lay_out_devdax,
            lay_out_device,
            look_at_devdax,
            look_at_device,
            raw_device,
        )

        word = stop_word()

        def stop() -> bool:
            return bool(word[0] != 0)

        def progress(done: int, total: int) -> None:
            emit("progress", stage="layout", done=done, total=total)

        if params.get("spdk_mib") is not None:
            from pytest_gpuio.measure import spdk

            return spdk.lay_out(params, emit, progress, stop)
        device = raw_device(params["path"])
        target: TargetFile | FoundContent
        if device is None:
            target = lay_out(params["path"], params["data_bytes"], progress=progress, stop=stop)
        elif not params["writes"] and not is_allowed(device, params["allow_destroy"]):
            if device.devdax:
                target = look_at_devdax(device, params["data_bytes"])
            else:
                target = look_at_device(device, params["data_bytes"], allowed=params["allow_destroy"])
            if isinstance(target, FoundContent):
                busy = ", which others use: their I/O may disturb the figures" if target.used else ""
                text = (
                    f"{device} is read as it is and never written{busy}; data that can be checked needs its permission"
                )
                emit("progress", stage="overwrite", text=text)
        else:
            target = (lay_out_devdax if device.devdax else lay_out_device)(
                device,
                params["data_bytes"],
                allowed=params["allow_destroy"],
                force=params["force"],
                announce=lambda text: emit("progress", stage="overwrite", text=text),
                progress=progress,
                stop=stop,
            )
        alignment = direct_alignment(target.path)
        return {
            "path": str(target.path),
            "data_offset": target.data_offset,
            "data_bytes": target.data_bytes,
            "pattern_seed": 0 if isinstance(target, FoundContent) else target.pattern_seed,
            "foreign_zeros": target.zero_share if isinstance(target, FoundContent) else None,
            "alignment": None if alignment is None else alignment.offset,
            "memory_alignment": None if alignment is None else alignment.memory,
            "alignment_source": None if alignment is None else alignment.source,
        }

    def lay_out_files(self, params: dict[str, Any], emit: Any) -> dict[str, Any]:
        """Make sure that the files of a model are there: ``files`` is a list of paths and bytes."""
        from pytest_gpuio.measure.replay import lay_out_files

        word = stop_word()
        return lay_out_files(params["folder"], params["files"], emit, lambda: bool(word[0] != 0))

    def measure(self, params: dict[str, Any], emit: Any) -> dict[str, Any]:
        """Measure the cell of a plan."""
        from pytest_gpuio.measure.cell import CellRun

        state, plan = self._state(), Plan.from_params(params)
        state.place(plan)
        outcome = CellRun(plan, state.clock, state.pool, stop_word(), emit).outcome()
        state.settle()
        return outcome

    def smoke(self, params: dict[str, Any], emit: Any) -> dict[str, int]:  # noqa: ARG002 - the handler's signature
        """A tiny untimed run of the cell of a plan."""
        from pytest_gpuio.measure.smoke import smoke

        state = self._state()
        return smoke(Plan.from_params(params), state.clock, state.pool, stop_word())


def leave() -> None:
    """Close what must not be left to the end of the process."""
    import sys

    cufile = sys.modules.get("pytest_gpuio.measure.cufile")
    if cufile is not None:
        cufile.close()
    spdk = sys.modules.get("pytest_gpuio.measure.spdk")
    if spdk is not None:
        spdk.close()


def main() -> None:
    """Serve requests until the parent closes the pipe."""
    handlers = Handlers()
    serve(
        {
            "probe": handlers.probe,
            "clock": handlers.clock,
            "gpus": handlers.gpus,
            "cufile": handlers.cufile,
            "lay_out": handlers.lay_out,
            "lay_out_files": handlers.lay_out_files,
            "measure": handlers.measure,
            "smoke": handlers.smoke,
        },
        at_exit=leave,
    )


if __name__ == "__main__":
    main()
