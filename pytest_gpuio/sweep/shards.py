"""A plan's cells dealt out into shards: the same on every host, disjoint, covering, and alike in what they hold."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.sweep.expand import PlannedCell, writes


@dataclass(frozen=True, slots=True)
class Shard:
    """One of ``of`` parts, numbered from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """``2/8``.

        Raises:
            ConfigError: it is none.
        """
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
        if match is None:
            raise ConfigError(f"shard {text!r} is not of the form 1/8: number/count.")
        number, of = int(match[1]), int(match[2])
        if not 1 <= number <= of:
            raise ConfigError(
                f"shard {text}: numbers go from 1 to {max(of, 1)}; an index that counts from 0 (Slurm arrays, "
                "Kubernetes) needs one more: --shard=$((INDEX + 1))/COUNT."
            )
        return cls(number, of)

    def describe(self, cells: Sequence[PlannedCell]) -> dict[str, Any]:
        """What a journal says of this part: ``number``, ``of``, and of the whole plan ``plan_cells`` and ``digest``."""
        return {"number": self.number, "of": self.of, "plan_cells": len(cells), "digest": digest(cells)}

    def part(self, cells: Sequence[PlannedCell]) -> list[PlannedCell]:
        """This shard's cells, in the order given.

        Cells are dealt like cards, sorted by target, data path and whether they write: of each such kind, and in all,
        two shards differ by one cell at most. Only the cells themselves decide, so every host that expands a plan
        alike deals alike.
        """
        order = sorted(range(len(cells)), key=lambda index: _rank(cells[index]))
        mine = set(order[self.number - 1 :: self.of])
        return [planned for index, planned in enumerate(cells) if index in mine]


def _rank(planned: PlannedCell) -> tuple[str, str, bool, str, str, str]:
    cell = planned.cell
    return cell.target, cell.datapath, writes(cell), planned.environment, cell.case, planned.arrivals


def digest(cells: Iterable[PlannedCell]) -> str:
    """What a plan expanded to, whatever the order: shards of different digests are of different plans."""
    names = sorted(f"{planned.cell.case} {planned.arrivals} {planned.environment}" for planned in cells)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
