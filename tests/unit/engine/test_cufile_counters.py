"""Both layouts of cuFile's statistics, against words seen on an H200, and NVIDIA's binding."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.engine.cufile_counters import CuFileCounters, decode

WORDS = 4096


def level_3(version, *gpus):
    """Words as libcufile writes them: number of GPUs, then 31 words for each."""
    base = 142 if version >= 1190 else 128
    words = [0] * WORDS
    words[base] = len(gpus)
    for index, (reads, writes) in enumerate(gpus):
        start = base + 31 * index
        words[start + 1], words[start + 2] = 0x1111, 0x2222  # the UUID
        words[start + 3] = reads["bytes"]
        words[start + 7 : start + 12] = [reads[k] for k in ("total", "p2p", "nvfs", "posix", "unaligned")]
        words[start + 16] = writes["bytes"]
        words[start + 20 : start + 25] = [writes[k] for k in ("total", "p2p", "nvfs", "posix", "unaligned")]
    return words


def some(total=0, p2p=0, nvfs=0, posix=0, unaligned=0, bytes=0):  # noqa: A002
    return {"total": total, "p2p": p2p, "nvfs": nvfs, "posix": posix, "unaligned": unaligned, "bytes": bytes}


@pytest.mark.parametrize("version", [1150, 1180, 1190, 1200])
def test_what_an_h200_counted_in_compatibility_mode(version):
    found = decode([0] * WORDS, level_3(version, (some(total=39075, posix=39075, bytes=7 << 30), some())), version)
    assert (found.total, found.posix, found.nvfs, found.p2p, found.unaligned) == (39075, 39075, 0, 0, 0)
    assert (found.bytes, found.gpus) == (7 << 30, 1)


def test_the_layout_of_the_other_release_is_not_misread():
    new = level_3(1200, (some(total=5, nvfs=5, bytes=5), some()))
    assert decode([0] * WORDS, new, 1180).total == 0


def test_reads_and_writes_of_all_gpus_are_added_up():
    first = some(total=3, nvfs=3, bytes=30), some(total=2, p2p=2, bytes=20)
    second = some(total=1, posix=1, bytes=4), some(total=4, unaligned=1, nvfs=4, bytes=1)
    found = decode([0] * WORDS, level_3(1200, first, second), 1200)
    assert (found.total, found.p2p, found.nvfs, found.posix, found.unaligned) == (10, 2, 7, 1, 1)
    assert (found.bytes, found.gpus, found.batch_total, found.process_ops) == (55, 2, 0, 0)


def test_batches_are_counted_for_the_process():
    # As printed by libcufile 1.20 after 40 batch reads of 64 KiB and one of 64 KiB without a batch, here.
    words = [0] * WORDS
    for at, value in {0: 2, 1: 1, 4: 2, 12: 65536, 22: 34, 24: 5, 26: 1, 44: 40, 50: 40, 52: 2621440}.items():
        words[at] = value
    found = decode(words, [0] * WORDS, 1200)
    assert (found.batch_total, found.batch_aio, found.batch_bytes) == (40, 40, 2621440)
    assert (found.process_ops, found.process_bytes, found.gpus) == (2, 65536, 0)


def test_nonsense_is_refused():
    words = [0] * WORDS
    words[142] = 33
    with pytest.raises(ValueError, match=r"name 33 GPUs: not the layout of libcufile 1\.20"):
        decode([0] * WORDS, words, 1200)


COUNTERS = st.builds(CuFileCounters, **{f.name: st.integers(0, 1 << 40) for f in dataclasses.fields(CuFileCounters)})


@given(COUNTERS, COUNTERS)
def test_growth_is_by_word_and_json_keeps_it(earlier, later):
    growth = later - earlier
    for field in dataclasses.fields(CuFileCounters):
        before, after = getattr(earlier, field.name), getattr(later, field.name)
        assert getattr(growth, field.name) == (after if field.name == "gpus" else after - before)
    assert CuFileCounters.from_json(growth.to_json()) == growth


def test_word_offsets_are_those_of_nvidia_s_binding():
    cufile = pytest.importorskip("cuda.bindings.cufile", exc_type=ImportError)
    if not hasattr(cufile, "stats_level3_dtype"):
        pytest.skip("this cuda-bindings shows no structure of cuFile's statistics")
    numpy = pytest.importorskip("numpy")
    process, all_gpus = (numpy.zeros(1, dtype) for dtype in (cufile.stats_level1_dtype, cufile.stats_level3_dtype))
    version = 1200 if "readv_ops" in process.dtype.fields else 1150
    numbers = iter(range(1, 100))
    seen = {}
    for name in (
        "read_bytes", "write_bytes", "batch_posix_enqueued_ops", "batch_nvfs_submit_ops", "batch_p2p_submit_ops",
        "batch_aio_submit_ops", "batch_iouring_submit_ops", "batch_mixed_io_submit_ops", "batch_total_submit_ops",
        "batch_read_bytes", "batch_write_bytes", "read_ops", "write_ops",
    ):  # fmt: skip
        seen[name] = next(numbers)
        field = process[0][name]
        if field.dtype.fields:
            field["ok"] = seen[name]
        else:
            process[0][name] = seen[name]
    all_gpus[0]["num_gpus"] = 2
    gpus = all_gpus[0]["per_gpu_stats"]
    gpus = gpus.view(cufile.per_gpu_stats_dtype).reshape(-1)
    for gpu in gpus[:2]:
        for name in ("total", "p2p", "nvfs", "posix", "unaligned"):
            for kind in ("reads", "writes"):
                gpu[f"n_{name}_{kind}"] = number = next(numbers)
                seen[name] = seen.get(name, 0) + number
        for name in ("read_bytes", "writes_bytes"):
            gpu[name] = number = next(numbers)
            seen["bytes"] = seen.get("bytes", 0) + number
    words = [list(map(int, array.view(numpy.uint64))) + [0] * 600 for array in (process, all_gpus)]
    found = decode(words[0], words[1], version)
    assert found == CuFileCounters(
        **{name: seen[name] for name in ("total", "p2p", "nvfs", "posix", "unaligned", "bytes")},
        batch_total=seen["batch_total_submit_ops"],
        batch_nvfs=seen["batch_nvfs_submit_ops"],
        batch_p2p=seen["batch_p2p_submit_ops"],
        batch_aio=seen["batch_aio_submit_ops"],
        batch_io_uring=seen["batch_iouring_submit_ops"],
        batch_posix=seen["batch_posix_enqueued_ops"],
        batch_mixed=seen["batch_mixed_io_submit_ops"],
        batch_bytes=seen["batch_read_bytes"] + seen["batch_write_bytes"],
        process_ops=seen["read_ops"] + seen["write_ops"],
        process_bytes=seen["read_bytes"] + seen["write_bytes"],
        gpus=2,
    )
