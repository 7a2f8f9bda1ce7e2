"""The protocol every data path fulfils, and the evidence its proof is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pytest_gpuio.core.cell import CACHES, DESTINATIONS, Cache, Destination
from pytest_gpuio.datapaths.cufile_route import CuFileEvidence, Route

CuFileMode = Literal["strict", "compat"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was observed about a finished cell, independent of what was asked.

    Attributes:
        engine: name of the engine table that moved the bytes.
        direct: O_DIRECT as ``fcntl(F_GETFL)`` reports it on the open file; None when there is no file.
        device_ratio: block-layer bytes / completed bytes over the measured stretch; None when no counters exist.
        resident_growth: bytes of the region that entered the page cache during the cell; None when unknown.
        knobs: engine knobs every worker really had.
        helper_threads: names of kernel helper threads seen in the measuring child.
        ios: requests completed. moved: their bytes.
        interrupts: interrupts of the target over the same stretch; None = unknown.
        cufile: what was seen of cuFile; None = it is not in the process.
        facts: what the engine says of how it was opened, ``name=value ...``.
        dax: ``statx`` says that the file's pages lie on persistent memory itself; None = it was not asked.
        called_bytes: bytes that read and write calls of the child moved over the same stretch; None = unknown.
        daemons: names of the outside processes whose CPU was counted.
        map_sync: the kernel lists the map of the file as one with synchronous faults (``sf`` in smaps), which only a
            file without page cache can have; None = it was not asked.
    """

    engine: str
    direct: bool | None
    device_ratio: float | None
    resident_growth: int | None
    knobs: frozenset[str]
    helper_threads: tuple[str, ...] = ()
    ios: int = 0
    interrupts: int | None = None
    cufile: CuFileEvidence | None = None
    facts: str = ""
    dax: bool | None = None
    map_sync: bool | None = None
    moved: int = 0
    called_bytes: int | None = None
    daemons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proof:
    """The data path the evidence supports.

    Attributes:
        effective: the path really taken, or None when the evidence contradicts every known path.
        sentences: the evidence in words.
        route: how cuFile moved the bytes, where it did; a library's own word does not count.
    """

    effective: str | None
    sentences: tuple[str, ...]
    route: Route | None = None


@dataclass(frozen=True, slots=True)
class DataPath:
    """One way bytes travel between a medium and destination memory.

    Attributes:
        name: spelled as in the design's table of words; part of ids and history keys.
        title: one sentence for people.
        engine: engine table that drives it.
        needs: capability names, checked in this order; the first missing one is the reason of the skip.
        family: cells of one family share a measuring child.
        synchronous: the engine has one request in flight per job; queue depths above 1 are never generated.
        moves_data: False only for ``null``, which measures the tool itself.
        knobs: engine knobs asked for by default.
        caches: page-cache modes that mean something for it; a mode that is not among them becomes the first.
        destinations: memory that it can bring bytes to; the first one when none is asked for.
        submission_poller: a kernel thread polls for submissions and needs a CPU of its own per job.
        polls: workers poll for completions and never sleep: each reserves its core.
        by_name: measured only when somebody names it, not when all are asked for.
        file_systems: types for whose targets it is among all, though ``by_name``.
        cufile: the child opens cuFile's driver before its first cell: ``strict`` forbids falling back to copies through
            host memory, ``compat`` allows it; None = the path has nothing to do with cuFile.
        mapped: loads and stores reach the medium itself, so O_DIRECT, its alignment and the block layer mean nothing.
        file: False = it works on no file or device of the kernel's: no descriptor, O_DIRECT or page cache.
        framework: an application's framework saves and loads whole files of its own: it runs models that say which
            objects those are, and nothing else.
        prove: from evidence to the path really taken.
    """

    name: str
    title: str
    engine: str
    needs: tuple[str, ...]
    family: str
    synchronous: bool
    prove: Callable[[Evidence], Proof]
    moves_data: bool = True
    knobs: frozenset[str] = frozenset()
    caches: tuple[Cache, ...] = CACHES
    destinations: tuple[Destination, ...] = DESTINATIONS
    submission_poller: bool = False
    polls: bool = False
    cufile: CuFileMode | None = None
    by_name: bool = False
    file_systems: frozenset[str] = frozenset()
    mapped: bool = False
    file: bool = True
    framework: bool = False

    def takes(self, *, qd: int, batch: tuple[int, int], destination: Destination) -> bool:
        """Whether such a cell can exist at all; if not, it is never generated.

        Args:
            qd: requests in flight per job.
            batch: requests per submit call, completions a reap waits for.
            destination: memory the bytes end in.
        """
        return not (self.synchronous and qd > 1) and max(batch) <= qd and destination in self.destinations


def describe_kernel_io(evidence: Evidence) -> tuple[str, ...]:
    """Sentences shared by every path that reads and writes a file through the kernel."""
    sentences = [f"engine {evidence.engine}"]
    if evidence.direct is not None:
        sentences.append("O_DIRECT is set on the open file" if evidence.direct else "buffered: O_DIRECT is not set")
    if evidence.device_ratio is None:
        sentences.append("block-layer bytes unknown: no counters for this target")
    else:
        sentences.append(f"block-layer bytes are {evidence.device_ratio:.3f} of the bytes completed")
    if evidence.resident_growth:
        sentences.append(f"the page cache of the region grew by {evidence.resident_growth:,} bytes")
    if evidence.helper_threads:
        sentences.append("kernel helper threads seen: " + ", ".join(evidence.helper_threads))
    return tuple(sentences)


def kernel_path(
    name: str, engine: str, *, helper: str | None = None, polled: bool = False
) -> Callable[[Evidence], Proof]:
    """A proof for paths through the kernel; direct or buffered is told by the validity gates.

    Args:
        name: the data path.
        engine: the engine it must have run on.
        helper: name of the kernel thread that makes the path what it is; without it, it was not taken.
        polled: completions are polled: if the target's interrupts were seen to grow, it was not.
    """

    def prove(evidence: Evidence) -> Proof:
        sentences = describe_kernel_io(evidence)
        if evidence.engine != engine:
            return Proof(None, sentences)
        if helper is not None and helper not in evidence.helper_threads:
            return Proof("io_uring", (*sentences, f"no {helper} thread used any CPU"))
        if polled and evidence.interrupts is None:
            return Proof(name, (*sentences, "interrupts of the target are unknown"))
        if polled and evidence.interrupts is not None:
            # A journal's own writes interrupt even beside polled requests.
            interrupted = evidence.interrupts > evidence.ios // 10
            told = f"the target interrupted {evidence.interrupts:,} times for {evidence.ios:,} requests"
            sentences = (*sentences, f"{told}: {'not polled' if interrupted else 'polled'}")
            if interrupted:
                return Proof("io_uring", sentences)
        return Proof(name, sentences)

    return prove
