"""What cuFile itself counts, by the way requests took: both layouts of its statistics, decoded and subtracted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Self

#: First release whose structures begin 14 words later at level 3, since it counts readv and writev, too.
_NEW_LAYOUT: Final = 1190
_GPU_WORDS: Final = 31
_MOST_GPUS: Final = 16
#: Words of level 1; each count of operations is a pair (ok, failed).
_LEVEL_1: Final[Mapping[str, int]] = {
    "process_reads": 0,
    "process_writes": 2,
    "process_read_bytes": 12,
    "process_write_bytes": 13,
    "batch_posix": 34,
    "batch_nvfs": 40,
    "batch_p2p": 42,
    "batch_aio": 44,
    "batch_io_uring": 46,
    "batch_mixed": 48,
    "batch_total": 50,
    "batch_read_bytes": 52,
    "batch_write_bytes": 53,
}
#: Words of one GPU at level 3, reads and then writes, behind its UUID (words 0 and 1).
_READS: Final = 2
_WRITES: Final = 15


@dataclass(frozen=True, slots=True)
class CuFileCounters:
    """Requests and bytes since the driver was opened, or between two looks; every GPU added up.

    Attributes:
        total, p2p, nvfs, posix, unaligned: single requests per GPU: all; by PCI peer-to-peer DMA; by nvidia-fs; copied
            through host memory; with bounce buffers for what was not aligned. bytes: that they moved.
        batch_total, batch_nvfs, batch_p2p: entries of batches: all, and by the direct ways. batch_aio, batch_io_uring,
            batch_posix: those that fell back. batch_mixed: in more than one way. batch_bytes: that they moved.
        process_ops, process_bytes: single requests of the process, wherever their memory is.
        gpus: how many GPUs have counters.
    """

    total: int
    p2p: int
    nvfs: int
    posix: int
    unaligned: int
    bytes: int
    batch_total: int
    batch_nvfs: int
    batch_p2p: int
    batch_aio: int
    batch_io_uring: int
    batch_posix: int
    batch_mixed: int
    batch_bytes: int
    process_ops: int
    process_bytes: int
    gpus: int

    def __sub__(self, earlier: CuFileCounters) -> CuFileCounters:
        """What was counted since ``earlier``; the number of GPUs stays."""
        values = {
            field.name: getattr(self, field.name) - getattr(earlier, field.name)
            for field in fields(self)
            if field.name != "gpus"
        }
        return CuFileCounters(**values, gpus=self.gpus)

    @property
    def nothing(self) -> bool:
        """No request was counted, of any kind."""
        return not any(getattr(self, field.name) for field in fields(self) if field.name != "gpus")

    def to_json(self) -> dict[str, int]:
        """The counters by name."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`to_json`."""
        return cls(**values)


def decode(level_1: Sequence[int], level_3: Sequence[int], version: int) -> CuFileCounters:
    """The counters in the words that the library wrote.

    Args:
        level_1: words of the process.
        level_3: words of each GPU.
        version: as ``cuFileGetVersion`` tells it, 1000 x major + 10 x minor; it decides where a GPU's words are.

    Raises:
        ValueError: the words cannot be of that version: more GPUs than the structure has room for.
    """
    base = 142 if version >= _NEW_LAYOUT else 128
    gpus = level_3[base]
    if gpus > _MOST_GPUS:
        raise ValueError(f"cuFile's counters name {gpus} GPUs: not the layout of libcufile {version / 1000:.2f}")
    sums = dict.fromkeys(("bytes", "total", "p2p", "nvfs", "posix", "unaligned"), 0)
    for gpu in range(gpus):
        start = base + 1 + gpu * _GPU_WORDS
        for kind in (_READS, _WRITES):
            words = level_3[start + kind : start + kind + 9]
            sums["bytes"] += words[0]
            for name, word in (("total", 4), ("p2p", 5), ("nvfs", 6), ("posix", 7), ("unaligned", 8)):
                sums[name] += words[word]
    process = {name: level_1[word] for name, word in _LEVEL_1.items()}
    return CuFileCounters(
        **sums,
        batch_total=process["batch_total"],
        batch_nvfs=process["batch_nvfs"],
        batch_p2p=process["batch_p2p"],
        batch_aio=process["batch_aio"],
        batch_io_uring=process["batch_io_uring"],
        batch_posix=process["batch_posix"],
        batch_mixed=process["batch_mixed"],
        batch_bytes=process["batch_read_bytes"] + process["batch_write_bytes"],
        process_ops=process["process_reads"] + process["process_writes"],
        process_bytes=process["process_read_bytes"] + process["process_write_bytes"],
        gpus=gpus,
    )
