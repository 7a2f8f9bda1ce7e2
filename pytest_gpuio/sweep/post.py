"""What one rank of several is to the run: its place, its targets, its share of CPUs and GPUs, and its session."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.spdk_address import spdk_address
from pytest_gpuio.machine import affinity
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.measure.merge import RankPart
from pytest_gpuio.measure.prepare import Subject
from pytest_gpuio.measure.session import Observation, Session
from pytest_gpuio.media import Medium, classify
from pytest_gpuio.phases import RecordModel
from pytest_gpuio.sweep.wire import Peer, Wire
from pytest_gpuio.targets import target_file


@dataclass(frozen=True, slots=True)
class Post:
    """What a rank is to the run: everything it needs before the first cell.

    Attributes:
        peers: all ranks. local: this one's place among the ranks of its machine. locals: how many they are.
        effort: of each cell. targets: paths as the user named them. media: rank 0's media by target.
        lock_timeout_s: seconds to wait for the host-wide lock.
        session: number of the session, since a run may have several. env: variables of its measuring children.
    """

    peers: tuple[Peer, ...]
    local: int
    locals: int
    effort: Effort
    targets: Mapping[str, str]
    media: Mapping[str, str]
    lock_timeout_s: float
    session: int
    env: Mapping[str, str] | None


def target_of(path: Path, *, rank: int, local: int, several: bool) -> Path:
    """Where a rank measures: ``{rank}``, ``{local_rank}``, ``{host}`` filled in, else in a folder of its own.

    Args:
        path: as the user named it.
        rank: number.
        local: number among the ranks of its machine.
        several: other ranks of this machine measure, too.

    Raises:
        ConfigError: ranks of one machine would share a file or device.
    """
    text = str(path)
    named = text
    for word, value in (("rank", str(rank)), ("local_rank", str(local)), ("host", socket.gethostname())):
        named = named.replace("{" + word + "}", value)
    if named != text or spdk_address(path) is not None:
        return Path(named)
    file = target_file(path, writes=False)
    if file == path:
        if several:
            raise ConfigError(
                f"{path} would be shared by several ranks of {socket.gethostname()}: write {{rank}} or {{local_rank}} "
                "into --gpuio-target, start one rank per host, or name a folder."
            )
        return path
    return path / f"rank-{rank:04d}"


def take_cpus(wire: Wire, local: int, locals_: int) -> None:
    """Ranks of one machine divide up, once, the CPUs they may use; a CPU is shared where there are too few."""
    available = sorted(affinity())
    if locals_ < 2 or not available or wire.placed:
        return
    wire.placed = True
    mine = available[local::locals_] or [available[local % len(available)]]
    os.sched_setaffinity(0, mine)


def _effort_of(effort: Effort, local: int, locals_: int) -> Effort:
    """Ranks of one machine divide up the GPUs that the user named, where there is one for each."""
    if len(effort.gpus) < locals_:
        return effort
    return replace(effort, gpus=effort.gpus[local::locals_])


class OneOfMany(Session):
    """A session that measures on one of several ranks."""

    def __init__(self, wire: Wire, post: Post, media: Mapping[str, Medium], targets: Mapping[str, Path]) -> None:
        super().__init__(_effort_of(post.effort, post.local, post.locals), targets, media, post.env)
        self.wire, self.post = wire, post
        for path in targets.values():
            if path.name == f"rank-{wire.rank:04d}":
                path.mkdir(parents=True, exist_ok=True)

    def part(self, found: Observation) -> RankPart:
        """What this rank tells the others of a cell."""
        me, plan = self.wire.peers[self.wire.rank], found.seen.plan
        return RankPart(me.rank, me.host, me.machine, found.seen.outcome, plan.path or "(none)", plan.counted)

    def subject_here(self, subject: Subject) -> Subject:
        """The subject with this rank's share of a model's ranks: ``first`` counts on from rank to rank.

        Raises:
            ConfigError: the model has too few ranks.
        """
        model, rank = subject.workload, self.wire.rank
        names = {parameter.name for parameter in model.all_parameters} if isinstance(model, RecordModel) else set()
        if not isinstance(model, RecordModel) or rank == 0 or not {"first", "ranks"} <= names:
            return subject
        values = model.values
        moved = model.with_values({"first": int(values["first"]) + rank * int(values["ranks"])})
        return replace(subject, workload=moved)


def media_here(wire: Wire, post: Post) -> tuple[dict[str, Path], dict[str, Medium]]:
    """This rank's targets, and what they lie on.

    Raises:
        ConfigError: another medium than rank 0's.
    """
    targets = {
        name: target_of(Path(path), rank=wire.rank, local=post.local, several=post.locals > 1)
        for name, path in post.targets.items()
    }
    media = {name: classify(path) for name, path in targets.items()}
    for name, medium in media.items():
        if medium.name != post.media[name]:
            raise ConfigError(
                f"target {name} lies on {post.media[name]} on rank 0 and on {medium.name} here ({targets[name]}): "
                "cells of several ranks need one class of medium."
            )
    return targets, media
