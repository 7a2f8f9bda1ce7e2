"""Child side of a model's records: its files laid out and opened, its arrays mapped."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_gpuio.core.errors import TargetError, errno_text
from pytest_gpuio.engine import Replay
from pytest_gpuio.measure.plan import Plan, RankPart, ReplayFile, ReplayPlan
from pytest_gpuio.targets import check_space, direct_alignment, lay_out, make_model_folder, open_target

if TYPE_CHECKING:
    from pytest_gpuio.isolation.serve import Emit

#: Descriptors of a child beside the files of a model.
_OTHER_FILES: Final = 100


def most_files() -> int:
    """Files that a process may have open for a model, at the most that the limit can be raised to."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] - _OTHER_FILES


def fixed_ios(plan: Plan, schedule: Sequence[int] | None) -> int | None:
    """I/Os of every window when the plan fixes them: a schedule's, or those of the records; else None."""
    if plan.replay is not None:
        return plan.replay.ios
    return None if schedule is None else len(schedule)


@contextmanager
def opened_files(plan: Plan, replay: ReplayPlan) -> Iterator[tuple[int, ...]]:
    """A descriptor for each file of the model, open as the plan asks; -1 each where nothing of ours opens them."""
    if plan.path is None or replay.objects:
        yield (-1,) * len(replay.files)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < len(replay.files) + _OTHER_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    writable, direct = plan.read_percent < 100, plan.cache == "direct"
    with ExitStack() as stack:
        fds = []
        for file in replay.files:
            fds.append(open_target(file.path, writable=writable, direct=direct, dsync=plan.dsync))
            stack.callback(os.close, fds[-1])
        yield tuple(fds)


def rank_plan(plan: Plan, rank: int) -> Plan:
    """What one of the ranks does: an equal share of the jobs, on CPUs of its own."""
    assert plan.replay is not None
    each = plan.jobs // len(plan.replay.parts)
    mine = slice(rank * each, (rank + 1) * each)
    return replace(plan, jobs=each, cpus=plan.cpus[mine], sq_cpus=plan.sq_cpus[mine], gpus=plan.gpus[mine])


def load_part(replay: ReplayPlan, part: RankPart, fds: tuple[int, ...]) -> Replay:
    """One rank's records as the engine takes them."""
    seeds = tuple(file.pattern_seed for file in replay.files)
    records, groups = Path(part.records).read_bytes(), Path(part.groups).read_bytes()
    return Replay(records, groups, part.chains, fds, seeds, replay.concurrency)


def loaded_replay(replay: ReplayPlan, fds: tuple[int, ...]) -> Replay:
    """The records as the engine takes them, read from their files into memory."""
    seeds = tuple(file.pattern_seed for file in replay.files)
    # Read, not mapped: no page fault of ours inside a window.
    records, groups = Path(replay.records).read_bytes(), Path(replay.groups).read_bytes()
    return Replay(records, groups, replay.chains, fds, seeds, replay.concurrency)


def lay_out_files(folder: str, files: Sequence[Sequence[Any]], emit: Emit, stop: Callable[[], bool]) -> dict[str, Any]:
    """Lay out a model's files below a folder of ours, which is made.

    Args:
        folder: made when its parent is there.
        files: (path relative to it, bytes) pairs.
        emit: takes progress in bytes.
        stop: true ends the work.

    Returns:
        ``files``: a :class:`~pytest_gpuio.measure.plan.ReplayFile` each, as a mapping; and the first one's alignment.

    Raises:
        TargetError: a folder cannot be made, or a file is not ours.
        ConfigError: there is no room for all of them.
    """
    total, done = sum(size for _, size in files), 0
    found: list[dict[str, Any]] = []
    make_model_folder(Path(folder))
    check_space([(str(Path(folder, name)), size) for name, size in files])
    for name, size in files:
        path = Path(folder, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TargetError(f"{path.parent} cannot be made a directory: {errno_text(error.errno or 0)}.") from error

        def progress(part: int, _whole: int, before: int = done) -> None:
            emit("progress", stage="layout", done=before + part, total=total)

        target = lay_out(path, size, progress=progress, stop=stop)
        found.append(asdict(ReplayFile(str(path), target.data_offset, target.data_bytes, target.pattern_seed)))
        done += size
    alignment = direct_alignment(found[0]["path"])
    return {
        "files": found,
        "alignment": None if alignment is None else alignment.offset,
        "memory_alignment": None if alignment is None else alignment.memory,
        "alignment_source": None if alignment is None else alignment.source,
    }
