"""A run: one cell's engine, workers and buffers, over several windows; a window is one call with the GIL released."""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine.clock import Clock
from pytest_gpuio.engine.histogram import Histogram
from pytest_gpuio.engine.native import check, native, new_why, text
from pytest_gpuio.engine.pool import Pool
from pytest_gpuio.engine.replay import RESULTS
from pytest_gpuio.engine.spec import RunSpec, knob_names, to_native

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping

    from _typeshed import ReadableBuffer


#: Names of the latency histograms of a window.
HISTOGRAMS: Final = ("slat", "clat", "lat", "lag", "response", "copy", "total")


class WorkerResult(NamedTuple):
    """One worker's part of a window; mirrors ``struct gpuio_worker_result``.

    Attributes:
        error: 0 or -errno of the worker itself, not of an I/O.
        cpu: the CPU it was pinned to; -1 = not pinned. tid: its thread id.
        gpu: ordinal of the GPU its bytes end in; -1 = host memory.
        start_ns, end_ns: CLOCK_MONOTONIC.
        ios, bytes: completed in full.
        cpu_ns: CLOCK_THREAD_CPUTIME_ID over the window.
    """

    error: int
    cpu: int
    tid: int
    gpu: int
    start_ns: int
    end_ns: int
    ios: int
    bytes: int
    cpu_ns: int


class Window(NamedTuple):
    """One timed stretch of a fixed number of I/Os; mirrors ``struct gpuio_window``.

    A tuple since it is made between two windows, by a processor that has slept: each step takes ten times as long then.

    Attributes:
        start_ns, end_ns: CLOCK_MONOTONIC, from the start barrier's release to the end of the last worker.
        ios, reads, writes, bytes: completed in full.
        errors: I/Os that failed. short_ios: I/Os with fewer bytes than asked.
        first_error: -errno of the first failed I/O, 0 = none. first_error_op: 0 read, 1 write.
        first_error_offset: its offset in bytes; 2^64 - 1 when fsync or fdatasync failed.
        syncs, sync_ns: fsync and fdatasync calls and the time in them, all workers.
        stopped: 1 = the stop flag ended it early. stuck_worker: always -1 here; a stuck worker is an error.
        cpu_ns: CLOCK_PROCESS_CPUTIME_ID over the window. user_ns, system_ns: getrusage(RUSAGE_SELF).
        minor_faults, major_faults, voluntary_switches, involuntary_switches: getrusage(RUSAGE_SELF).
        mean_in_flight: requests in flight of all workers, counted at submit and reap by stamps of its own; 0 when
            there was no steady stretch.
        steady_ns: the stretch, from the first worker's ramp end to the last one's drain start.
        steady_ios, steady_lat_ns: completions in it, sum of their latencies. steady_rate: completions per second.
        max_in_flight: sum over workers of each one's largest number in flight.
        verified, bad: blocks checked inside the window, blocks with a bad sector. first_bad_offset: of the first one.
        scheduled: open loop: arrivals of this window; 0 = closed loop.
        late: of them sent more than max(200 us, one mean gap) after their intended start. Of a replay, both count
            groups that have a time.
        total_in_flight, total_ns, total_ios, total_lat_ns, total_rate, max_total: GPU memory reached by copies: as
            ``mean_in_flight`` and so on, for requests until their bytes are in GPU memory (writes: from before they
            leave it); the others are then the device's part.
        copies, copied_bytes: calls that copied between host and GPU memory, and their bytes.
        clock_ppm: how far the TSC's scale was off CLOCK_MONOTONIC over this window; 0 for CLOCK_MONOTONIC.
        workers: the parts, in worker order.
    """

    start_ns: int
    end_ns: int
    ios: int
    reads: int
    writes: int
    bytes: int
    errors: int
    short_ios: int
    first_error: int
    first_error_op: int
    first_error_offset: int
    syncs: int
    sync_ns: int
    stopped: int
    stuck_worker: int
    cpu_ns: int
    user_ns: int
    system_ns: int
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    mean_in_flight: float
    steady_ns: int
    steady_ios: int
    steady_lat_ns: int
    steady_rate: float
    max_in_flight: int
    verified: int
    bad: int
    first_bad_offset: int
    scheduled: int
    late: int
    total_in_flight: float
    total_ns: int
    total_ios: int
    total_lat_ns: int
    total_rate: float
    max_total: int
    copies: int
    copied_bytes: int
    clock_ppm: float
    workers: tuple[WorkerResult, ...]


_CODES: Final = {"uint64_t": "Q", "int64_t": "q", "uint32_t": "I", "int32_t": "i", "double": "d"}


@cache
def _layout(name: str, fields: tuple[str, ...]) -> struct.Struct:
    """How a struct of the engine whose fields are ``fields`` lies in memory."""
    kind = native().ffi.typeof(f"struct {name}")
    if tuple(field for field, _ in kind.fields) != fields:
        raise EngineError(f"the compiled engine's struct {name} has other fields: build the package again")
    layout = struct.Struct("@" + "".join(_CODES[field.type.cname] for _, field in kind.fields) + "0Q")
    assert layout.size == native().ffi.sizeof(kind)
    return layout


@dataclass(frozen=True, slots=True)
class Sweep:
    """What the last window left behind: blocks checked, blocks with bad sectors, offset of the first bad sector."""

    checked: int
    bad: int
    first_bad_offset: int


class Run:
    """Opens the engine in each worker's own thread; a context manager."""

    def __init__(self, spec: RunSpec, clock: Clock, pool: Pool, stop: ReadableBuffer | None = None) -> None:
        """Open a run.

        Args:
            spec: what to do.
            clock: stamps the requests.
            pool: buffers; serves one open run at a time.
            stop: at least 4 bytes of shared memory; when the first uint32 becomes non-zero, windows end early.

        Raises:
            EngineError: the spec cannot work, or the engine cannot be opened.
        """
        ffi, lib = native().ffi, native().lib
        self.spec = spec
        self._pool = pool  # keeps the buffers alive
        self._run: Any = None
        self._stop: Any = None
        struct, keep = to_native(spec)
        struct.clock, struct.pool = clock.pointer, pool.pointer
        if stop is not None:
            self._stop = ffi.from_buffer(stop)
            if len(self._stop) < 4:
                raise EngineError(f"the stop flag has {len(self._stop)} bytes: 4 are needed")
            struct.stop = ffi.cast("uint32_t *", self._stop)
        out, why = ffi.new("struct gpuio_run **"), new_why()
        code = lib.gpuio_open(struct, out, why)
        #: A replay reads its records where they are.
        self._kept = keep if spec.replay is not None else None
        check(code, why, f"opening the engine {spec.engine}")
        self._run = ffi.gc(out[0], lib.gpuio_close)

    @property
    def _open(self) -> Any:
        if self._run is None:
            raise EngineError("the run is closed")
        return self._run

    def window(self, ios: int) -> Window:
        """One timed stretch of exactly ``ios`` requests; fewer when stopped or after 64 failures in a worker.

        Raises:
            EngineError: the deadline passed (ETIMEDOUT, a stuck worker is named), the engine broke, or an earlier
                window of this run ended so (ECANCELED).
        """
        out, why = native().ffi.new("struct gpuio_window *"), new_why()
        if not 0 < ios < 1 << 64:
            raise EngineError(f"a window of {ios} I/Os: use 1 or more", errno.EINVAL)
        check(native().lib.gpuio_window(self._open, ios, out, why), why, f"a window of {ios:,} I/Os")
        return self._window(out)

    def replay(self, first: int, count: int, results: array[int]) -> Window:
        """One timed stretch over the records of ``count`` groups from number ``first`` on.

        Args:
            first: number of the first group.
            count: number of groups. Times count from the earliest of them, and what they depend on outside is taken for
                done.
            results: receives :data:`~pytest_gpuio.engine.replay.RESULTS` numbers per group, see
                :func:`~pytest_gpuio.engine.replay.results_for`.

        Raises:
            EngineError: as :meth:`window`; there are no such groups, or too little room for the results.
        """
        ffi, out, why = native().ffi, native().ffi.new("struct gpuio_window *"), new_why()
        if not (0 <= first < 1 << 32 and 0 < count < 1 << 32):
            raise EngineError(f"groups {first} to {first + count}: name at least one that is there", errno.EINVAL)
        if len(results) < RESULTS * count:
            raise EngineError(f"room for {len(results)} numbers is too little for {count} groups", errno.EINVAL)
        room = ffi.from_buffer("struct gpuio_group_result[]", results, require_writable=True)
        code = native().lib.gpuio_replay(self._open, first, count, room, out, why)
        check(code, why, f"a window of {count:,} groups")
        return self._window(out)

    def compute_alone(self, ns: int, times: int, *, tune: bool = False) -> float:
        """How long a kernel for a compute of ``ns`` nanoseconds takes while no window runs; mean of ``times``, ns.

        Args:
            ns: of the compute.
            times: kernels, one after the other.
            tune: kernels do so much more or less from then on that one would have taken ``ns``.

        Raises:
            EngineError: this run computes by no kernel, or the GPU failed.
        """
        took, why = native().ffi.new("double *"), new_why()
        if not (0 < ns < 1 << 63 and 0 < times < 1 << 32):
            raise EngineError(f"{times} computes of {ns} ns: use 1 or more of each", errno.EINVAL)
        check(
            native().lib.gpuio_compute_alone(self._open, ns, times, int(tune), took, why),
            why,
            f"computing for {ns:,} ns",
        )
        return float(took[0])

    def _window(self, out: Any) -> Window:
        values = _layout("gpuio_window", Window._fields[:-1]).unpack_from(native().ffi.buffer(out))
        return Window._make((*values, self._workers()))

    def _workers(self) -> tuple[WorkerResult, ...]:
        results = native().ffi.new("struct gpuio_worker_result[]", self.spec.jobs)
        native().lib.gpuio_worker_results(self._open, results)
        layout = _layout("gpuio_worker_result", WorkerResult._fields)
        return tuple(map(WorkerResult._make, layout.iter_unpack(native().ffi.buffer(results))))

    def histograms(self) -> dict[str, Histogram]:
        """Copies of the last window's latency histograms by name, merged over workers.

        ``lat`` is from before submission to reaped; ``slat`` and ``clat`` are its parts before and after the end of
        submission. Where that cannot be observed (synchronous engines, ``merged_wait``) ``slat`` is empty and ``clat``
        equals ``lat``. An open loop also has ``lag``, from the intended start to submission, and ``response``, from the
        intended start to reaped; in a closed loop both are empty. Where GPU memory is reached by copies, ``copy`` is
        from reaped to seen in GPU memory (writes: from GPU to host memory, before submission), and ``total`` the
        whole way of a request; elsewhere both are empty.
        """
        lib, run = native().lib, self._open
        return {name: Histogram(getattr(lib, f"gpuio_{name}")(run)) for name in HISTOGRAMS}

    def add_histograms(self, to: Mapping[str, Histogram]) -> None:
        """Merges :meth:`histograms` into others without copies of its own."""
        lib, run = native().lib, self._open
        for name, histogram in to.items():
            histogram.merge_from(getattr(lib, f"gpuio_{name}")(run))

    def sweep(self) -> Sweep:
        """Check what the last window left: reads in their buffers, writes by reading them back.

        Raises:
            EngineError: there is no window, or the file cannot be read back.
        """
        numbers, why = native().ffi.new("uint64_t[3]"), new_why()
        code = native().lib.gpuio_sweep(self._open, numbers, numbers + 1, numbers + 2, why)
        check(code, why, "sweeping the last window")
        return Sweep(*map(int, numbers))

    @property
    def effective_knobs(self) -> frozenset[str]:
        """Knobs that every worker really has."""
        return knob_names(native().lib.gpuio_effective_knobs(self._open))

    @property
    def knob_reason(self) -> str:
        """Why a knob that was asked for is off; empty when none is."""
        why = new_why()
        native().lib.gpuio_knob_reason(self._open, why)
        return text(why.text)

    @property
    def facts(self) -> str:
        """What the engine says of how it was opened, ``name=value ...``; empty when it says nothing."""
        why = new_why()
        native().lib.gpuio_facts(self._open, why)
        return text(why.text)

    @property
    def slots(self) -> int:
        """Requests of each worker: its depth, and those being copied where GPU memory is reached by copies."""
        return int(native().lib.gpuio_slots(self._open))

    @property
    def ring_fds(self) -> tuple[int, ...]:
        """Descriptor of each worker's io_uring, as in ``/proc/self/fdinfo``; -1 where the engine has none."""
        run = self._open
        return tuple(int(native().lib.gpuio_ring_fd(run, worker)) for worker in range(self.spec.jobs))

    def close(self) -> None:
        """End the workers; closing twice does nothing.

        Raises:
            EngineError: a worker did not end within 2 s (EBUSY): give this process up.
        """
        if self._run is None:
            return
        run, self._run = self._run, None
        native().ffi.gc(run, None)  # closed here, for the return code
        code = native().lib.gpuio_close(run)
        if code:
            # The stop flag's memory stays referenced: the stuck worker may still look at it.
            raise EngineError(
                f"a worker of the engine {self.spec.engine} did not end within 2 s, it is stuck in the kernel: give "
                "this process up",
                -code,
            )
        if self._stop is not None:
            native().ffi.release(self._stop)
            self._stop = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except EngineError as late:
            if error is None:
                raise
            error.add_note(str(late))  # the first error is the cause
