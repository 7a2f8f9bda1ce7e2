"""Storage traffic of a request trace behind cache tiers: what requests read before, and write after, their prefill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.kv_cache.layout import Layout
from pytest_gpuio.phases.kv_cache.tiers import STORAGE, Placement, Reuse, Tiers
from pytest_gpuio.phases.records import FSYNC, READ, WRITE, Records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gpuio.phases.kv_cache.prefill import Prefill
    from pytest_gpuio.phases.traces.request_trace import RequestTrace

#: Names of the stages of the records: a request's reads, and its writes.
STAGES: Final = ("fetch", "offload")
FETCH: Final = 0
OFFLOAD: Final = 1
#: More records than this are a mistake: some hundred bytes each while they are made.
MOST_RECORDS: Final = 20_000_000
_FILE: Final = "kv"


class Expanded(NamedTuple):
    """Records of some requests.

    Attributes:
        records: a group is what one request reads (layer-wise: what it reads for one layer), or what it writes.
        request: of each group, its index in the trace; shape (groups,).
        stage: ``FETCH`` or ``OFFLOAD`` of each group; shape (groups,).
        prefill_ns: computing what the request has to compute, of each group; shape (groups,).
    """

    records: Records
    request: NDArray[np.int64]
    stage: NDArray[np.uint8]
    prefill_ns: NDArray[np.int64]


class _Rows(NamedTuple):
    """I/O of one stage before it is numbered into groups; rows ascend by request."""

    request: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    plane: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """What a trace asks of storage.

    Attributes:
        placement: where the blocks are found; of the trace in blocks of the layout's pages.
        layout: pieces and places.
        prefill: speed of computing new tokens.
    """

    placement: Placement
    layout: Layout
    prefill: Prefill

    @classmethod
    def of(
        cls,
        trace: RequestTrace,
        layout: Layout,
        prefill: Prefill,
        *,
        hbm_bytes: int = 0,
        dram_bytes: int = 0,
        storage_bytes: int | None = None,
    ) -> Traffic:
        """Runs a trace through tiers of so many bytes.

        Args:
            trace: requests; without prefix blocks, all of them are new.
            layout: pieces and places.
            prefill: speed of computing new tokens.
            hbm_bytes: tier in GPU memory.
            dram_bytes: tier in host memory.
            storage_bytes: below them; None = it keeps everything.

        Raises:
            ConfigError: blocks and pieces do not fit each other, or capacities that cannot be.
        """
        reuse = Reuse.of(in_pages(trace, layout))
        page = reuse.trace.block_tokens * layout.geometry.token_bytes
        tiers = Tiers(hbm_bytes // page, dram_bytes // page, None if storage_bytes is None else storage_bytes // page)
        return cls(reuse.place(tiers), layout, prefill)

    @property
    def trace(self) -> RequestTrace:
        """The trace in blocks of the layout's pages."""
        return self.placement.reuse.trace

    @property
    def page_tokens(self) -> int:
        """Tokens of a block that the tiers keep."""
        return self.trace.block_tokens

    def prefill_ns(self) -> NDArray[np.int64]:
        """Computing what each request has to compute; shape (requests,)."""
        return self.prefill.ns(self.placement.new_tokens())

    def bytes_read(self) -> NDArray[np.int64]:
        """Bytes each request reads from storage; shape (requests,)."""
        return self._bytes(self.placement.found == STORAGE, fetch=True)

    def bytes_written(self) -> NDArray[np.int64]:
        """Bytes each request writes to storage; shape (requests,)."""
        return self._bytes(self.placement.written, fetch=False)

    def count(self, first: int = 0, count: int | None = None) -> int:
        """How many reads and writes :meth:`records` makes of some requests."""
        layout, placement = self.layout, self.placement
        uses = self._uses(*self._range(first, count))
        reads, writes = uses[placement.found[uses] == STORAGE], uses[placement.written[uses]]
        if layout.tokens == 0:
            request = placement.reuse.request
            return (layout.planes + 1) * (len(np.unique(request[reads])) + len(np.unique(request[writes])))
        headers = 1 if layout.header else 0
        return int(self._pieces(reads).sum()) * layout.planes + int(self._pieces(writes).sum()) * (
            layout.planes + headers
        )

    def records(self, first: int = 0, count: int | None = None) -> Expanded:
        """The I/O of some requests; their first arrival is time 0.

        A request's reads start when it arrives. Its writes start when its prefill is over, if nothing delays it.
        Layer-wise, the reads of a request are a chain of groups, one per layer, all of which start at once and are
        consumed in order, each for its layer's share of the prefill.

        Args:
            first: index of the first request.
            count: at most so many; None = all that follow.

        Raises:
            ConfigError: there is no I/O, or too many records to hold.
        """
        trace = self.trace
        first, last = self._range(first, count)
        made = self.count(first, count)
        if made > MOST_RECORDS:
            raise ConfigError(
                f"{last - first:,} requests make {made:,} records of {self.layout.granularity} size, over "
                f"{MOST_RECORDS:,}: take fewer requests at a time, or larger pieces."
            )
        if not made:
            raise ConfigError(
                f"requests {first:,} .. {last - 1:,} of {trace.path} neither read from storage nor write to it: the "
                "tiers above it hold everything."
            )
        parts, size = self._object_rows(first, last) if self.layout.tokens == 0 else self._piece_rows(first, last)
        return self._grouped(parts, Files.of({_FILE: size}), int(trace.time_ns[first]))

    def _bytes(self, which: NDArray[np.bool_], *, fetch: bool) -> NDArray[np.int64]:
        layout, reuse = self.layout, self.placement.reuse
        if layout.tokens == 0:
            whole = _object_bytes(layout, self.trace.input_tokens)
            if not fetch:
                return np.where(self.placement.per_request(which) > 0, whole, 0)
            reading, owner = self._owners(np.arange(len(which)))
            found = np.zeros(len(self.trace), dtype=np.int64)
            found[reading] = whole[owner]
            return found
        header = 0 if fetch else layout.header
        moved = self._pieces(np.flatnonzero(which)) * (layout.piece_bytes + header)
        return np.bincount(reuse.request[which], weights=moved, minlength=len(self.trace)).astype(np.int64)

    def _pieces(self, uses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Pieces of the block of each use: fewer where the prompt ends inside the block."""
        reuse = self.placement.reuse
        left = self.trace.input_tokens[reuse.request[uses]] - reuse.within[uses] * self.page_tokens
        pieces: NDArray[np.int64] = -(-np.minimum(left, self.page_tokens) // self.layout.tokens)
        return pieces

    def _range(self, first: int, count: int | None) -> tuple[int, int]:
        last = len(self.trace) if count is None else min(len(self.trace), first + count)
        if not 0 <= first < last:
            raise ConfigError(f"{count} requests from number {first:,} on are none of {len(self.trace):,}.")
        return first, last

    def _uses(self, first: int, last: int) -> NDArray[np.int64]:
        start = self.trace.block_start
        assert start is not None
        return np.arange(start[first], start[last])

    def _piece_rows(self, first: int, last: int) -> tuple[tuple[_Rows, _Rows], int]:
        """Rows of the reads and of the writes, and the bytes of the file."""
        layout, ids = self.layout, self.trace.block_ids
        assert ids is not None
        slot, slots = layout.slot_of(ids, self.page_tokens)
        uses = self._uses(first, last)
        per_page = self.page_tokens // layout.tokens
        parts = []
        for stage, which in ((FETCH, self.placement.found[uses] == STORAGE), (OFFLOAD, self.placement.written[uses])):
            chosen = uses[which]
            pieces = self._pieces(chosen)
            row = np.repeat(np.arange(len(chosen)), pieces)
            piece = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
            request = self.placement.reuse.request[chosen][row]
            place = slot[chosen][row] * per_page + piece
            parts.append(self._split(request, place, slots * per_page, with_header=stage == OFFLOAD))
        return (parts[0], parts[1]), slots * layout.page_bytes(self.page_tokens)

    def _split(self, request: NDArray[np.int64], place: NDArray[np.int64], places: int, *, with_header: bool) -> _Rows:
        """Pieces as I/O: in each request plane by plane, in a plane piece by piece; headers come first."""
        layout = self.layout
        row, plane = _plane_major(request, layout.planes)
        length = layout.piece_bytes // layout.planes
        if layout.fragments:
            offset = (plane * places + place[row]) * layout.stride
        else:
            offset = place[row] * layout.stride + layout.header + plane * length
        rows = _Rows(request[row], offset, np.full(len(row), length), plane)
        if not (with_header and layout.header):
            return rows
        headers = _Rows(request, place * layout.stride, np.full(len(place), layout.header), np.zeros_like(place))
        return _merged(headers, rows, piece_by_piece=layout.planes == 1)

    def _object_rows(self, first: int, last: int) -> tuple[tuple[_Rows, _Rows], int]:
        """Rows of whole sequences: each request that computes something new writes its own object."""
        layout, trace = self.layout, self.trace
        writers = np.flatnonzero(self.placement.per_request(self.placement.written) > 0)
        whole = _object_bytes(layout, trace.input_tokens)
        bases = np.zeros(len(trace), dtype=np.int64)
        bases[writers], size = layout.object_bases(whole[writers])
        reading, owner = self._owners(self._uses(first, last))
        writing = writers[(writers >= first) & (writers < last)]
        parts = []
        for request, source in ((reading, owner), (writing, writing)):
            row, plane = _plane_major(request, layout.planes)
            data = (whole[source] - layout.header)[row] // layout.planes
            rows = _Rows(request[row], bases[source][row] + layout.header + plane * data, data, plane)
            header = np.full(len(request), layout.header)
            headers = _Rows(request, bases[source], header, np.zeros_like(request))
            parts.append(_merged(headers, rows, piece_by_piece=False))
        return (parts[0], parts[1]), size

    def _owners(self, uses: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Requests among these uses that read from storage, and whose object holds their prefix."""
        reuse, ids = self.placement.reuse, self.trace.block_ids
        assert ids is not None
        chosen = uses[self.placement.found[uses] == STORAGE]
        # The last block that is read decides: whoever wrote it wrote all that comes before it, too.
        request, place = np.unique(reuse.request[chosen][::-1], return_index=True)
        wanted = chosen[::-1][place]
        order = np.argsort(ids, kind="stable")
        written = np.where(self.placement.written[order], np.arange(len(order)), -1)
        latest = np.empty(len(order), dtype=np.int64)
        latest[order] = order[np.maximum.accumulate(written)]
        return request, reuse.request[latest[wanted]]

    def _grouped(self, parts: tuple[_Rows, _Rows], files: Files, start_ns: int) -> Expanded:
        """Numbers groups by their time and builds the records."""
        layered = self.layout.planes > 1
        layers = self.layout.geometry.layers
        prefill = self.prefill_ns()
        arrival = self.trace.time_ns - start_ns
        key: list[NDArray[np.int64]] = []
        request: list[NDArray[np.int64]] = []
        layer: list[NDArray[np.int64]] = []
        stage: list[NDArray[np.uint8]] = []
        for number, rows in enumerate(parts):
            of_layer = rows.plane * layers // self.layout.planes if layered and number == FETCH else 0 * rows.plane
            mine, group = np.unique(rows.request * layers + of_layer, return_inverse=True)
            key.append(group + sum(len(mine) for mine in request))
            request.append(mine // layers)
            layer.append(mine % layers)
            stage.append(np.full(len(mine), number, dtype=np.uint8))
        of_request, of_stage = np.concatenate(request), np.concatenate(stage)
        time_ns = arrival[of_request] + np.where(of_stage == OFFLOAD, prefill[of_request], 0)
        # At the same moment a request's reads come first, layer by layer.
        order = np.lexsort((np.concatenate(layer), of_stage, of_request, time_ns))
        number_of = np.empty_like(order)
        number_of[order] = np.arange(len(order))
        of_request, of_stage = of_request[order], of_stage[order]
        columns = [np.concatenate([getattr(rows, name) for rows in parts]) for name in ("offset", "length")]
        group = number_of[np.concatenate(key)]
        op = np.repeat(np.array([READ, WRITE]), [len(rows.request) for rows in parts])
        if self.layout.fsync:
            syncs = np.flatnonzero(of_stage == OFFLOAD)
            columns = [np.concatenate((column, np.zeros_like(syncs))) for column in columns]
            group, op = np.concatenate((group, syncs)), np.concatenate((op, np.full(len(syncs), FSYNC)))
        chain = compute = prefetch = None
        if layered:
            # One chain per request for its reads, one per group of writes, in the order of their first groups.
            _, first, chain = np.unique(of_request * 2 + of_stage, return_index=True, return_inverse=True)
            chain = np.argsort(np.argsort(first))[chain]
            compute = np.where(of_stage == FETCH, prefill[of_request] // layers, 0)
            prefetch = np.where(of_stage[np.sort(first)] == FETCH, min(layers, 65_535), 0)
        records = Records.build(
            files,
            offset=columns[0],
            length=columns[1],
            op=op,
            group=group,
            stage=of_stage[group],
            time_ns=time_ns[order],
            chain=chain,
            compute_ns=0 if compute is None else compute,
            prefetch=0 if prefetch is None else prefetch,
            # Layer by layer the prefill is emulated; else a first token waits for the fetch and then for it.
            apart_ns=-1 if layered else np.where(of_stage == FETCH, prefill[of_request], -1),
            stages=STAGES,
        )
        return Expanded(records, of_request, of_stage, prefill[of_request])


def in_pages(trace: RequestTrace, layout: Layout) -> RequestTrace:
    """The trace in blocks that the tiers keep: its own, or the layout's pieces where these are larger.

    Raises:
        ConfigError: neither is a multiple of the other.
    """
    tokens = layout.tokens
    if trace.block_ids is None:
        return trace.with_own_blocks(tokens or 512)
    if tokens > trace.block_tokens:
        return trace.regrouped(tokens)
    if tokens and trace.block_tokens % tokens:
        raise ConfigError(f"blocks of {trace.block_tokens} tokens cannot be split into pieces of {tokens} tokens.")
    return trace


def _object_bytes(layout: Layout, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of the objects of sequences, headers included."""
    return layout.header + tokens * layout.geometry.token_bytes


def _plane_major(request: NDArray[np.int64], planes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and plane of each I/O: per request (rows ascend by it) plane by plane, in each plane row by row."""
    if planes == 1:
        return np.arange(len(request)), np.zeros(len(request), dtype=np.int64)
    starts = np.flatnonzero(np.diff(request, prepend=-1))
    sizes = np.diff(starts, append=len(request))
    start, size = np.repeat(starts, sizes * planes), np.repeat(sizes, sizes * planes)
    within = np.arange(len(request) * planes) - start * planes
    return start + within % size, within // size


def _merged(headers: _Rows, rows: _Rows, *, piece_by_piece: bool) -> _Rows:
    """Both: each header before its piece, or in each request all headers first."""
    keys = (np.arange(len(part.request)) if piece_by_piece else part.request for part in (headers, rows))
    order = np.argsort(np.concatenate(tuple(keys)), kind="stable")
    return _Rows(*(np.concatenate(both)[order] for both in zip(headers, rows, strict=True)))
