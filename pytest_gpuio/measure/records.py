"""Parent side of a model's records: from the model to what a window issues, in the engine's own arrays."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pytest_gpuio.core.errors import CapabilityMissing, ConfigError, TargetError
from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.datapaths import DataPath
from pytest_gpuio.engine.replay import RESULTS
from pytest_gpuio.measure.libraries import LIBRARIES
from pytest_gpuio.measure.plan import RankPart, ReplayFile, ReplayPlan
from pytest_gpuio.measure.replay import most_files
from pytest_gpuio.targets import raw_device

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_gpuio.core.cell import Cell
    from pytest_gpuio.phases import RecordModel
    from pytest_gpuio.phases.records import Records

#: Whole sectors are what written data can be verified in.
_SECTOR: Final = 512
#: Share of a cell's time that one pass of a timed model may take, so that there are passes to compare.
_PASSES: Final = 3
#: Processes at the same time.
_MOST_RANKS: Final = 64
#: Engines that know one file or device only.
_OTHER_ENGINES: Final = ("io_uring_cmd", "dax", "spdk")


@dataclass(frozen=True, slots=True, eq=False)
class ReplaySet:
    """What one window issues.

    Attributes:
        model: with its parameters. records: split, rounded to what the path needs, and cut to what fits the time.
        all_groups: groups of the whole model, of which ``records`` may be the first ones.
        wanted_bytes: of those records, as the application asks for them; more are moved where they must be rounded.
        largest: bytes of the largest record of the application, before it was split.
    """

    model: RecordModel
    records: Records
    all_groups: int
    wanted_bytes: int
    largest: int

    @property
    def processes(self) -> int:
        """One for each rank; one for all when ranks share a clock of intended starts, are many, or do nothing."""
        import numpy as np

        ranks = self.records.ranks
        busy = len(np.unique(self.records.rank[self.records.chain])) == ranks
        return ranks if busy and ranks <= _MOST_RANKS and not self.records.timed else 1


def check_model(model: RecordModel, cell: Cell, path: DataPath, folder: Path) -> None:
    """Refuse what no model can run on, before anything is computed or written.

    Raises:
        CapabilityMissing: the data path cannot replay records, or the target is no directory.
    """
    if path.framework and model.objects is None:
        raise CapabilityMissing(
            f"{path.name} saves and loads whole files of an application: it has no part in {cell.workload}; try "
            "pretrain/checkpoint_ranks, pretrain/checkpoint_restore or inference/cold_start."
        )
    if path.framework and model.objects is not None:
        model.objects(model.values)  # what it cannot do with these parameters it says
    if path.engine in (*_OTHER_ENGINES, *LIBRARIES) or path.cufile is not None:
        raise CapabilityMissing(f"{path.name} does not replay records: use another data path for {cell.workload}.")
    target = folder.parent.parent
    if path.moves_data and target.exists() and not target.is_dir():
        what = "a raw device" if raw_device(target) is not None else "a file"
        raise CapabilityMissing(
            f"{cell.workload} lays out several files: name a directory as --gpuio-target, not {what}."
        )


def make_set(model: RecordModel, cell: Cell, alignment: int | None, max_time: float) -> ReplaySet:
    """The records of a model as a cell issues them.

    Args:
        model: with its parameters.
        cell: its block size is the largest request; direct I/O is rounded to the alignment.
        alignment: of direct I/O in bytes; None = unknown, or not direct.
        max_time: seconds of measured windows; a timed model is cut so that it fits several times.

    Raises:
        ConfigError: the parameters do not go together, or the block size is no multiple of the alignment.
    """
    whole = records_of(model)
    part = _fitting(whole, max_time)
    unit = alignment or 1
    if cell.bs % max(unit, _SECTOR if model.writes else 1):
        raise ConfigError(
            f"requests of at most {describe_size(cell.bs)} are no multiple of the {max(unit, _SECTOR)} bytes that "
            f"{cell.workload} needs here: use another --gpuio-bs."
        )
    rounded = part.aligned(unit, writes=max(unit, _SECTOR))
    limit = most_files()
    if len(rounded.files) > limit:
        raise ConfigError(
            f"{cell.workload} has {len(rounded.files):,} files and a process may open {limit:,}: use a smaller "
            "--gpuio-scale, or raise ulimit -n."
        )
    return ReplaySet(model, rounded.split(cell.bs), whole.groups, part.bytes_of(), int(part.length.max()))


def model_gpus(cell: Cell, allowed: tuple[int, ...], processes: int) -> tuple[int, ...]:
    """The GPU of each worker of a model: ranks take the cell's GPUs in turn, a rank's workers share one; empty = host.

    Args:
        cell: with the number of GPUs.
        allowed: their ordinals; empty = from 0.
        processes: of ranks.

    Raises:
        CapabilityMissing: more GPUs than processes.
    """
    if cell.gpus > processes:
        raise CapabilityMissing(
            f"{cell.workload} runs in {processes} process(es) here, one for each rank with records of its own, and "
            f"each has one GPU: use --gpuio-gpus={processes} instead of {cell.gpus}."
        )
    ordinals = allowed or tuple(range(cell.gpus))
    return tuple(ordinals[rank % cell.gpus] for rank in range(processes) for _ in range(cell.jobs)) if cell.gpus else ()


def kernel_step(replay: ReplaySet, gpus: int) -> int:
    """Nanoseconds of a usual compute, if kernels can do them all: each process has one chain that computes and a GPU.

    Kernels of several chains on one GPU would slow each other down, and no step would take the time it was given.

    Args:
        replay: the records.
        gpus: of the cell; 0 = host memory.

    Returns:
        0: computing is time that passes.
    """
    import numpy as np

    records = replay.records
    computes = records.compute_ns > 0
    chains = np.unique(records.chain[computes])
    if not gpus or not len(chains) or replay.processes > gpus:
        return 0
    alone = len(np.unique(records.rank[chains])) == len(chains) if replay.processes > 1 else len(chains) == 1
    return int(np.median(records.compute_ns[computes])) if alone else 0


def _fitting(whole: Records, max_time: float) -> Records:
    """The beginning of a timed model that fits several times into the time of a cell; all of an untimed one."""
    import numpy as np

    if not whole.timed or whole.span_ns <= max_time / _PASSES * 1e9:
        return whole
    # Times ascend: what starts within the time is a beginning. Untimed groups belong to the chain before them.
    late = whole.time_ns > whole.time_ns[whole.time_ns >= 0][0] + max_time / _PASSES * 1e9
    end = int(np.argmax(late)) if late.any() else whole.groups
    return whole.only_groups(slice(0, max(end, 1)))


def records_of(model: RecordModel) -> Records:
    """The model's records; those of the last one asked for are kept, as every data path replays the same.

    Raises:
        ConfigError, TraceError, CapabilityMissing: as the model.
    """
    file = str(model.values.get("file", ""))
    try:
        status = os.stat(file) if file else None  # noqa: PTH116 - a name, not a path of ours
    except OSError:
        status = None  # the model says what is wrong with it
    return _built(model, None if status is None else (status.st_mtime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=1)
def _built(model: RecordModel, _version: tuple[int, int, int] | None) -> Records:
    return model.records()


@dataclass(frozen=True, slots=True)
class Projection:
    """What a replay of a trace will be, before it is begun.

    Attributes:
        groups: of the whole trace. reads, writes: requests. read_bytes, write_bytes: of them.
        file_bytes: that are laid out. span_s: from the first to the last intended start; None = it has no times.
        pass_groups: that one pass replays. pass_s: how long the schedule of a pass lasts. max_time: for all of it.
    """

    groups: int
    reads: int
    writes: int
    read_bytes: int
    write_bytes: int
    file_bytes: int
    span_s: float | None
    pass_groups: int
    pass_s: float
    max_time: float


def project(model: RecordModel, max_time: float) -> Projection:
    """What a replay will take; the records are built for it.

    Args:
        model: with its parameters.
        max_time: seconds of measured windows.

    Raises:
        ConfigError, TraceError, CapabilityMissing: as the model.
    """
    whole = records_of(model)
    part = _fitting(whole, max_time)
    return Projection(
        groups=whole.groups,
        reads=int((whole.op == 0).sum()),
        writes=int((whole.op == 1).sum()),
        read_bytes=whole.bytes_of(0),
        write_bytes=whole.bytes_of(1),
        file_bytes=whole.files.bytes,
        span_s=whole.span_ns / 1e9 if whole.timed else None,
        pass_groups=part.groups,
        pass_s=part.span_ns / 1e9,
        max_time=whole.span_ns / 1e9 * _PASSES,
    )


def folder_of(target: Path, model: RecordModel) -> Path:
    """Where a model's files lie: of their own, below the target."""
    return target / "models" / model.name.replace("/", "-")


def encode(records: Records, files: Sequence[ReplayFile]) -> tuple[bytes, bytes]:
    """Records and groups as :mod:`pytest_gpuio.engine.replay` lays them out; offsets count from the files' data."""
    import numpy as np

    base = np.array([file.data_offset for file in files], np.uint64)
    flat = np.zeros(
        len(records), np.dtype([("offset", "<u8"), ("length", "<u4"), ("file", "<u2"), ("op", "u1"), ("flags", "u1")])
    )
    flat["offset"] = np.where(records.op == 2, 0, records.offset + base[records.file])
    flat["length"], flat["file"], flat["op"], flat["flags"] = records.length, records.file, records.op, records.barrier
    groups = np.zeros(
        records.groups,
        np.dtype([("first", "<u8"), ("time", "<i8"), ("compute", "<u8"), ("chain", "<u4"), ("prefetch", "<u4")]),
    )
    groups["first"], groups["time"], groups["compute"] = records.first[:-1], records.time_ns, records.compute_ns
    groups["chain"], groups["prefetch"] = records.chain, records.prefetch[records.chain]
    return flat.tobytes(), groups.tobytes()


class Exchange:
    """A folder in memory through which parent and child hand arrays; removed at the end."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        parent = str(memory) if os.access(memory, os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="gpuio-records-", dir=parent))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def plan(
        self, replay: ReplaySet, files: Sequence[ReplayFile], folder: Path | None = None, gpus: int = 0
    ) -> ReplayPlan:
        """Write the arrays, and say where they are.

        Args:
            replay: what is issued.
            files: that it is about.
            folder: where a framework has its files; None = none has a part in it.
            gpus: of the cell.


        Raises:
            TargetError: there is no room for them.
        """
        records = replay.records
        paths = [self.folder / name for name in ("records", "groups", "results")]
        try:
            for path, data in zip(paths, (*encode(records, files), b""), strict=True):
                path.write_bytes(data)
        except OSError as error:
            raise TargetError(f"{len(records):,} I/O records cannot be written to {self.folder}: {error}.") from error
        moves = int((records.op != 2).sum())
        if not moves:
            raise ConfigError(f"{replay.model.spelling} reads and writes nothing.")
        parts = (
            tuple(self._part(replay, files, rank) for rank in range(replay.processes)) if replay.processes > 1 else ()
        )
        return ReplayPlan(
            parts=parts,
            objects="" if folder is None else str(self._objects(replay, folder)),
            records=str(paths[0]),
            groups=str(paths[1]),
            results=str(paths[2]),
            files=tuple(files),
            chains=records.chains,
            groups_count=records.groups,
            concurrency=replay.model.concurrency,
            ios=moves,
            bytes=records.bytes_of(),
            timed=records.timed,
            least_s=(records.span_ns + int(records.compute_ns.sum())) / 1e9,
            kernel_ns=kernel_step(replay, gpus),
        )

    def _objects(self, replay: ReplaySet, folder: Path) -> Path:
        """What a framework saves or loads, and how many of the model's requests each rank's part stands for."""
        import numpy as np

        model, records = replay.model, replay.records
        assert model.objects is not None
        objects = model.objects(model.values)
        of_record = records.rank[records.chain[records.group]]
        ios = np.bincount(of_record[records.op != 2], minlength=records.ranks).tolist()
        path = self.folder / "objects"
        told = {"objects": objects.as_json(), "folder": str(folder), "ios": ios}
        path.write_text(json.dumps(told), encoding="utf-8")
        return path

    def _part(self, replay: ReplaySet, files: Sequence[ReplayFile], rank: int) -> RankPart:
        import numpy as np

        mine = replay.records.rank[replay.records.chain] == rank
        part = replay.records.only_groups(mine)
        paths = [self.folder / f"{name}{rank}" for name in ("records", "groups", "numbers")]
        numbers = np.flatnonzero(mine).astype(np.uint32).tobytes()
        for path, data in zip(paths, (*encode(part, files), numbers), strict=True):
            path.write_bytes(data)
        return RankPart(str(paths[0]), str(paths[1]), str(paths[2]), part.chains)

    def results(self, groups: int) -> NDArray[np.uint64]:
        """Due, start, end, consumption and compute of every group in each window; shape (windows, groups, 5)."""
        import numpy as np

        return np.fromfile(self.folder / "results", np.uint64).reshape(-1, groups, RESULTS)


def laid_files(laid: Mapping[str, Any]) -> tuple[ReplayFile, ...]:
    """The files that the child laid out."""
    return tuple(ReplayFile(**file) for file in laid["files"])


def no_files(records: Records) -> tuple[ReplayFile, ...]:
    """Stand for the files of a path that moves no data."""
    return tuple(ReplayFile("", 0, int(size), 0) for size in records.files.sizes)
