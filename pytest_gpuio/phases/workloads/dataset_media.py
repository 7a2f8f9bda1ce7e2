"""Pre-training on images and volumes: whole samples in shuffled order beside emulated compute, as in MLPerf Storage."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.scaling import share
from pytest_gpuio.phases.workloads.binding import by_name, compute_parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

#: Of an npy or npz member, before the array.
_NPZ_HEADER: Final = 128
#: DLIO's TFRecord reader asks for so much at a time.
_TRANSFER: Final = 256 << 10
#: A lone file is a whole sample; more samples than this stand for a data set of one accelerator's share.
_MOST_FILES: Final = 16_384


class Profile(NamedTuple):
    """One workload of MLPerf Storage.

    Attributes:
        files: of the data set. samples: of each file.
        sample_bytes: mean. stdev: of their bytes; 0 = all alike.
        batch: samples of a step. threads: readers.
        compute_s: of a step. least_au: accelerator utilisation that a valid run needs.
        header: bytes before a file's first sample. request: bytes asked for at a time, 0 = the whole sample.
    """

    files: int
    samples: int
    sample_bytes: float
    stdev: float
    batch: int
    threads: int
    compute_s: float
    least_au: float
    header: int = 0
    request: int = 0


def _unet3d(files: int, compute_s: float) -> Profile:
    return Profile(files, 1, 146_600_628, 68_341_808, 7, 4, compute_s, 0.90, _NPZ_HEADER)


def _resnet50(compute_s: float) -> Profile:
    return Profile(1_024, 1_251, 114_660.07, 0, 400, 8, compute_s, 0.90, request=_TRANSFER)


def _cosmoflow(compute_s: float) -> Profile:
    return Profile(524_288, 1, 2_828_486, 71_311, 1, 4, compute_s, 0.70)


#: By workload and accelerator: versions 2 (A100, H100) and 3 (B200) of the benchmark.
PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {
        "unet3d_a100": _unet3d(168, 0.636),
        "unet3d_h100": _unet3d(168, 0.323),
        "unet3d_b200": _unet3d(7_200, 0.162),
        "resnet50_a100": _resnet50(0.435),
        "resnet50_h100": _resnet50(0.224),
        "cosmoflow_a100": _cosmoflow(0.00551),
        "cosmoflow_h100": _cosmoflow(0.00350),
        "flux_b200": Profile(4_296, 288, 2_164_832, 0, 48, 8, 1.35, 0.90),
        "retinanet_b200": Profile(1_170_301, 1, 322_957, 0, 24, 8, 0.04755, 0.85),
    }
)


class _Units(NamedTuple):
    """What is read, one request each: in sequences that keep their order (a lone sample, or a shard's stream).

    Attributes:
        file: index. offset: bytes. length: bytes. samples: how many samples it makes up. Each of shape (units,).
        first: index of each sequence's first unit, and after them the number of units; shape (sequences + 1,).
    """

    file: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    samples: NDArray[np.float64]
    first: NDArray[np.int64]


def records(*, profile: str, accelerators: int, epochs: int, compute_ms: float, scale: float, seed: int) -> Records:
    """Steps of each accelerator: a batch of samples is read, then computed on; every epoch in another order.

    One loader reads what makes up a batch piece after piece, and as many load as the profile has threads. Accelerators
    share the samples of an epoch; a last batch that is not full computes for its share of a step.
    """
    import numpy as np

    chosen = PROFILES[profile]
    draw = np.random.default_rng(seed)
    samples = share(min(chosen.files, _MOST_FILES) * chosen.samples, scale, accelerators)
    units, files = (_streams if chosen.request else _whole)(chosen, samples, accelerators, draw)
    counts = np.diff(units.first)
    rows, steps, ranks = [], [], []
    done = 0
    for _ in range(epochs):
        order = draw.permutation(len(counts))
        longest = 0
        for rank in range(accelerators):
            mine = order[rank::accelerators]
            row = np.repeat(units.first[mine], counts[mine]) + _count_up(counts[mine])
            read = np.cumsum(units.samples[row]) - units.samples[row]
            step = (read / chosen.batch + 1e-9).astype(np.int64)
            rows.append(row)
            steps.append(done + step)
            ranks.append(np.full(len(row), rank))
            longest = max(longest, int(step[-1]) + 1)
        done += longest
    row, rank_of = np.concatenate(rows), np.concatenate(ranks)
    # Steps of all accelerators follow each other in time; one may have no part in the last of an epoch.
    keys, group = np.unique(np.concatenate(steps) * accelerators + rank_of, return_inverse=True)
    compute_s = chosen.compute_s if compute_ms < 0 else compute_ms / 1e3
    filled = np.bincount(group, weights=units.samples[row])
    return Records.build(
        files,
        offset=units.offset[row],
        length=units.length[row],
        file=units.file[row],
        group=group,
        barrier=True,
        chain=keys % accelerators,
        rank=np.arange(accelerators),
        prefetch=chosen.threads,
        compute_ns=np.rint(filled / chosen.batch * compute_s * 1e9).astype(np.int64),
        stages=("step",),
    )


def _whole(profile: Profile, samples: int, _: int, draw: np.random.Generator) -> tuple[_Units, Files]:
    """Each sample is one request."""
    import numpy as np

    if profile.stdev:
        # A normal distribution cut at one tenth of its mean, which moves the mean by less than 1 %.
        size = np.rint(draw.normal(profile.sample_bytes, profile.stdev, samples)).astype(np.int64)
        size = np.maximum(size, round(profile.sample_bytes / 10))
    else:
        size = np.full(samples, round(profile.sample_bytes))
    file, within = np.divmod(np.arange(samples), profile.samples)
    end = np.cumsum(size)
    base = np.repeat((end - size)[within == 0], np.bincount(file))
    sizes = np.bincount(file, weights=size).astype(np.int64) + profile.header
    units = _Units(file, end - size - base + profile.header, size, np.ones(samples), np.arange(samples + 1))
    return units, _files(sizes)


def _streams(profile: Profile, samples: int, accelerators: int, _: np.random.Generator) -> tuple[_Units, Files]:
    """Each file is read from its start to its end in requests of one size."""
    import numpy as np

    shards = max(-(-samples // profile.samples), accelerators)
    held = np.diff(np.arange(shards + 1) * samples // shards)
    size = np.rint(held * profile.sample_bytes).astype(np.int64)
    pieces = -(-size // profile.request)
    file = np.repeat(np.arange(shards), pieces)
    offset = _count_up(pieces) * profile.request
    length = np.minimum(profile.request, size[file] - offset)
    first = np.concatenate([[0], np.cumsum(pieces)])
    return _Units(file, offset, length, length / profile.sample_bytes, first), _files(size)


def _files(sizes: NDArray[np.int64]) -> Files:
    return Files.of({f"data_{index:06}": int(size) for index, size in enumerate(sizes)})


def _count_up(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 .. n - 1 for each n, one after the other."""
    import numpy as np

    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


MODEL: Final = RecordModel(
    "pretrain/dataset_media",
    "Whole samples are read in shuffled order while an emulated accelerator computes.",
    source="MLPerf Storage v2 and v3 (mlcommons/storage configs/dlio/workload): bytes and spread of samples, batch, "
    "readers and seconds of compute a step. Data sets of more than 16,384 files are read in part.",
    build=by_name(records),
    deciding="utilization",
    parameters=(
        Parameter("profile", "unet3d_h100", "workload and accelerator", choices=tuple(PROFILES)),
        Parameter("accelerators", 1, "emulated accelerators that share the samples", least=1, most=1024),
        Parameter("epochs", 5, "passes over the data set", least=1, most=1000),
        compute_parameter(-1.0, "a step; -1 = the profile's"),
    ),
    scale=1 / 24,
    bs=1 << 20,
    qd=32,
    note="not an MLPerf submission",
)
