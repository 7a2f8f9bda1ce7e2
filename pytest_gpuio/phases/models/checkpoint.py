"""What each rank writes when a training run saves its state: files and their tensors, as DLIO and MLPerf have it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_gpuio.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuio.phases.models.architecture import Architecture

_MODEL_BYTES: Final = 2
_OPTIMISER_BYTES: Final = 4
#: fp32 weights, first and second moment.
_OPTIMISER_PARTS: Final = 3
#: Small tensors beside each part of the optimiser's state: so many times the hidden width.
_OPTIMISER_EXTRA: Final = 5
#: Families whose layers are as DLIO's formula has them.
_DENSE: Final = ("llama", "qwen2")


class StateFile(NamedTuple):
    """One file of one rank.

    Attributes:
        name: within the checkpoint's folder.
        tensors: bytes of each tensor, in the order written.
    """

    name: str
    tensors: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of its tensors, the container's framing left out."""
        return sum(self.tensors)


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How a model is spread: tensor, pipeline and data parallel ranks, and DeepSpeed's ZeRO stage (0 .. 3).

    Raises:
        ConfigError: a degree below 1 or a stage that does not exist.
    """

    tensor: int
    pipeline: int
    data: int
    zero: int

    def __post_init__(self) -> None:
        for name in ("tensor", "pipeline", "data"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} parallelism {getattr(self, name)} is below 1.")
        if not 0 <= self.zero <= 3:
            raise ConfigError(f"ZeRO stage {self.zero} is none of 0, 1, 2, 3.")

    @property
    def ranks(self) -> int:
        """Processes that take part."""
        return self.tensor * self.pipeline * self.data


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model and how it is spread.

    Raises:
        ConfigError: the model's family has no formula, or it has fewer layers than pipeline stages.
    """

    model: Architecture
    parallelism: Parallelism

    def __post_init__(self) -> None:
        if self.model.family not in _DENSE:
            raise ConfigError(
                f"the checkpoint of {self.model.name} (family {self.model.family}) has no formula: only dense models "
                f"({', '.join(_DENSE)}) have. Describe a dense model of the same parameters in a TOML file."
            )
        if self.parallelism.pipeline > self.model.layers:
            raise ConfigError(
                f"{self.model.layers} layers of {self.model.name} cannot fill {self.parallelism.pipeline} pipeline "
                "stages."
            )

    @property
    def parameters(self) -> int:
        """Parameters as DLIO counts them: projections of queries as wide as the model, no biases."""
        return self._embedding * 2 + sum(self._layer) * self.model.layers + self.model.hidden

    @property
    def _embedding(self) -> int:
        return self.model.vocab * self.model.hidden

    @property
    def _layer(self) -> tuple[int, ...]:
        model = self.model
        keys = model.head_dim * model.kv_heads
        return (
            model.hidden,
            model.hidden * (model.hidden + 2 * keys),
            model.hidden**2,
            model.hidden,
            model.hidden * 2 * model.ffn,
            model.hidden * model.ffn,
        )

    def files(self, rank: int) -> tuple[StateFile, ...]:
        """Files that a rank writes, in order.

        Raises:
            ConfigError: there is no such rank.
        """
        spread = self.parallelism
        if not 0 <= rank < spread.ranks:
            raise ConfigError(f"rank {rank} is outside 0 .. {spread.ranks - 1}.")
        model_ranks = spread.tensor * spread.pipeline
        data_rank, model_rank = divmod(rank, model_ranks)
        stage = rank // spread.tensor % spread.pipeline
        if spread.zero == 0 and data_rank:
            return ()  # every replica holds the same: the first one writes
        layers = self._layers(stage)
        of_rank = f"zero_pp_rank_{data_rank}_mp_rank_{model_rank}"
        made: list[StateFile] = []
        if spread.zero in (1, 2):
            # Weights are not spread over replicas: the first one writes them, layer by layer with a pipeline.
            if data_rank == 0 and spread.pipeline > 1:
                made += [
                    StateFile(f"layer_{layer}-model_{model_rank}_model_states.pt", self._tensors(layer))
                    for layer in layers
                ]
            elif data_rank == 0:
                made.append(StateFile(f"model_{model_rank}_model_states.pt", self._joined(layers)))
        else:
            made.append(StateFile(f"{of_rank}_model_states.pt", self._joined(layers)))
        made.append(StateFile(f"{of_rank}_optim_states.pt", self._optimiser()))
        return tuple(made)

    def _layers(self, stage: int) -> range:
        """Layers of a pipeline stage; 0 is the embedding, behind the last are output head and final norm."""
        each, more = divmod(self.model.layers, self.parallelism.pipeline)
        start = stage * each + min(stage, more) + 1
        stop = start + each + (stage < more)
        if stage == self.parallelism.pipeline - 1:
            stop = self.model.layers + 3
        return range(0 if stage == 0 else start, stop)

    def _tensors(self, layer: int) -> tuple[int, ...]:
        shards = self.parallelism.data if self.parallelism.zero == 3 else 1
        tensor = self.parallelism.tensor
        if layer in (0, self.model.layers + 1):
            return (self._embedding // tensor // shards * _MODEL_BYTES,)
        if layer == self.model.layers + 2:
            return (self.model.hidden // shards * _MODEL_BYTES,)
        # Norms are held whole by every tensor-parallel rank.
        return tuple(
            (part if part == self.model.hidden else part // tensor) // shards * _MODEL_BYTES for part in self._layer
        )

    def _joined(self, layers: range) -> tuple[int, ...]:
        return tuple(size for layer in layers for size in self._tensors(layer))

    def _optimiser(self) -> tuple[int, ...]:
        spread = self.parallelism
        share = self.parameters // (spread.tensor * spread.pipeline * (spread.data if spread.zero else 1))
        part = (share * _OPTIMISER_BYTES, self.model.hidden * _OPTIMISER_EXTRA * _OPTIMISER_BYTES)
        return part * _OPTIMISER_PARTS


#: How MLPerf Storage spreads the models that it checkpoints, by name in the catalog.
MLPERF: Final[Mapping[str, Parallelism]] = MappingProxyType(
    {
        "mlperf-llama3-8b": Parallelism(1, 1, 8, 3),
        "mlperf-llama3-70b": Parallelism(8, 1, 8, 3),
        "mlperf-llama3-405b": Parallelism(8, 32, 2, 1),
        "mlperf-llama3-1t": Parallelism(8, 64, 2, 1),
    }
)
