"""What cells work on: laid out once, refused when it is not any more what it was, and planned with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gpuio.core.errors import TargetError
from pytest_gpuio.isolation import Children
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.measure.families import Progress, ask, child_family
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.prepare import (
    NO_TARGET,
    PreparedTarget,
    Subject,
    check_before_layout,
    file_for,
    make_plan,
    nearest_existing,
    spdk_memory,
)
from pytest_gpuio.measure.records import Exchange, ReplaySet, folder_of, laid_files, make_set, no_files
from pytest_gpuio.media import Medium
from pytest_gpuio.phases import RecordModel
from pytest_gpuio.targets import Identity, check_unchanged, direct_alignment, identify, leftovers

#: A layout that makes no progress for so long is stuck.
_LAYOUT_SILENCE_S = 120.0


class Layouts:
    """The targets of a run, and the files on them.

    Args:
        children: of the run.
        targets: the path of each target name. media: the medium of each.
    """

    def __init__(self, children: Children, targets: Mapping[str, Path], media: Mapping[str, Medium]) -> None:
        self._children = children
        self._targets = targets
        self._media = media
        self._prepared: dict[Path, PreparedTarget] = {}
        #: Files of models by folder, names and sizes.
        self._laid: dict[object, Any] = {}
        self._modelled: list[Path] = []
        self._identities = {name: _identity(path) for name, path in targets.items()}
        #: Children that wait in the kernel for a target's device, and cannot be killed.
        self._waiting: dict[str, frozenset[int]] = {}

    @property
    def modelled(self) -> Sequence[Path]:
        """Targets below which files of models were laid out or found."""
        return tuple(dict.fromkeys(self._modelled))

    @property
    def empty(self) -> bool:
        """Nothing was laid out yet."""
        return not self._prepared

    def stuck(self, target: str, pids: frozenset[int]) -> None:
        """These children wait for the target's device, and outlived being killed."""
        self._waiting[target] = self._waiting.get(target, frozenset()) | pids

    def check(self, name: str) -> None:
        """Refuses a target whose device does not answer, or that is not what it was when the run began.

        Raises:
            TargetError: the text says which.
        """
        path = self._targets[name]
        waiting = self._waiting.get(name, frozenset()) & self._children.given_up
        if waiting:
            raise TargetError(
                f"{path} does not answer: measuring child {', '.join(map(str, sorted(waiting)))} still waits for it in "
                "the kernel and cannot be killed (see dmesg). Its other cells are not tried."
            )
        check_unchanged(path, self._identities.get(name))

    def prepare(self, subject: Subject, effort: Effort, progress: Progress) -> PreparedTarget:
        """The target of a cell, laid out at its first one.

        Raises:
            TargetError: it cannot be used. ConfigError: the cell's geometry is impossible on it.
            ChildDied: laying it out crashed or hung.
        """
        if subject.path.moves_data:
            self.check(subject.cell.target)
        file = file_for(self._targets[subject.cell.target], subject.workload)
        check_before_layout(subject, file, effort)
        if not subject.path.moves_data:
            return NO_TARGET
        prepared = self._prepared.get(file)
        writes = subject.workload.needs_write_file
        unfit = prepared is not None and writes and prepared.foreign_zeros is not None
        if prepared is None or unfit or prepared.data_bytes < effort.region_bytes:
            spdk_mib = None if subject.path.file else spdk_memory(subject.cell, file)
            laid = ask(
                self._children,
                "layout" if spdk_mib is None else child_family(subject.cell, subject.path, file),
                "lay_out",
                {
                    "spdk_mib": spdk_mib,
                    "path": str(file),
                    "data_bytes": effort.region_bytes,
                    "allow_destroy": effort.allow_destroy,
                    "force": effort.force,
                    "writes": writes,
                },
                deadline_s=effort.region_bytes / 5e6 + _LAYOUT_SILENCE_S,
                silence_s=_LAYOUT_SILENCE_S,
                progress=progress,
            )
            prepared = self._prepared[file] = PreparedTarget(**laid)
            # Now that the file is there, its own alignment is known, which may be stricter than its directory's.
            check_before_layout(subject, file, effort)
        return prepared

    def plan_model(
        self,
        subject: Subject,
        exchange: Exchange,
        effort: Effort,
        progress: Progress,
        stack: ExitStack,
        *,
        most_groups: int | None = None,
    ) -> tuple[ReplaySet, PreparedTarget, Plan]:
        """A model's records, its files laid out, and the plan of one pass over all groups or the first ones.

        A framework makes its own files, in a folder that is removed when the stack is closed.
        """
        cell, path, model = subject.cell, subject.path, subject.workload
        assert isinstance(model, RecordModel)
        folder = folder_of(self._targets[cell.target], model)
        check_before_layout(subject, folder, effort)
        alignment = None
        if path.moves_data and (cell.cache == "direct" or path.framework):
            known = direct_alignment(nearest_existing(folder))
            alignment = None if known is None else known.offset
        replay = make_set(model, cell, alignment, effort.max_time)
        if path.framework:
            own = stack.enter_context(leftovers.own_folder(folder, path.name))
            self._modelled.append(self._targets[cell.target])
            prepared = replace(NO_TARGET, path=str(own), data_bytes=replay.records.files.bytes)
            ours = exchange.plan(replay, no_files(replay.records), own)
            return replay, prepared, make_plan(subject, prepared, self._media[cell.target], effort, ours)
        if most_groups is not None:
            # The first groups of one rank: in one process.
            first = replay.records.of_rank(0)
            replay = replace(replay, records=first.only_groups(slice(0, most_groups)).untimed())
        prepared, files = NO_TARGET, no_files(replay.records)
        if path.moves_data:
            names, sizes = replay.records.files.names, [int(size) for size in replay.records.files.sizes]
            key = (folder, names, tuple(sizes))
            self._modelled.append(self._targets[cell.target])
            if key not in self._laid:
                self._laid[key] = ask(
                    self._children,
                    "layout",
                    "lay_out_files",
                    {"folder": str(folder), "files": list(zip(names, sizes, strict=True))},
                    deadline_s=sum(sizes) / 5e6 + len(sizes) + _LAYOUT_SILENCE_S,
                    silence_s=_LAYOUT_SILENCE_S,
                    progress=progress,
                )
            laid = self._laid[key]
            files = laid_files(laid)
            known_of_files = {name: laid[name] for name in ("alignment", "memory_alignment", "alignment_source")}
            data_bytes = sum(file.data_bytes for file in files)
            prepared = PreparedTarget(
                str(folder), files[0].data_offset, data_bytes, files[0].pattern_seed, **known_of_files
            )
        medium = self._media[cell.target]
        return (
            replay,
            prepared,
            make_plan(subject, prepared, medium, effort, exchange.plan(replay, files, gpus=cell.gpus)),
        )


def _identity(path: Path) -> Identity | None:
    """What a target stands for now; None when that cannot be told, as for one whose folder is yet to be made."""
    try:
        return identify(path)
    except OSError:
        return None
