"""The workload: what one phase asks of storage, in numbers that each name their source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pytest_gpuio.core.cell import PHASES
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.phases.durability import Durability

Order = Literal["sequential", "random", "zipf"]
Round = Literal["time", "region"]

_NAME: Final = re.compile(r"(?P<phase>[a-z0-9_]+)/(?P<name>[a-z0-9_]+)", re.ASCII)
#: Every block device addresses in units of at least this many bytes.
_SECTOR: Final = 512


def check_identity(name: str, title: str, source: str, bs: int, qd: int, jobs: int) -> None:
    """What every kind of workload must have.

    Raises:
        ConfigError: naming the workload, and what is wrong.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ConfigError(
            f"workload name {name!r} is malformed. Write it as phase/name in [a-z0-9_]: inference/kv_fetch."
        )
    if match["phase"] not in PHASES:
        raise ConfigError(f"workload {name!r}: phase {match['phase']!r} is none of {', '.join(PHASES)}.")
    if not title.strip():
        raise _refusal(name, "has no title: say in one sentence what it is")
    if not source.strip():
        raise _refusal(name, "has no source: say where its numbers come from")
    if bs <= 0 or bs % _SECTOR:
        raise _refusal(name, f"block size of {describe_size(bs)} is not a multiple of {_SECTOR} bytes")
    if qd < 1 or jobs < 1:
        raise _refusal(name, f"queue depth {qd} and jobs {jobs} must both be at least 1")


def _refusal(name: str, why: str) -> ConfigError:
    return ConfigError(f"workload {name!r}: {why}.")


@dataclass(frozen=True, slots=True)
class Workload:
    """Storage traffic that the engine generates; its numbers are defaults that options may override.

    Attributes:
        name: ``phase/name``.
        title: one sentence for people.
        order: how offsets follow each other: ``sequential``, uniform ``random`` or ``zipf``.
        bs: bytes per request.
        qd: requests in flight per job.
        source: where the numbers come from.
        read_percent: share of reads, 0 .. 100.
        jobs: worker threads.
        durability: default durability of writes, as :meth:`Durability.parse` reads it.
        round: what one window holds: a number of I/Os worth enough ``time``, or one whole pass over the ``region``
            (a model is loaded, a checkpoint is saved).
        zipf_theta: exponent of the popularity of blocks; only with ``order="zipf"``.

    Raises:
        ConfigError: a value that no cell could be made of.
    """

    name: str
    title: str
    order: Order
    bs: int
    qd: int
    source: str
    read_percent: int = 100
    jobs: int = 1
    durability: str = "none"
    round: Round = "time"
    zipf_theta: float | None = None

    def __post_init__(self) -> None:
        check_identity(self.name, self.title, self.source, self.bs, self.qd, self.jobs)
        if self.order not in get_args(Order):
            raise self._refuse(f"order {self.order!r} is none of {', '.join(get_args(Order))}")
        if self.round not in get_args(Round):
            raise self._refuse(f"round {self.round!r} is none of {', '.join(get_args(Round))}")
        if not 0 <= self.read_percent <= 100:
            raise self._refuse(f"{self.read_percent} % of reads is outside 0 .. 100")
        if Durability.parse(self.durability).mode != "none" and not self.writes:
            raise self._refuse(f"only reads, so durability {self.durability!r} means nothing")
        if (self.zipf_theta is not None) != (self.order == "zipf"):
            raise self._refuse(f"zipf_theta {self.zipf_theta} does not go with order {self.order!r}")
        if self.zipf_theta is not None and not 0.0 < self.zipf_theta <= 5.0:
            raise self._refuse(f"zipf_theta {self.zipf_theta} is outside 0 .. 5")
        if self.round == "region" and self.order != "sequential":
            raise self._refuse("a window that is one pass over the region needs order 'sequential'")

    def _refuse(self, why: str) -> ConfigError:
        return _refusal(self.name, why)

    @property
    def spelling(self) -> str:
        """As marks, options and case keys have it: its name, since it has no parameters."""
        return self.name

    @property
    def phase(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    @property
    def writes(self) -> bool:
        """Whether any request is a write."""
        return self.read_percent < 100

    @property
    def needs_write_file(self) -> bool:
        """Whether it runs on the file whose content may change, instead of the one laid out once for reading."""
        return self.writes
