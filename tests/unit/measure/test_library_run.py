"""Windows of a library's path: a stand-in library for our own logic, and the real NIXL where it is installed."""

import errno
import mmap
import os

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import RunSpec, offsets, pattern_fill
from pytest_gpuio.measure.libraries.calls import Call, Done
from pytest_gpuio.measure.libraries.memory import HostMemory, stride_of
from pytest_gpuio.measure.libraries.run import LibraryRun, NoLibrary, _Log, drive, flow

MIB = 1 << 20
SEED = 7


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "target"
    content = mmap.mmap(-1, 4 * MIB)
    pattern_fill(content, 0, SEED)
    path.write_bytes(content)
    fd = os.open(path, os.O_RDWR)
    yield fd
    os.close(fd)


class StandInLibrary:
    """Moves bytes with pread and pwrite; the nth call can be made to fail, be short, or bring wrong data."""

    def __init__(self, fd, memory, block, **faults):
        self.fd, self.memory, self.block, self.faults = fd, memory, block, faults
        self.posted = self.open = self.most = 0
        self.prepared = 0
        self.log = []

    def prepare(self, call):
        self.prepared += 1
        return call

    def post(self, call):
        self.open += 1
        self.most = max(self.most, self.open)
        self.posted += 1
        self.log.append(call)
        return call, self.posted

    def finish(self, posted):
        call, number = posted
        self.open -= 1
        if number == self.faults.get("fails"):
            return Done(0, errno.EIO)
        if number == self.faults.get("late"):
            raise EngineError("not over within 1 s", errno.ETIMEDOUT)
        for offset, place in zip(call.offsets, call.places, strict=True):
            if call.write:
                os.pwrite(self.fd, self.memory.read(place, self.block), offset)
                continue
            content = bytearray(os.pread(self.fd, self.block, offset))
            content[100] ^= number == self.faults.get("wrong")
            self.memory.write(place, content)
        moved = self.block * len(call.offsets)
        return Done(moved - (512 if number == self.faults.get("short") else 0), inside_ns=1000)

    def release(self, _call):
        self.prepared -= 1

    def settings(self):
        return {"library": "stand-in"}

    def close(self):
        self.closed = True


def open_run(fd, *, depth=8, jobs=1, per_call=1, read_percent=100, block=4096, stop=None, **faults):
    spec = RunSpec(
        engine="nixl_posix", fd=fd, jobs=jobs, depth=depth, block=block, order="random", read_percent=read_percent,
        region_bytes=4 * MIB, seed=3, pattern_seed=SEED,
    )  # fmt: skip
    memory = HostMemory(LibraryRun.memory_bytes(spec))
    library = StandInLibrary(fd, memory, block, **faults)
    stop = memoryview(bytearray(4)).cast("I") if stop is None else stop
    return LibraryRun(spec, library, memory, fd=os.dup(fd), per_call=per_call, stop=stop), library


@pytest.mark.parametrize(
    ("depth", "jobs", "per_call", "calls"), [(8, 1, 1, 8), (8, 2, 8, 2), (1, 4, 1, 4), (5, 1, 3, 1)]
)
def test_depth_is_kept_and_every_request_is_counted(target, depth, jobs, per_call, calls):
    run, library = open_run(target, depth=depth, jobs=jobs, per_call=per_call)
    with run:
        window = run.window(200)
        assert (window.ios, window.reads, window.writes, window.bytes) == (200, 200, 0, 200 * 4096)
        assert (window.errors, window.short_ios, window.stopped) == (0, 0, 0)
        assert library.most == calls
        assert run.histograms()["lat"].count == 200
        swept = run.sweep()
        assert 0 < swept.checked <= depth * jobs
        assert swept.bad == 0
        values = run.library_values()
        assert (values["calls_in_flight"], values["requests_per_call"]) == (calls, per_call)
        assert values["transfer_ns"] == 1000
        assert values["python_ns_per_call"] > 0
    assert library.closed
    assert library.prepared == 0


def test_offsets_go_on_from_window_to_window_as_the_engine_draws_them(target):
    run, library = open_run(target)
    with run:
        run.window(64)
        run.window(64)
    asked = [offset for call in library.log for offset in call.offsets]
    spec = RunSpec("psync", fd=target, block=4096, order="random", region_bytes=4 * MIB, seed=3)
    assert asked == offsets(spec, 0, 128)[0]


def test_written_blocks_hold_what_belongs_there(target):
    run, library = open_run(target, read_percent=0, block=8192)
    os.ftruncate(target, 0)
    os.ftruncate(target, 4 * MIB)
    with run:
        window = run.window(100)
        assert (window.writes, window.reads) == (100, 0)
        swept = run.sweep()
        assert (swept.checked, swept.bad) == (8, 0)
        os.pwrite(target, b"x", library.log[-1].offsets[0] + 700)
        swept = run.sweep()
        assert swept.bad == 1
        assert swept.first_bad_offset == library.log[-1].offsets[0] + 512


def test_failed_short_and_wrong_calls_are_told_apart(target):
    run, library = open_run(target, depth=4, per_call=2, fails=3)
    with run:
        window = run.window(20)
        assert (window.ios, window.errors, window.first_error, window.first_error_op) == (18, 2, -errno.EIO, 0)
        assert window.first_error_offset == library.log[2].offsets[0]
        assert run.histograms()["lat"].count == 18
    run, _library = open_run(target, short=5)
    with run:
        assert run.window(20).short_ios == 1
    run, library = open_run(target, depth=2, wrong=20)
    with run:
        run.window(20)
        swept = run.sweep()
        assert (swept.checked, swept.bad, swept.first_bad_offset) == (2, 1, library.log[-1].offsets[0])


def test_data_of_a_former_window_does_not_pass(target):
    run, _library = open_run(target, depth=4)
    with run:
        run.window(40)
        for place in range(4):
            head = run._memory.read(place * stride_of(4096), 512)
            assert head != b"\xdd" * 512
        run._library = NoLibrary()
        run._library.finish = lambda _call: Done(4096)
        run._library.settings = dict
        run._library.close = lambda: None
        run.window(4)
        assert run.sweep().bad == 4


def test_a_late_call_ends_the_run_and_gives_everything_back(target):
    run, library = open_run(target, late=7)
    with run:
        with pytest.raises(EngineError, match="not over within"):
            run.window(50)
        assert library.prepared == 0


def test_the_stop_word_ends_a_window_early(target):
    word = memoryview(bytearray(4)).cast("I")
    run, library = open_run(target, stop=word)
    post = library.post

    def post_and_stop(call):
        word[0] = int(library.posted >= 20)
        return post(call)

    library.post = post_and_stop
    with run:
        window = run.window(1000)
        assert window.stopped == 1
        assert 20 <= window.ios <= 30


def test_mixed_reads_and_writes_are_refused(target):
    run, _library = open_run(target, read_percent=50)
    with run, pytest.raises(EngineError, match="reads or writes, not both"):
        run.window(10)


def test_in_flight_by_hand():
    # Two calls of two requests at a time, each 10 ns long, one after another without a gap.
    log = _Log(
        counted_in=[0, 5, 10, 15, 20], started=[0, 5, 10, 15, 20], posted=[], counted_out=[10, 15, 20, 25, 30],
        ended=[10, 15, 20, 25, 30], done=[Done(1)] * 5,
    )  # fmt: skip
    found = flow(log, [2] * 5, 2)
    # From the second call's start (5) to the last one's (20): always two calls, four requests; three calls ended.
    assert found["mean_in_flight"] == pytest.approx(4.0)
    assert (found["steady_ns"], found["steady_ios"], found["steady_lat_ns"]) == (15, 6, 60)
    assert found["steady_rate"] == pytest.approx(6 / 15e-9)
    assert flow(log, [2] * 5, 5)["steady_ns"] == 0


def test_the_loop_without_a_library_is_what_python_costs():
    log = drive(NoLibrary(), [Call(False, (0,), (0,))] * 10, 3, memoryview(bytearray(4)).cast("I"))
    assert len(log.done) == len(log.posted) == 10
    for index in range(10):
        assert (
            log.counted_in[index]
            <= log.started[index]
            <= log.posted[index]
            <= log.ended[index]
            <= log.counted_out[index]
        )
        if index >= 3:
            assert log.counted_out[index - 3] <= log.counted_in[index]
