"""The files of a checkpoint on storage, and the records of writing and reading them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.models import MLPERF, Checkpoint, Parallelism, find
from pytest_gpuio.phases.objects import ObjectFile
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.scaling import thin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

#: By container: alignment of a tensor in its file, and bytes of framing before it.
CONTAINERS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {"torch": (64, 64), "torch4k": (4096, 64), "dcp": (64, 1_600)}
)
#: Start of a torch archive, before the first tensor: the pickled structure.
_HEAD: Final = 4096
#: Directory at the end of a torch archive, per tensor.
_DIRECTORY_ENTRY: Final = 128


class Layout(NamedTuple):
    """One file, and where its tensors lie.

    Attributes:
        rank: that writes it. name: path. model: holds weights, not optimiser state.
        start: first byte of each tensor's framing. offset: of each tensor. length: of each tensor. Shape (n,).
        size: of the file.
    """

    rank: int
    name: str
    model: bool
    start: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    size: int


SHAPE: Final = (
    Parameter("model", "mlperf-llama3-8b", "a dense model (gpuio model list), or FILE.toml:NAME"),
    Parameter("tensor", 0, "tensor-parallel ranks; 0 = as MLPerf spreads its models, else 1", least=0, most=65_535),
    Parameter("pipeline", 0, "pipeline stages; 0 = as MLPerf has it, else 1", least=0, most=65_535),
    Parameter("data", 0, "data-parallel ranks; 0 = as MLPerf has it, else 8", least=0, most=65_535),
    Parameter("zero", -1, "DeepSpeed's ZeRO stage; -1 = as MLPerf has it, else 3", least=-1, most=3),
    Parameter("ranks", 8, "most ranks that take part here, one node's; 0 = all", least=0, most=65_535),
    Parameter("first", 0, "the first of them", least=0, most=65_535),
    Parameter("container", "torch", "framing of tensors in a file", choices=tuple(CONTAINERS)),
)


def chosen(
    model: str, tensor: int, pipeline: int, data: int, zero: int, ranks: int, first: int
) -> tuple[Checkpoint, range]:
    """The checkpoint that parameters speak of, and its ranks that take part.

    Raises:
        ConfigError: they do not go together.
    """
    usual = MLPERF.get(model, Parallelism(1, 1, 8, 3))
    spread = Parallelism(
        tensor or usual.tensor, pipeline or usual.pipeline, data or usual.data, usual.zero if zero < 0 else zero
    )
    checkpoint = Checkpoint(find(model), spread)
    whole = checkpoint.parallelism.ranks
    if first >= whole:
        raise ConfigError(f"rank {first} is none of the {whole} of this checkpoint.")
    return checkpoint, range(first, min(first + (ranks or whole), whole))


def lay_out(checkpoint: Checkpoint, ranks: range, container: str, scale: float) -> list[Layout]:
    """Files of these ranks, in the order in which each rank writes them.

    Raises:
        ConfigError: a scale out of range, or ranks that write nothing.
    """
    import numpy as np

    alignment, framing = CONTAINERS[container]
    named = [
        (rank, file.name, "model_states" in file.name, file.tensors)
        for rank in ranks
        for file in checkpoint.files(rank)
    ]
    if not named:
        raise ConfigError(f"ranks {ranks.start} .. {ranks.stop - 1} write nothing with this parallelism.")
    if container == "dcp":
        named = list(_one_file_per_rank(named))
    every = np.concatenate([np.array(tensors, np.int64) for *_, tensors in named])
    left = thin(every, scale)
    made, at = [], 0
    for rank, name, model, tensors in named:
        length = left[at : at + len(tensors)]
        at += len(tensors)
        length = length[length > 0]
        if len(length):
            made.append(_pack(rank, name, model, length, alignment, framing))
    return made


def files_of(layouts: list[Layout]) -> Files:
    """The files of layouts, by index."""
    return Files.of({layout.name: layout.size for layout in layouts})


def object_files(layouts: list[Layout]) -> tuple[ObjectFile, ...]:
    """The tensors of each file, as an application has them: without a container's framing."""
    return tuple(
        ObjectFile(layout.name, tuple((f"tensor_{at:05}", int(size)) for at, size in enumerate(layout.length)))
        for layout in layouts
    )


def _one_file_per_rank(
    named: list[tuple[int, str, bool, tuple[int, ...]]],
) -> Iterator[tuple[int, str, bool, tuple[int, ...]]]:
    for rank in dict.fromkeys(rank for rank, *_ in named):
        joined = tuple(size for owner, _, _, tensors in named if owner == rank for size in tensors)
        yield rank, f"__{rank}_0.distcp", True, joined


def _pack(rank: int, name: str, model: bool, length: NDArray[np.int64], alignment: int, framing: int) -> Layout:
    """Tensors one after the other, each behind its framing and on a multiple of the alignment."""
    import numpy as np

    # Each tensor takes a whole number of aligned blocks, so that offsets are sums and need no loop.
    room = -(-length // alignment) * alignment
    lead = -(-framing // alignment) * alignment
    offset = _HEAD + np.cumsum(room + lead) - room
    end = offset + length
    start = np.concatenate([[_HEAD], end[:-1]])
    size = int(end[-1]) + _DIRECTORY_ENTRY * (len(length) + 2)
    return Layout(rank, name, model, start, offset, length, size)
