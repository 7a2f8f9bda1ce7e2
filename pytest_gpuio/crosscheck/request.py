"""From what a user names to the plan of one comparable cell on a file of ours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_gpuio.core.cell import Cache, Cell
from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.crosscheck.ours import Ours
from pytest_gpuio.datapaths import DataPath
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.prepare import (
    NO_TARGET,
    Subject,
    check_before_layout,
    file_for,
    make_plan,
)
from pytest_gpuio.measure.session import Session
from pytest_gpuio.media import Medium, classify
from pytest_gpuio.phases import Workload

#: Small enough to be laid out in seconds, large enough that a device does not hold it in a buffer.
DEFAULT_BYTES: Final = 1 << 30
_WINDOW_S: Final = 0.25
_TARGET: Final = "default"


@dataclass(frozen=True, slots=True)
class Request:
    """One cell as a user asks for it; None = the workload's own.

    Attributes:
        target: folder or file. path: the data path. workload: its pattern.
        bs, size: bytes. qd: requests in flight per job. jobs: worker threads.
        batch: requests per submit call, completions a reap waits for.
    """

    target: Path
    path: DataPath
    workload: Workload
    bs: int | None = None
    qd: int | None = None
    jobs: int | None = None
    batch: tuple[int, int] = (1, 1)
    cache: Cache = "direct"
    size: int = DEFAULT_BYTES
    seed: int = 1

    def cell(self, medium: Medium) -> Cell:
        """The cell on this medium."""
        depth = 1 if self.path.synchronous and self.qd is None else self.qd or self.workload.qd
        return Cell(
            suite="crosscheck",
            datapath=self.path.name,
            medium=medium.name,
            target=_TARGET,
            workload=self.workload.name,
            bs=self.bs or self.workload.bs,
            qd=depth,
            jobs=self.jobs or self.workload.jobs,
            submit_batch=self.batch[0],
            reap_batch=self.batch[1],
            cache=self.cache if self.cache in self.path.caches else self.path.caches[0],
            durability=self.workload.durability,
        )


def prepare(request: Request, ours: Ours) -> tuple[Plan, Medium]:
    """The plan of a request, with its file laid out.

    Raises:
        CapabilityMissing: the machine or target lacks something.
        ConfigError: the geometry is impossible. TargetError: the target cannot be used.
    """
    medium = classify(request.target)
    effort = Effort(
        profile="crosscheck",
        region_bytes=request.size,
        precision=0.05,
        max_time=1.0,
        window_s=_WINDOW_S,
        seed=request.seed,
        verify="sweep",
    )
    cell = request.cell(medium)
    with Session(effort, {_TARGET: request.target}, {_TARGET: medium}) as session:
        reason = session.missing(cell, request.path)
    if reason is not None:
        raise CapabilityMissing(f"{request.path.name} on {request.target} {reason}")
    subject = Subject(cell, request.path, request.workload)
    file = file_for(request.target, request.workload)
    check_before_layout(subject, file, effort)
    if not request.path.moves_data:
        return make_plan(subject, NO_TARGET, medium, effort), medium
    prepared = ours.lay_out(str(file), request.size)
    # Now that the file is there, its own alignment is known, which may be stricter than its folder's.
    check_before_layout(subject, file, effort)
    return make_plan(subject, prepared, medium, effort), medium
