"""Models of fine-tuning against the published files and shapes."""

from collections import Counter

import numpy as np
import pytest

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.records import FSYNC, READ, WRITE


def test_the_base_model_is_read_tensor_by_tensor_then_batches(build):
    records = build("base_load", samples=800)
    weights = records.stage == 0
    sizes = Counter(records.length[weights].tolist())
    for size, count in ((8 << 20, 64), (32 << 20, 64), (112 << 20, 96), (1002 << 20, 2), (8192, 65)):
        assert sizes[size] == count
    assert sum(sizes.values()) == 291 + 4  # and a header a file
    assert records.length[weights].sum() == records.files.sizes[:4].sum()
    assert set(records.group[weights]) == {0}
    samples = records.length[~weights]
    assert samples.min() >= 2 << 10
    assert samples.max() <= 8 << 10
    assert set(records.group_bytes[1:] > 8 * 2048) == {True}
    assert records.groups == 1 + 100
    # Files are read side by side, each in its own order.
    assert list(records.file[:4]) == [0, 1, 2, 3]
    for file in range(4):
        assert (np.diff(records.offset[weights & (records.file == file)].astype(np.int64)) > 0).all()


@pytest.mark.parametrize("optimizer", [True, False])
@pytest.mark.parametrize("fsync", [True, False])
def test_an_adapter_has_the_computed_bytes(build, optimizer, fsync):
    records = build("adapter_checkpoint", saves=3, loads=0, adapters=2, optimizer=optimizer, fsync=fsync)
    assert records.groups == 3
    header = int(records.length[0])
    each = 83_886_080 + header + 335_544_320 * optimizer
    assert set(records.group_bytes) == {each}
    assert (records.op == FSYNC).sum() == 3 * (1 + optimizer) * fsync
    assert (records.op == WRITE).sum() == 3 * (1 + 448 + 896 * optimizer)
    sizes = Counter(records.length[(records.file == 0) & (records.op == WRITE)].tolist())
    assert (sizes[128 << 10], sizes[448 << 10], sizes[32 << 10]) == (2 * 9 * 32, 2 * 3 * 32, 2 * 2 * 32)
    # Adapters take turns: the third save is the first adapter's again.
    assert [int(records.file[row]) for row in records.first[:-1]] == [0, 1, 0]


def test_popular_adapters_are_loaded_most(build):
    records = build("adapter_checkpoint", saves=0, loads=4000, adapters=4, load_rate=100.0, scale=0.001)
    assert set(records.op) == {READ}
    wanted = records.file[records.first[:-1]]
    popular = 1 / np.arange(1, 5)
    assert np.bincount(wanted) / 4000 == pytest.approx(popular / popular.sum(), abs=0.03)
    gaps = np.diff(records.time_ns) / 1e9
    assert gaps.mean() == pytest.approx(0.01, rel=0.06)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.06)
    assert records.chains == 4000


def test_neither_saves_nor_loads_is_refused(build):
    with pytest.raises(ConfigError, match="neither saves nor loads"):
        build("adapter_checkpoint", saves=0, loads=0)


def test_the_optimizer_is_read_and_written_back_in_place(build):
    records = build("optimizer_offload", data_parallel=8)
    # 12 bytes a parameter and replica each way.
    expected = 12 * 8_030_261_248 / 8
    assert records.bytes_of(READ) == records.bytes_of(WRITE) == pytest.approx(expected, rel=0.001)
    assert set(records.length) == {1 << 20}
    for name in ("file", "offset"):
        column = getattr(records, name)
        for group in range(records.groups):
            mine = slice(*records.first[group : group + 2])
            read = np.sort(column[mine][records.op[mine] == READ])
            assert np.array_equal(read, np.sort(column[mine][records.op[mine] == WRITE]))
    # Within a group every write waits for every read.
    for group in range(records.groups):
        mine = slice(*records.first[group : group + 2])
        first_write = int(np.argmax(records.op[mine] == WRITE))
        assert records.barrier[mine][first_write]
        assert (records.op[mine][first_write:] == WRITE).all()
        assert records.barrier[mine].sum() == 1


def test_gradients_are_only_read(build):
    records = build("optimizer_offload", gradients=True, scale=0.1)
    assert records.bytes_of(READ) / records.bytes_of(WRITE) == pytest.approx(4 / 3)
    assert not [n for i, n in enumerate(records.files.names) if "grad" in n and (records.op[records.file == i]).any()]
