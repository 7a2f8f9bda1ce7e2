"""Cold start of inference: a model's weights are read from storage until all are resident."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytest_gpuio.core.errors import CapabilityMissing, ConfigError
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.models import find
from pytest_gpuio.phases.objects import ObjectFile, Objects
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.workloads import weights
from pytest_gpuio.phases.workloads.binding import by_name, model_parameter, objects_by_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Of serving logs of 87 base models: how often a request wants another model than the one before.
_SWITCH: Final = 0.746


def records(
    *,
    model: str,
    strategy: str,
    chunk_kib: int,
    streams: int,
    tensor_parallel: int,
    ranks: int,
    replicas: int,
    fleet: int,
    loads: int,
    scale: float,
    seed: int,
) -> Records:
    """One group per load and rank: all it needs before the first token.

    Raises:
        ConfigError: parameters that do not go together.
    """
    import numpy as np

    if (tensor_parallel > 1) != (strategy == "sliced"):
        raise ConfigError("tensor_parallel above 1 goes with strategy=sliced, and only with it.")
    if ranks > tensor_parallel:
        raise ConfigError(f"{ranks} ranks are more than the tensor parallelism of {tensor_parallel}.")
    architecture = find(model)
    held = weights.shards(architecture, scale)
    if strategy == "sliced":
        parts = [weights.slices(architecture, held, rank, tensor_parallel) for rank in range(ranks)]
    else:
        parts = [weights.requests(held, strategy, chunk=chunk_kib << 10, streams=streams)]
    one = weights.Requests(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    of_rank = np.repeat(np.arange(len(parts)), [len(part.file) for part in parts])
    members = len(parts) * replicas
    wanted = _models(fleet, loads, np.random.default_rng(seed))
    times = replicas * loads
    load, replica = np.divmod(np.repeat(np.arange(times), len(of_rank)), replicas)
    return Records.build(
        weights.files_of(held, fleet),
        offset=np.tile(one.offset, times),
        length=np.tile(one.length, times),
        file=np.tile(one.file, times) + wanted[load] * len(held),
        barrier=np.tile(one.barrier, times),
        group=load * members + replica * len(parts) + np.tile(of_rank, times),
        chain=np.tile(np.arange(members), loads),
        rank=np.arange(members),
        stages=("weights",),
    )


def objects(
    *, model: str, strategy: str, replicas: int, fleet: int, loads: int, scale: float, seed: int, **others: Any
) -> Objects:
    """The files of one model, loaded once by one process, in the way of the framework.

    Raises:
        CapabilityMissing: several models, loads or servers, or a part of the tensors.
    """
    del others, seed
    if strategy == "sliced" or max(replicas, fleet, loads) > 1:
        raise CapabilityMissing(
            "frameworks load one whole model once: leave strategy=sliced, replicas, fleet and loads out."
        )
    files = tuple(
        ObjectFile(shard.name, tuple((tensor.name, tensor.nbytes) for tensor in shard.tensors))
        for shard in weights.shards(find(model), scale)
    )
    return Objects("load", files, (tuple(range(len(files))),))


def _models(fleet: int, loads: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """Which model each load wants: the last one again, or another by its popularity (Zipf, exponent 1)."""
    import numpy as np

    popular = 1.0 / np.arange(1, fleet + 1)
    chosen = draw.choice(fleet, loads, p=popular / popular.sum())
    for index in range(1, loads):
        again = fleet == 1 or draw.random() >= _SWITCH
        if again:
            chosen[index] = chosen[index - 1]
        elif chosen[index] == chosen[index - 1]:
            chosen[index] = (chosen[index] + 1 + draw.integers(fleet - 1)) % fleet
    return chosen


MODEL: Final = RecordModel(
    "inference/cold_start",
    "A model's weights are read from safetensors files until all are resident.",
    source="safetensors' format and the published files (4 shards of 5 GB for Llama-3.1-8B); strategies of safetensors "
    "(mmap, a read per tensor), Run:ai's streamer (16 x 2 MiB), fastsafetensors (whole shards) and tensor-parallel "
    "loaders; switches between 87 models as in Alibaba's GenTD26 log.",
    build=by_name(records),
    objects=objects_by_name(objects),
    deciding="resident",
    parameters=(
        model_parameter("llama-3.1-8b"),
        Parameter("strategy", "chunk", "how the loader reads", choices=weights.STRATEGIES),
        Parameter("chunk_kib", 2048, "bytes of a read of chunk and shard, in KiB", least=4, most=1 << 20),
        Parameter("streams", 4, "files read side by side by tensor and shard", least=1, most=1024),
        Parameter("tensor_parallel", 1, "ranks over which each tensor is cut (sliced)", least=1, most=1024),
        Parameter("ranks", 1, "of these, how many load here", least=1, most=1024),
        Parameter("replicas", 1, "servers that start at the same time", least=1, most=1024),
        Parameter("fleet", 1, "models on storage", least=1, most=1000),
        Parameter("loads", 1, "loads one after the other, by popularity", least=1, most=10_000),
    ),
    scale=1 / 32,
    bs=2 << 20,
    qd=16,
)
