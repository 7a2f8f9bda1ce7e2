"""A run of a library's data path: the same windows, histograms and sweep as a run of the compiled engine has."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import (
    HISTOGRAMS,
    Histogram,
    RunSpec,
    Sweep,
    Window,
    offsets,
    pattern_check,
    pattern_fill,
)
from pytest_gpuio.measure.libraries import LIBRARIES
from pytest_gpuio.measure.libraries.calls import Call, Done, Library
from pytest_gpuio.measure.libraries.memory import GpuMemory, HostMemory, Memory, stride_of
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.stretch import Stretch

_now = time.monotonic_ns
#: Bytes of the blocks that writes are made from, at most: each goes to one place of the file, whose content it has.
_WRITE_BYTES: Final = 256 << 20
_POISON: Final = b"\xdd"
_OVERHEAD_CALLS: Final = 20_000


@dataclass(slots=True)
class _Log:
    """Stamps of a window's calls, nanoseconds: the in-flight counter's own, and the latencies'."""

    counted_in: list[int]
    started: list[int]
    posted: list[int]
    counted_out: list[int]
    ended: list[int]
    done: list[Done]


class NoLibrary:
    """Does nothing: what the loop itself costs."""

    def prepare(self, call: Call) -> Call:
        """The call itself."""
        return call

    def post(self, prepared: Call) -> Call:
        """The call itself."""
        return prepared

    def finish(self, posted: Call) -> Done:
        """At once."""
        return Done(len(posted.offsets))

    def release(self, prepared: Call) -> None:
        """Nothing."""


def drive(library: Any, prepared: Sequence[Any], in_flight: int, stop: memoryview) -> _Log:
    """Post calls in order, at most ``in_flight`` of them at a time, and finish them in order."""
    log = _Log([], [], [], [], [], [])
    waiting: list[Any] = []
    finished = 0
    post, finish = library.post, library.finish
    for call in prepared:
        if len(waiting) - finished == in_flight:
            log.done.append(finish(waiting[finished]))
            log.ended.append(_now())
            log.counted_out.append(_now())
            waiting[finished] = None
            finished += 1
        if stop[0]:
            break
        log.counted_in.append(_now())
        log.started.append(_now())
        waiting.append(post(call))
        log.posted.append(_now())
    while finished < len(waiting):
        log.done.append(finish(waiting[finished]))
        log.ended.append(_now())
        log.counted_out.append(_now())
        finished += 1
    return log


class LibraryRun:
    """Windows of one library on one file; a context manager, like :class:`pytest_gpuio.engine.Run`.

    A call holds ``per_call`` requests of a block each; ``calls_in_flight`` calls are under way at a time. Python takes
    part in each call, which :attr:`python_ns_per_call` tells.

    Args:
        spec: geometry, as the compiled engine gets it; ``jobs`` x ``depth`` requests are in flight.
        library: open. It is closed with the run.
        memory: destination; closed with the run.
        fd: of the file, for reading written blocks back; closed with the run.
        per_call: requests in one call; the rest of the depth is in further calls.
        stop: when its first word becomes non-zero, windows end early.
    """

    def __init__(
        self, spec: RunSpec, library: Library, memory: Memory, *, fd: int, per_call: int, stop: memoryview
    ) -> None:
        self.spec = spec
        self._library, self._memory, self._fd, self._stop = library, memory, fd, stop
        self._in_flight = spec.jobs * spec.depth
        self._per_call = min(per_call, self._in_flight)
        self._calls_in_flight = max(self._in_flight // self._per_call, 1)
        self._stride = stride_of(spec.block)
        # The geometry as one worker has it: a library's calls come from one list.
        self._one = replace(
            spec, engine="psync", jobs=1, depth=1, submit_batch=1, reap_batch=1, cpus=(), sq_cpus=None, gpus=()
        )
        self._drawn = 0
        self._last: list[tuple[Call, Done]] = []
        self._histograms = {name: Histogram.empty() for name in HISTOGRAMS}
        self._prepare_ns = self._prepared = 0
        self._post_ns = self._posted = 0
        self._inside_ns = self._told = 0
        self._write_offsets = self._lay_out_writes() if spec.read_percent < 100 else []
        self.python_ns_per_call = self._overhead()

    @staticmethod
    def memory_bytes(spec: RunSpec) -> int:
        """Memory that a run of this geometry needs."""
        stride = stride_of(spec.block)
        if spec.read_percent == 100:
            return spec.jobs * spec.depth * stride
        return max(_WRITE_BYTES // stride, spec.jobs * spec.depth) * stride

    def _lay_out_writes(self) -> list[int]:
        """Fill the memory with what belongs at certain blocks of the file: their offsets, in order of place."""
        blocks = min(self._memory.size // self._stride, self.spec.region_bytes // self.spec.block)
        found, _ops = offsets(self._one, 0, blocks)
        content = bytearray(self.spec.block)
        for place, offset in enumerate(found):
            pattern_fill(content, offset, self.spec.pattern_seed)
            self._memory.write(place * self._stride, content)
        return found

    def _overhead(self) -> float:
        nothing = Call(False, (0,), (0,))
        begin = _now()
        drive(NoLibrary(), [nothing] * _OVERHEAD_CALLS, self._calls_in_flight, memoryview(b"\0"))
        return (_now() - begin) / _OVERHEAD_CALLS

    def _calls(self, ios: int) -> list[Call]:
        """The next ``ios`` requests, in calls; blocks are taken in turn."""
        if self._write_offsets and self.spec.read_percent > 0:
            raise EngineError("a library's path reads or writes, not both: use another workload", errno.ENOTSUP)
        calls = []
        if self._write_offsets:
            places = [(self._drawn + n) % len(self._write_offsets) for n in range(ios)]
            found = [self._write_offsets[place] for place in places]
        else:
            drawn, _ops = offsets(self._one, 0, self._drawn + ios)
            found = drawn[self._drawn :]
            places = [n % self._in_flight for n in range(ios)]
        self._drawn += ios
        for begin in range(0, ios, self._per_call):
            part = slice(begin, begin + self._per_call)
            at = [place * self._stride for place in places[part]]
            calls.append(Call(bool(self._write_offsets), found[part], at))
        return calls

    def window(self, ios: int) -> Window:
        """One timed stretch of exactly ``ios`` requests; fewer when stopped.

        Raises:
            EngineError: the library broke, or a call did not end before the window's deadline.
        """
        calls = self._calls(ios)
        if not self._write_offsets:
            for place in range(self._in_flight):
                self._memory.write(place * self._stride, _POISON * 512)
                self._memory.write(place * self._stride + self.spec.block - 512, _POISON * 512)
        begin = _now()
        prepared = [self._library.prepare(call) for call in calls]
        self._prepare_ns += _now() - begin
        self._prepared += ios
        try:
            return self._timed(calls, prepared)
        finally:
            for one in prepared:
                self._library.release(one)

    def _timed(self, calls: Sequence[Call], prepared: Sequence[Any]) -> Window:
        stretch = Stretch()
        log = drive(self._library, prepared, self._calls_in_flight, self._stop)
        if self.spec.sync == "end" and self._write_offsets:
            os.fsync(self._fd)
        stretch.end()
        done = len(log.done)
        self._last = list(zip(calls[:done], log.done, strict=True))[-self._calls_in_flight :]
        return self._collect(calls[:done], log, stretch)

    def _collect(self, calls: Sequence[Call], log: _Log, stretch: Stretch) -> Window:
        counts = ("ios", "reads", "writes", "bytes", "errors", "short_ios")
        values: dict[str, Any] = dict.fromkeys(counts, 0) | {"stopped": int(bool(self._stop[0]))}
        self._histograms = {name: Histogram.empty() for name in HISTOGRAMS}
        for index, (call, done) in enumerate(zip(calls, log.done, strict=True)):
            self._count(call, done, values)
            lat = log.ended[index] - log.started[index]
            if not done.error and done.moved == self.spec.block * len(call.offsets):
                for _ in call.offsets:
                    self._histograms["lat"].add(lat)
                    self._histograms["slat"].add(log.posted[index] - log.started[index])
                    self._histograms["clat"].add(log.ended[index] - log.posted[index])
            self._post_ns += log.posted[index] - log.started[index]
            self._posted += len(call.offsets)
            if done.inside_ns is not None:
                self._inside_ns += done.inside_ns * len(call.offsets)
                self._told += len(call.offsets)
        values |= flow(log, [len(call.offsets) for call in calls], self._calls_in_flight)
        return stretch.window(values, gpu=self._memory.gpu)

    def _count(self, call: Call, done: Done, values: dict[str, Any]) -> None:
        requests = len(call.offsets)
        if done.error:
            if not values["errors"]:
                values["first_error"] = -done.error
                values["first_error_op"] = int(call.write)
                values["first_error_offset"] = call.offsets[0]
            values["errors"] += requests
            return
        if done.moved != requests * self.spec.block:
            values["short_ios"] += requests
            return
        values["ios"] += requests
        values["bytes"] += done.moved
        values["writes" if call.write else "reads"] += requests

    def histograms(self) -> dict[str, Histogram]:
        """Latencies of the last window's requests: a call's is that of each request in it.

        Calls are finished in order, so one that ended before its elder is seen late.
        """
        return self._histograms

    def sweep(self) -> Sweep:
        """Check what the last calls left: reads in memory, writes by reading them back."""
        checked = bad = first_bad = 0
        for call, done in self._last:
            if done.error or done.moved != self.spec.block * len(call.offsets):
                continue
            for offset, place in zip(call.offsets, call.places, strict=True):
                content = self._read_back(offset) if call.write else self._memory.read(place, self.spec.block)
                wrong, where = pattern_check(content, offset, self.spec.pattern_seed)
                checked += 1
                if wrong and not bad:
                    first_bad = where
                bad += bool(wrong)
        return Sweep(checked, bad, first_bad)

    def _read_back(self, offset: int) -> bytes:
        import mmap

        room = mmap.mmap(-1, stride_of(self.spec.block))  # aligned, as O_DIRECT wants it
        try:
            got = os.preadv(self._fd, [memoryview(room)[: self.spec.block]], offset)
            return room[:got]
        finally:
            room.close()

    @property
    def slots(self) -> int:
        """Buffers of each worker: one for each request in flight."""
        return self.spec.depth

    @property
    def effective_knobs(self) -> frozenset[str]:
        """None: libraries have settings instead, see :meth:`library_values`."""
        return frozenset()

    @property
    def knob_reason(self) -> str:
        """Empty: nothing was asked for."""
        return ""

    @property
    def ring_fds(self) -> tuple[int, ...]:
        """None: a library's rings are its own."""
        return ()

    @property
    def facts(self) -> str:
        """Empty: see :meth:`library_values`."""
        return ""

    def library_values(self) -> dict[str, Any]:
        """Settings in effect and what one request costs before, at and inside the library, in nanoseconds."""
        return {
            "settings": dict(self._library.settings()),
            "requests_per_call": self._per_call,
            "calls_in_flight": self._calls_in_flight,
            "python_ns_per_call": self.python_ns_per_call,
            "prepare_ns": self._prepare_ns / self._prepared if self._prepared else None,
            "post_ns": self._post_ns / self._posted if self._posted else None,
            "transfer_ns": self._inside_ns / self._told if self._told else None,
        }

    def close(self) -> None:
        """Close the library and give the memory back; closing twice does nothing."""
        library, self._library = self._library, None  # type: ignore[assignment]
        if library is not None:
            library.close()
            self._memory.close()
            os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def plain_descriptor(fd: int) -> int:
    """The open file once more, with no flags but those that decide how bytes move.

    cuFile refuses descriptors that were opened with O_NOFOLLOW or O_NOATIME. The link in /proc leads to the open file
    itself, whatever lies at its name by now.
    """
    flags = fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_DIRECT | os.O_DSYNC)
    return os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC)


def open_library(plan: Plan, spec: RunSpec, fd: int, stop: memoryview) -> LibraryRun:
    """The run of a plan whose engine is a library.

    Raises:
        EngineError: the library refuses file or memory. CapabilityMissing: it is not there.
    """
    own = plain_descriptor(fd)
    size = LibraryRun.memory_bytes(spec)
    memory: Memory = GpuMemory(size, plan.gpus[0]) if plan.gpus else HostMemory(size)
    try:
        library = LIBRARIES[plan.engine](plan, own, memory)
    except BaseException:
        memory.close()
        os.close(own)
        raise
    # NIXL takes many pieces in one transfer, KvikIO one.
    per_call = 1 if plan.engine == "kvikio" else plan.qd
    return LibraryRun(spec, library, memory, fd=own, per_call=per_call, stop=stop)


def flow(log: _Log, requests: Sequence[int], calls_in_flight: int) -> dict[str, Any]:
    """Requests in flight counted at post and finish by stamps of its own, over the stretch without ramp and drain."""
    n = len(log.done)
    found: dict[str, Any] = {
        "mean_in_flight": 0.0, "steady_ns": 0, "steady_ios": 0, "steady_lat_ns": 0, "steady_rate": 0.0,
        "max_in_flight": sum(sorted(requests, reverse=True)[:calls_in_flight]),
    }  # fmt: skip
    if n <= calls_in_flight:
        return found
    begin, end = log.counted_in[calls_in_flight - 1], log.counted_in[n - 1]
    if end <= begin:
        return found
    held = sum(requests[i] * max(min(log.counted_out[i], end) - max(log.counted_in[i], begin), 0) for i in range(n))
    inside = [i for i in range(n) if begin < log.counted_out[i] <= end]
    ios = sum(requests[i] for i in inside)
    found |= {
        "mean_in_flight": held / (end - begin),
        "steady_ns": end - begin,
        "steady_ios": ios,
        "steady_lat_ns": sum(requests[i] * (log.ended[i] - log.started[i]) for i in inside),
        "steady_rate": ios * 1e9 / (end - begin),
    }
    return found
