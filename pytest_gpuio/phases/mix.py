"""Composite workloads: several models at once on one target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.records import GROUP_COLUMNS, RECORD_COLUMNS, Records

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def mix(**parts: Records) -> Records:
    """Several models at once: each keeps its groups, chains and ranks, and has its files in a folder of its name.

    Groups are ordered by intended start; untimed parts are dealt out evenly over the others. Stages become
    ``part/stage``.

    Raises:
        ConfigError: nothing is given, or a name is not one of a folder.
    """
    import numpy as np

    if not parts:
        raise ConfigError("a mix needs at least one part.")
    names: list[str] = []
    stages: list[str] = []
    columns: dict[str, list[Any]] = {}
    file_base = group_base = chain_base = 0
    position: list[NDArray[np.float64]] = []
    for name, part in parts.items():
        names += [f"{name}/{file}" for file in part.files.names]
        shifted = {
            "file": part.file + np.uint32(file_base),
            "group": part.group + np.uint32(group_base),
            "chain": part.chain + np.uint32(chain_base),
            "stage": part.stage + np.uint8(len(stages)),
        }
        for column in (*RECORD_COLUMNS, "group", *GROUP_COLUMNS, "rank", "prefetch"):
            columns.setdefault(column, []).append(shifted.get(column, getattr(part, column)))
        columns.setdefault("sizes", []).append(part.files.sizes)
        stages += [f"{name}/{stage}" for stage in part.stages]
        share = np.arange(part.groups) / part.groups
        position.append(part.time_ns.astype(np.float64) if part.timed else share)
        file_base, group_base, chain_base = (
            file_base + len(part.files),
            group_base + part.groups,
            chain_base + part.chains,
        )
    longest = max(part.span_ns for part in parts.values())
    if longest:
        position = [
            where if part.timed else where * longest for where, part in zip(position, parts.values(), strict=True)
        ]
    whole = {name: np.concatenate(column) for name, column in columns.items()}
    order = np.argsort(np.concatenate(position), kind="stable")
    rank_of_group = np.empty(group_base, np.uint32)
    rank_of_group[order] = np.arange(group_base, dtype=np.uint32)
    per_group = {name: whole[name][order] for name in GROUP_COLUMNS}
    return Records.build(
        Files(tuple(names), whole["sizes"]),
        **{name: whole[name] for name in RECORD_COLUMNS},
        group=rank_of_group[whole["group"]],
        **per_group,
        rank=whole["rank"],
        prefetch=whole["prefetch"],
        stages=stages,
    )
