"""Arrays of I/O records, groups and chains: what a workload model or trace asks of storage, as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.phases.files import MOST_OFFSET, Files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# numpy is imported where it is used: the measuring child imports this package and must start without it.

READ: Final = 0
WRITE: Final = 1
#: Makes its file durable; offset and length are 0. A barrier on both sides: it waits for all earlier records of its
#: group, and later ones wait for it.
FSYNC: Final = 2
OPS: Final = ("read", "write", "fsync")
#: Columns with one value per record (``group`` apart), and per group.
RECORD_COLUMNS: Final = ("op", "file", "offset", "length", "barrier", "stage")
GROUP_COLUMNS: Final = ("time_ns", "compute_ns", "apart_ns", "chain")

_MOST_NS: Final = 10**15


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Validated columns; make one with :meth:`build`.

    Groups are numbered in the order in which they should start (times ascend); records lie in the order of their
    groups. The records of a group run concurrently, but one with ``barrier`` waits for all earlier ones of its group.

    A group starts when its chain lets it and, if it has a time, not before. A chain has an emulated consumer (a
    training step, a decoder) that takes its groups in order, each once it has ended, and then computes for
    ``compute_ns``. With ``prefetch`` 0, group j of the chain starts when the compute of group j - 1 has ended; with
    P > 0, when that of group j - P has begun, so that at most P groups are loading or waiting. With compute 0 and
    prefetch 0 a chain is therefore one group after the other. Chains start in the order of their first groups.

    Attributes:
        files: the files.
        op: ``READ``, ``WRITE`` or ``FSYNC``; shape (n,), uint8. file: index; uint32. offset, length: bytes; uint64.
        barrier: it waits for all earlier records of its group; bool. stage: index into ``stages``; uint8.
        group: of each record, ascending from 0 without gaps; uint32.
        time_ns: intended start of each group after the beginning, -1 = as soon as it may; shape (groups,), int64.
        compute_ns: of the step that consumes the group; uint64.
        apart_ns: what the group's request takes beside its I/O, which no window emulates and figures add: the prefill
            that follows a fetch, the copy to the host that precedes a background save; -1 = nothing is known; int64.
        chain: of each group, each from 0 without gaps; uint32.
        rank: of each chain; shape (chains,), uint16. prefetch: groups that may be ahead; uint16.
        stages: names of parts of a model that reports tell apart: ``("prefill", "decode")``.
    """

    files: Files
    op: NDArray[np.uint8]
    file: NDArray[np.uint32]
    offset: NDArray[np.uint64]
    length: NDArray[np.uint64]
    barrier: NDArray[np.bool_]
    stage: NDArray[np.uint8]
    group: NDArray[np.uint32]
    time_ns: NDArray[np.int64]
    compute_ns: NDArray[np.uint64]
    apart_ns: NDArray[np.int64]
    chain: NDArray[np.uint32]
    rank: NDArray[np.uint16]
    prefetch: NDArray[np.uint16]
    stages: tuple[str, ...] = ("all",)

    @classmethod
    def build(
        cls,
        files: Files,
        *,
        offset: ArrayLike,
        length: ArrayLike,
        op: ArrayLike = READ,
        file: ArrayLike = 0,
        group: ArrayLike | None = None,
        barrier: ArrayLike = False,
        stage: ArrayLike = 0,
        time_ns: ArrayLike = -1,
        compute_ns: ArrayLike = 0,
        apart_ns: ArrayLike = -1,
        chain: ArrayLike | None = None,
        rank: ArrayLike = 0,
        prefetch: ArrayLike = 0,
        stages: Sequence[str] = ("all",),
    ) -> Records:
        """Records from columns; each may be one value for all.

        Args:
            files: what the records are about.
            offset: bytes from the file's start, per record.
            length: bytes, per record.
            op: ``READ``, ``WRITE`` or ``FSYNC``, per record.
            file: index, per record.
            group: of each record, in any order; None = each is a group of its own.
            barrier: per record.
            stage: index into ``stages``, per record.
            time_ns: intended start or -1, per group.
            compute_ns: of the step that consumes it, per group.
            apart_ns: of its request beside the I/O, per group; -1 = unknown.
            chain: of each group; None = each group is a chain of its own, so that none waits for another.
            rank: per chain.
            prefetch: per chain.
            stages: names of the stages.

        Raises:
            ConfigError: a value that cannot be run, with its place.
        """
        import numpy as np

        n = np.broadcast(np.atleast_1d(offset), np.atleast_1d(length), *(np.atleast_1d(x) for x in (op, file))).size
        if n == 0:
            raise ConfigError("there are no I/O records: a model needs at least one.")
        of_group = _whole("group", np.arange(n) if group is None else group, n, 0, (1 << 32) - 2, "record")
        columns: dict[str, Any] = {
            "op": _whole("op", op, n, 0, FSYNC, "record").astype(np.uint8),
            "file": _whole("file", file, n, 0, len(files) - 1, "record").astype(np.uint32),
            "offset": _whole("offset", offset, n, 0, MOST_OFFSET, "record").astype(np.uint64),
            "length": _whole("length", length, n, 0, MOST_OFFSET, "record").astype(np.uint64),
            "barrier": np.broadcast_to(np.asarray(barrier, dtype=np.bool_), n),
            "stage": _whole("stage", stage, n, 0, max(len(stages) - 1, 0), "record").astype(np.uint8),
            "group": of_group.astype(np.uint32),
        }
        if np.any(of_group[1:] < of_group[:-1]):
            order = np.argsort(of_group, kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
        groups = int(columns["group"][-1]) + 1
        of_chain = _whole("chain", np.arange(groups) if chain is None else chain, groups, 0, (1 << 32) - 2, "group")
        chains = int(of_chain.max()) + 1
        return cls(
            files,
            **columns,
            time_ns=_whole("time_ns", time_ns, groups, -1, _MOST_NS, "group").astype(np.int64),
            compute_ns=_whole("compute_ns", compute_ns, groups, 0, _MOST_NS, "group").astype(np.uint64),
            apart_ns=_whole("apart_ns", apart_ns, groups, -1, _MOST_NS, "group").astype(np.int64),
            chain=of_chain.astype(np.uint32),
            rank=_whole("rank", rank, chains, 0, 65_535, "chain").astype(np.uint16),
            prefetch=_whole("prefetch", prefetch, chains, 0, 65_535, "chain").astype(np.uint16),
            stages=tuple(stages),
        )

    def __post_init__(self) -> None:
        import numpy as np

        n, groups, chains = len(self.op), len(self.time_ns), len(self.rank)
        for names, size in (
            (("file", "offset", "length", "barrier", "stage", "group"), n),
            (("compute_ns", "apart_ns", "chain"), groups),
            (("prefetch",), chains),
        ):
            for name in names:
                if getattr(self, name).shape != (size,):
                    raise ConfigError(f"column {name} has shape {getattr(self, name).shape}: ({size},) is needed.")
        if n == 0:
            raise ConfigError("there are no I/O records: a model needs at least one.")
        _gapless("group", self.group, groups)
        if np.any(self.group[1:] < self.group[:-1]):
            raise ConfigError("records do not lie in the order of their groups: use Records.build, which sorts them.")
        _gapless("chain", self.chain, chains)
        times = self.time_ns[self.time_ns >= 0]
        if np.any(times[1:] < times[:-1]):
            at = int(np.argmax(times[1:] < times[:-1]))
            raise ConfigError(
                f"a group at {times[at + 1]:,} ns follows one at {times[at]:,} ns: number groups by time."
            )
        self._check_places()
        for column in (
            self.op, self.file, self.offset, self.length, self.barrier, self.stage, self.group, self.time_ns,
            self.compute_ns, self.apart_ns, self.chain, self.rank, self.prefetch,
        ):  # fmt: skip
            column.flags.writeable = False

    def _check_places(self) -> None:
        import numpy as np

        moves = self.op != FSYNC
        empty = moves & (self.length == 0)
        if np.any(empty):
            raise ConfigError(f"record {int(np.argmax(empty)):,} moves 0 bytes: leave it out.")
        size = self.files.sizes[self.file]
        beyond = moves & ((self.length > size) | (self.offset > size - np.minimum(self.length, size)))
        if np.any(beyond):
            at = int(np.argmax(beyond))
            raise ConfigError(
                f"record {at:,} ends at byte {int(self.offset[at]) + int(self.length[at]):,} of "
                f"{self.files.names[int(self.file[at])]}, which has {int(size[at]):,} bytes."
            )

    def __len__(self) -> int:
        return len(self.op)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.time_ns)

    @property
    def chains(self) -> int:
        """Number of chains."""
        return len(self.rank)

    @property
    def ranks(self) -> int:
        """Number of ranks: the highest one and all below it."""
        return int(self.rank.max()) + 1

    @property
    def first(self) -> NDArray[np.int64]:
        """Index of each group's first record, and after them the number of records; shape (groups + 1,)."""
        import numpy as np

        return np.searchsorted(self.group, np.arange(self.groups + 1))

    @property
    def timed(self) -> bool:
        """Open loop: some group has a time."""
        return bool((self.time_ns >= 0).any())

    @property
    def span_ns(self) -> int:
        """From the beginning to the last intended start; 0 when nothing is timed."""
        return max(int(self.time_ns.max()), 0)

    def bytes_of(self, op: int | None = None) -> int:
        """Bytes asked for by records of one op, or by all."""
        return int(self.length.sum() if op is None else self.length[self.op == op].sum())

    @property
    def group_bytes(self) -> NDArray[np.uint64]:
        """Bytes of each group; shape (groups,)."""
        import numpy as np

        return np.add.reduceat(self.length, self.first[:-1])

    @property
    def record_time_ns(self) -> NDArray[np.int64]:
        """Intended start of each record, which is that of its group."""
        return self.time_ns[self.group]

    def faster(self, factor: float) -> Records:
        """The same with all intended starts ``factor`` times as dense; computes stay.

        Raises:
            ConfigError: a factor that is not above 0, or a schedule that would last more than 10^15 ns.
        """
        import numpy as np

        if not 0.0 < factor < float("inf"):
            raise ConfigError(f"time scale {factor:g}: use a number above 0; 2 is twice as fast.")
        if self.span_ns / factor > _MOST_NS:
            raise ConfigError(f"at time scale {factor:g} the schedule lasts {self.span_ns / factor / 1e9:,.0f} s.")
        scaled = np.where(self.time_ns < 0, -1, np.rint(self.time_ns / factor)).astype(np.int64)
        return replace(self, time_ns=scaled)

    def untimed(self) -> Records:
        """The same as a closed loop: each group as soon as it may."""
        import numpy as np

        return replace(self, time_ns=np.full(self.groups, -1, np.int64))

    def unchained(self) -> Records:
        """The same as a closed loop in which no group waits for another: only the depth bounds them."""
        import numpy as np

        return replace(
            self.untimed(),
            chain=np.arange(self.groups, dtype=np.uint32),
            rank=self.rank[self.chain],
            prefetch=np.zeros(self.groups, np.uint16),
        )

    def split(self, most: int) -> Records:
        """The same bytes with no record longer than ``most``; of the pieces only the first keeps a barrier.

        Raises:
            ConfigError: ``most`` below 1.
        """
        import numpy as np

        if most < 1:
            raise ConfigError(f"requests of at most {most} bytes: use 1 or more.")
        if int(self.length.max()) <= most:
            return self
        pieces = np.maximum(-(-self.length.astype(np.int64) // most), 1)
        row = np.repeat(np.arange(len(self)), pieces)
        piece = (np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)).astype(np.uint64)
        done = piece * np.uint64(most)
        return self._rows(row, offset=self.offset[row] + done, length=np.minimum(self.length[row] - done, most)).barred(
            self.barrier[row] & (piece == 0)
        )

    def barred(self, barrier: NDArray[np.bool_]) -> Records:
        """The same with other barriers."""
        return replace(self, barrier=barrier)

    def aligned(self, alignment: int, writes: int | None = None) -> Records:
        """Every record grown to whole blocks, as direct I/O needs; files grow with them.

        Args:
            alignment: bytes, of reads and writes.
            writes: another one for writes; None = the same.

        Raises:
            ConfigError: an alignment below 1.
        """
        import numpy as np

        least = alignment if writes is None else writes
        if alignment < 1 or least < 1:
            raise ConfigError(f"alignment of {describe_size(min(alignment, least))}: use 1 byte or more.")
        if alignment == least == 1:
            return self
        unit = np.where(self.op == WRITE, np.uint64(least), np.uint64(alignment))
        start = self.offset // unit * unit
        end = -(-(self.offset + self.length).astype(np.int64) // unit.astype(np.int64)).astype(np.uint64) * unit
        moves = self.op != FSYNC
        whole = np.uint64(max(alignment, least))
        sizes = (self.files.sizes + whole - np.uint64(1)) // whole * whole
        return replace(
            self,
            files=Files(self.files.names, sizes),
            offset=np.where(moves, start, self.offset),
            length=np.where(moves, end - start, self.length),
        )

    def only_groups(self, keep: NDArray[np.bool_] | slice) -> Records:
        """The groups that ``keep`` selects, renumbered; files stay.

        Raises:
            ConfigError: it selects none.
        """
        import numpy as np

        chosen = np.zeros(self.groups, np.bool_)
        chosen[keep] = True
        if not chosen.any():
            raise ConfigError(f"none of {self.groups:,} groups is selected.")
        new_group = np.cumsum(chosen) - 1
        chains, of_chain = np.unique(self.chain[chosen], return_inverse=True)
        rows = np.flatnonzero(chosen[self.group])
        return Records(
            self.files,
            **{name: getattr(self, name)[rows] for name in RECORD_COLUMNS},
            group=new_group[self.group[rows]].astype(np.uint32),
            time_ns=self.time_ns[chosen],
            compute_ns=self.compute_ns[chosen],
            apart_ns=self.apart_ns[chosen],
            chain=of_chain.astype(np.uint32),
            rank=self.rank[chains],
            prefetch=self.prefetch[chains],
            stages=self.stages,
        )

    def of_rank(self, rank: int) -> Records:
        """What one rank does.

        Raises:
            ConfigError: it does nothing.
        """
        return self.only_groups(self.rank[self.chain] == rank)

    def _rows(self, row: NDArray[np.int64], **changed: Any) -> Records:
        columns = {name: getattr(self, name)[row] for name in (*RECORD_COLUMNS, "group")}
        return replace(self, **(columns | changed))


def _whole(name: str, values: ArrayLike, n: int, least: int, most: int, of: str) -> NDArray[Any]:
    """The column with n values, each a whole number in range."""
    import numpy as np

    column = np.asarray(values)
    if column.dtype.kind == "b" or column.dtype.kind not in "iu":
        raise ConfigError(f"column {name} is of type {column.dtype}: whole numbers are needed.")
    if column.ndim > 1 or (column.ndim == 1 and len(column) not in (1, n)):
        raise ConfigError(f"column {name} has shape {column.shape}: one value, or one per {of} ({n:,}), is needed.")
    outside = (column < least) | (column > most)
    if np.any(outside):
        at = int(np.argmax(outside))
        raise ConfigError(f"{of} {at:,}: {name} {int(np.ravel(column)[at]):,} is outside {least:,} .. {most:,}.")
    return np.broadcast_to(column, n)


def _gapless(name: str, numbers: NDArray[np.uint32], count: int) -> None:
    """Each of 0 .. count - 1 occurs."""
    import numpy as np

    if len(numbers) and int(numbers.max()) >= count:
        raise ConfigError(f"{name} {int(numbers.max()):,} occurs, but there are only {count:,}.")
    missing = np.bincount(numbers, minlength=count) == 0
    if np.any(missing):
        raise ConfigError(f"{name} {int(np.argmax(missing)):,} of {count:,} is empty: number them without gaps.")
