"""Models of pre-training against MLPerf Storage's and Megatron's figures."""

import numpy as np
import pytest

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.records import FSYNC
from pytest_gpuio.phases.workloads import dataset_columnar
from pytest_gpuio.phases.workloads.dataset_media import PROFILES


@pytest.mark.parametrize(("sequence", "token", "sample"), [(2048, 2, 4098), (4096, 2, 8194), (8192, 4, 32_772)])
def test_text_samples_are_a_sequence_and_one_token(build, sequence, token, sample):
    records = build("dataset_text", sequence=sequence, token_bytes=token, samples=8192, short_percent=0.0)
    assert set(records.length) == {sample}
    assert not (records.offset % token).any()
    assert records.groups == 8192 // 8
    assert set(np.diff(records.first)) == {8}
    # Uniform over the data set: quarters of it get a quarter of the reads each.
    place = np.concatenate([[0], np.cumsum(records.files.sizes)])[records.file] + records.offset
    share = np.histogram(place, 4, (0, records.files.bytes))[0] / len(records)
    assert share == pytest.approx([0.25] * 4, abs=0.02)


def test_short_documents_make_two_to_four_reads_of_one_sample(build):
    records = build("dataset_text", samples=20_000, batch=1)
    parts = np.diff(records.first)
    assert set(parts) == {1, 2, 3, 4}
    assert (parts > 1).mean() == pytest.approx(0.15, abs=0.01)
    assert set(records.group_bytes) == {8194}
    assert (records.length >= 2).all()


def test_odd_tokens_are_refused(build):
    with pytest.raises(ConfigError, match="tokens of 3 bytes"):
        build("dataset_text", token_bytes=3)


@pytest.mark.parametrize(
    ("profile", "rate"),
    [
        # GB/s of one accelerator at full utilisation, computed from the published YAML files.
        ("unet3d_a100", 1.61), ("unet3d_h100", 3.18), ("unet3d_b200", 6.33), ("resnet50_a100", 0.105),
        ("resnet50_h100", 0.205), ("cosmoflow_a100", 0.513), ("cosmoflow_h100", 0.808), ("flux_b200", 0.077),
        ("retinanet_b200", 0.163),
    ],
)  # fmt: skip
def test_media_need_the_published_rate(build, profile, rate):
    scale = {"unet3d_b200": 0.2, "unet3d_a100": 1.0, "unet3d_h100": 1.0}.get(profile, 0.05)
    records = build("dataset_media", profile=profile, epochs=1, scale=scale)
    assert records.bytes_of() / records.compute_ns.sum() == pytest.approx(rate, rel=0.1 if "unet" in profile else 0.01)
    # A last batch may not be full; the others all compute for the profile's time.
    full = records.compute_ns[:-1]
    assert np.abs(full - PROFILES[profile].compute_s * 1e9).max() <= 0.01 * PROFILES[profile].compute_s * 1e9


def test_media_sizes_have_the_published_mean_and_spread(build):
    records = build("dataset_media", profile="unet3d_b200", epochs=1)
    assert records.length.mean() == pytest.approx(146_600_628, rel=0.03)
    assert records.length.std() == pytest.approx(68_341_808, rel=0.06)
    assert set(records.offset) == {128}
    cosmoflow = build("dataset_media", profile="cosmoflow_h100", epochs=1)
    assert cosmoflow.length.mean() == pytest.approx(2_828_486, rel=0.002)
    assert cosmoflow.length.std() == pytest.approx(71_311, rel=0.03)


@pytest.mark.parametrize("accelerators", [1, 3])
@pytest.mark.parametrize("profile", ["unet3d_h100", "resnet50_h100", "flux_b200"])
def test_every_sample_is_read_once_an_epoch_in_another_order(build, profile, accelerators):
    one = build("dataset_media", profile=profile, epochs=1, accelerators=accelerators, scale=0.02)
    two = build("dataset_media", profile=profile, epochs=2, accelerators=accelerators, scale=0.02)
    key = np.stack([two.file, two.offset])
    assert len(np.unique(key, axis=1).T) * 2 == len(two) == 2 * len(one)
    assert two.bytes_of() == 2 * one.bytes_of() == pytest.approx(2 * (one.files.bytes - 128 * len(one.files)), rel=1e-3)
    half = len(one)
    assert not np.array_equal(key[:, :half], key[:, half:])
    assert one.ranks == accelerators
    shares = [one.of_rank(rank).bytes_of() for rank in range(accelerators)]
    assert max(shares) < 4 * min(shares)


def test_a_stream_of_records_is_read_in_file_order_256_kib_at_a_time(build):
    records = build("dataset_media", profile="resnet50_h100", epochs=1, scale=0.01)
    for file in range(len(records.files)):
        mine = records.offset[records.file == file]
        assert np.array_equal(mine, np.arange(len(mine)) * (256 << 10))
    assert (records.length == 256 << 10).sum() >= len(records) - len(records.files)


def test_columnar_reads_the_published_columns(build):
    records = build("dataset_columnar", row_groups=1536)
    chunks = records.length[(records.length >= 6 << 10) & (records.length <= 48 << 10)]
    sizes, counts = np.unique(chunks, return_counts=True)
    assert dict(zip(sizes.tolist(), (counts // 1536).tolist(), strict=True)) == {
        6 << 10: 4, 12 << 10: 4, 24 << 10: 27, 48 << 10: 5,
    }  # fmt: skip
    # Columns that are read: 160 of 761 bytes a row; 6.99 GB/s at full utilisation.
    assert chunks.sum() / 1536 / 6144 == 160
    assert chunks.sum() / records.compute_ns.sum() == pytest.approx(6.99, rel=0.005)
    assert records.groups == 1536 * 6144 // 16_384
    assert len(records.files) == 2
    assert records.files.bytes / (1536 * 6144) == pytest.approx(761, rel=0.01)
    assert sum(dataset_columnar._READ_WIDTHS) == 160


def test_a_footer_is_read_before_anything_else_of_its_file(build):
    records = build("dataset_columnar", row_groups=1536)
    for file in range(2):
        mine = np.flatnonzero(records.file == file)
        size = int(records.files.sizes[file])
        assert (records.offset[mine[0]], records.length[mine[0]]) == (size - 8, 8)
        assert records.offset[mine[1]] + records.length[mine[1]] == size - 8
        assert not (records.offset[mine[2:]] + records.length[mine[2:]] > records.offset[mine[1]]).any()


@pytest.mark.parametrize(("size", "gib", "files"), [("8b", 104.7, 16), ("70b", 911.2, 128), ("405b", 5292, 1544)])
@pytest.mark.parametrize("container", ["torch", "torch4k"])
def test_a_checkpoint_has_the_published_bytes_and_files(build, tiles, size, gib, files, container):
    records = build("checkpoint_ranks", model=f"mlperf-llama3-{size}", ranks=0, container=container)
    assert records.bytes_of() / 2**30 == pytest.approx(gib, rel=0.0006)
    assert len(records.files) == files
    assert tiles(records)
    assert (records.op == FSYNC).sum() == files
    assert records.groups == records.ranks


def test_a_rank_writes_one_tensor_after_the_other_and_syncs_each_file_last(build):
    records = build("checkpoint_ranks", model="mlperf-llama3-8b", ranks=2)
    assert records.barrier.all()
    assert records.groups == 2
    for group in range(2):
        mine = slice(*records.first[group : group + 2])
        file, op = records.file[mine], records.op[mine]
        assert np.array_equal(np.unique(file), np.array([2 * group, 2 * group + 1]))
        assert (op[np.append(np.flatnonzero(np.diff(file)), len(file) - 1)] == FSYNC).all()
    # 195 tensors and 6, of 3.739 GiB and 80 KiB; head, directory and sync of two files.
    assert len(records) == 2 * (195 + 6 + 2 * 3)
    large = records.length[records.length > 3 << 30]
    assert large / 2**30 == pytest.approx(3.739, abs=0.0005)
    assert (large - 4_015_130_624 < 4096).all()


@pytest.mark.parametrize(("container", "alignment"), [("torch", 64), ("torch4k", 4096)])
def test_tensors_are_read_at_the_containers_alignment(build, container, alignment):
    records = build("checkpoint_restore", model="mlperf-llama3-8b", container=container)
    tensors = records.length != 4096
    assert not (records.offset[tensors] % alignment).any()
    assert records.length[tensors].sum() / 2**30 == pytest.approx(104.7, abs=0.05)


def test_a_distributed_checkpoint_is_a_file_a_rank_with_small_reads(build):
    saved = build("checkpoint_ranks", model="mlperf-llama3-8b", container="dcp")
    assert len(saved.files) == 8
    records = build("checkpoint_restore", model="mlperf-llama3-8b", container="dcp")
    assert (records.length == 4096).sum() >= 8 * 8 * 201
    assert len(records) == 8 * 201 * 9


def test_restoring_reads_every_tensor_and_a_shift_another_ranks_files(build):
    plain = build("checkpoint_restore", model="mlperf-llama3-8b")
    saved = build("checkpoint_ranks", model="mlperf-llama3-8b", fsync=False)
    assert plain.bytes_of() == pytest.approx(saved.bytes_of(), rel=1e-4)
    shifted = build("checkpoint_restore", model="mlperf-llama3-8b", shift=3)
    assert shifted.bytes_of() == plain.bytes_of()
    for rank in range(8):
        mine = {plain.files.names[index] for index in np.unique(plain.of_rank((rank + 3) % 8).file)}
        assert {shifted.files.names[index] for index in np.unique(shifted.of_rank(rank).file)} == mine


def test_replicas_read_the_weights_that_only_the_first_wrote(build):
    records = build("checkpoint_restore", model="mlperf-llama3-405b", ranks=0)
    weights = records.length[records.stage == 0].sum()
    optimizer = records.length[records.stage == 1].sum()
    # 2 bytes a parameter for each of two replicas, 12 bytes once.
    assert weights / optimizer == pytest.approx(2 * 2 / 12, rel=0.001)
    assert records.ranks == 512


def test_checkpoints_follow_each_other_at_an_interval(build):
    records = build("checkpoint_ranks", model="mlperf-llama3-8b", checkpoints=3, interval_s=5.0, scale=0.01)
    assert set(records.time_ns) == {0, 5 * 10**9, 10 * 10**9}
    assert records.groups == 24
    assert records.chains == 8


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"first": 8}, "rank 8 is none of the 8"),
        ({"model": "deepseek-v3"}, "no formula"),
        ({"model": "nonesuch"}, "is unknown"),
        ({"pipeline": 33}, "32 layers of mlperf-llama3-8b cannot fill 33 pipeline stages"),
    ],
)
def test_wrong_shapes(build, values, words):
    with pytest.raises(ConfigError, match=words):
        build("checkpoint_ranks", **values)


def test_a_checkpoint_of_ones_own_model(build):
    records = build("checkpoint_ranks", model="qwen2.5-7b", data=4)
    # 14 bytes a parameter; biases of queries, keys and values are not in the formula.
    assert records.bytes_of() == pytest.approx(14 * 7.616e9, rel=0.01)
    assert records.ranks == 4


def test_background_saves_wait_for_the_one_before_and_hide_behind_the_steps(build):
    saves = build("checkpoint_async", ranks=2, checkpoints=3, compute_ms=250.0, copy_gb_per_s=50.0, scale=0.01)
    plain = build("checkpoint_ranks", ranks=2, checkpoints=3, scale=0.01)
    assert saves.bytes_of() == plain.bytes_of()
    assert saves.offset.tolist() == plain.offset.tolist()
    # Save j + 1 of a rank starts when the steps after save j begin: one may be on its way.
    assert saves.prefetch.tolist() == [1, 1]
    assert set(saves.compute_ns.tolist()) == {250_000_000}
    # A rank's bytes at 50 GB/s.
    assert saves.apart_ns.tolist() == pytest.approx((saves.group_bytes / 50.0).tolist(), abs=1.0)
