"""A plan as a job of fio: what can be matched, and one sentence for each thing that cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.measure.plan import Plan

_ENGINES: Final[Mapping[str, tuple[str, ...]]] = {
    "null": ("--ioengine=null",),
    "psync": ("--ioengine=psync",),
    "libaio": ("--ioengine=libaio",),
    "mmap": ("--ioengine=mmap",),
    "io_uring": ("--ioengine=io_uring",),
    "io_uring_sqpoll": ("--ioengine=io_uring", "--sqthread_poll=1"),
    "io_uring_iopoll": ("--ioengine=io_uring", "--hipri=1"),
    "io_uring_full": ("--ioengine=io_uring", "--sqthread_poll=1", "--hipri=1"),
    "io_uring_cmd": ("--ioengine=io_uring_cmd", "--cmd_type=nvme"),
}
_KNOBS: Final = {"fixed_buffers": "--fixedbufs=1", "registered_files": "--registerfiles=1"}
#: Smallest anonymous mapping that can hold a huge page.
_HUGE: Final = 2 << 20


@dataclass(frozen=True, slots=True)
class FioJob:
    """A job to run.

    Attributes:
        arguments: of fio. environment: variables it needs.
        unmatched: what differs from our side, in sentences.
        seconds: ramp and timed window together. jobs: its threads.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    unmatched: tuple[str, ...] = ()
    seconds: float = 0.0
    jobs: int = 1


def fio_job(plan: Plan, seconds: float, *, ramp_s: float = 0.5, huge_buffers: bool = True) -> FioJob:
    """The job that does what a plan does.

    Args:
        plan: ours.
        seconds: timed window.
        ramp_s: untimed run before it, in the place of our warm-up.
        huge_buffers: ask the C library for huge pages where ours are on them; False = fio's default buffers.

    Raises:
        ConfigError: the plan has something that fio cannot do in a comparable way.
    """
    _refuse(plan)
    unmatched: list[str] = []
    arguments = ["--name=gpuio", "--thread", "--group_reporting", f"--numjobs={plan.jobs}", *_ENGINES[plan.engine]]
    arguments += [
        f"--bs={plan.bs}",
        f"--iodepth={plan.qd}",
        f"--iodepth_batch_submit={plan.submit_batch}",
        f"--iodepth_batch_complete_min={plan.reap_batch}",
        f"--iodepth_batch_complete_max={plan.qd}",
        "--time_based",
        f"--runtime={round(seconds * 1e3)}ms",
        f"--ramp_time={round(ramp_s * 1e3)}ms",
        # Total latency alone: clat of fio starts after submission, which differs by engine.
        "--lat_percentiles=1",
        "--clat_percentiles=0",
        "--slat_percentiles=0",
    ]
    arguments += _pattern(plan, unmatched)
    arguments += _file(plan)
    arguments += _placement(plan, unmatched)
    if plan.engine.startswith("io_uring"):
        arguments += [_KNOBS[knob] for knob in plan.knobs if knob in _KNOBS]
        if "merged_wait" in plan.knobs:
            unmatched.append("ours submits and waits in one system call (merged_wait); fio makes two")
    environment: dict[str, str] = {}
    if not huge_buffers:
        unmatched.append("fio's buffers are its default: pages of 4 KiB; ours are on huge pages")
    elif plan.in_flight * plan.bs >= _HUGE:
        # fio has no option for transparent huge pages, but its C library can be told to ask for them.
        environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    elif plan.engine != "null":
        unmatched.append(
            f"fio's {plan.in_flight * plan.bs:,} bytes of buffers are on pages of 4 KiB: it can have huge pages only "
            "from 2 MiB on; ours are on huge pages"
        )
    return FioJob(tuple(arguments), environment, tuple(unmatched), seconds + ramp_s, plan.jobs)


def _refuse(plan: Plan) -> None:
    if plan.engine not in _ENGINES:
        raise ConfigError(f"fio has nothing like the engine {plan.engine}: crosscheck one of {', '.join(_ENGINES)}.")
    if plan.cache == "cold":
        raise ConfigError("a cold cache cannot be compared: fio empties it once, ours before each window. Use direct.")
    if plan.open_loop:
        raise ConfigError("an open loop cannot be compared: fio's rate options keep no absolute schedule at depth.")
    if plan.order == "zipf":
        raise ConfigError("zipf offsets cannot be compared: fio draws other blocks for the same exponent.")


def _pattern(plan: Plan, unmatched: list[str]) -> list[str]:
    random = plan.order == "random"
    arguments = []
    if plan.read_percent == 100:
        arguments += ["--rw=randread" if random else "--rw=read", "--readonly"]
    elif plan.read_percent == 0:
        arguments += ["--rw=randwrite" if random else "--rw=write"]
    else:
        arguments += ["--rw=randrw" if random else "--rw=rw", f"--rwmixread={plan.read_percent}"]
        arguments += ["--unified_rw_reporting=mixed"]
    if random:
        # Every block once before any comes twice, as ours does; cheaper for fio than its default map of blocks.
        arguments += ["--random_generator=lfsr", f"--randseed={plan.seed}"]
    share = plan.region_bytes // plan.jobs // plan.bs * plan.bs
    arguments += [f"--size={share}", f"--offset={plan.region_offset}"]
    if plan.jobs > 1:
        arguments += [f"--offset_increment={share}"]
        if random:
            unmatched.append("each job of fio has its own part of the region; ours share it without meeting")
    if plan.verify == "full":
        unmatched.append("ours checks every read inside the window (--verify=full); fio does not")
    return arguments


def _file(plan: Plan) -> list[str]:
    if plan.path is None:
        return []
    arguments = [f"--filename={_escaped(plan.path)}", "--allow_file_create=0"]
    arguments += ["--direct=1"] if plan.cache == "direct" else ["--direct=0", "--invalidate=0"]
    if plan.sync == "end":
        arguments += ["--end_fsync=1"]
    elif plan.sync == "every":
        arguments += [f"--fdatasync={plan.sync_every}"]
    if plan.dsync:
        arguments += ["--sync=dsync"]
    return arguments


def _escaped(path: str) -> str:
    """A file name as fio reads it: ``:`` separates files."""
    return path.replace("\\", "\\\\").replace(":", "\\:")


def _placement(plan: Plan, unmatched: list[str]) -> list[str]:
    arguments = []
    if plan.cpus and -1 not in plan.cpus:
        arguments += [f"--cpus_allowed={','.join(map(str, plan.cpus))}", "--cpus_allowed_policy=split"]
    if plan.sq_cpus:
        arguments += [f"--sqthread_poll_cpu={plan.sq_cpus[0]}"]
        if len(plan.sq_cpus) > 1:
            unmatched.append("fio has one CPU for the pollers of all jobs; ours has one for each")
    return arguments
