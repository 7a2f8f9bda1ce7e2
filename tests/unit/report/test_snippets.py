"""Settings are what their consumers take: JSON and YAML that parse, sizes in range, jobs that fio accepts."""

import json
import shutil
import subprocess

import pytest

from pytest_gpuio.analysis.recommend import recommend
from pytest_gpuio.report.snippets import snippets


@pytest.fixture
def settings(record, run):
    """Function: settings from three runs of cells given as (path, speed, axes)."""

    def make(*cells):
        made = []
        for path, speed, axes in cells:
            cell = record(1 / speed, case=f"s|datapath={path}|{axes}", effective__datapath=path)
            cell["axes"] |= {"datapath": path, **axes}
            cell["gates"] = []
            made.append(cell)
        return snippets(recommend([run(*made) for _ in range(3)]))

    return make


def test_each_consumer_gets_the_best_setting_of_the_path_it_knows(settings):
    found = settings(
        ("io_uring", 3.0, {}), ("libaio", 2.0, {"qd": 16}), ("libaio", 1.0, {"qd": 1}), ("nixl_posix", 0.5, {})
    )
    assert sorted(found) == [
        "deepspeed-inference-kv_fetch-virtual.json",
        "fio-inference-kv_fetch-virtual.fio",
        "lmcache-inference-kv_fetch-virtual.yaml",
    ]
    aio = json.loads(found["deepspeed-inference-kv_fetch-virtual.json"])["aio"]
    assert aio == {
        "block_size": 65536, "queue_depth": 16, "intra_op_parallelism": 1, "single_submit": True,
        "overlap_events": True,
    }  # fmt: skip
    assert "ioengine=io_uring\n" in found["fio-inference-kv_fetch-virtual.fio"]


def test_deepspeed_over_cufile(settings):
    found = settings(("gds", 1.0, {"destination": "gpu"}))
    assert json.loads(found["deepspeed-inference-kv_fetch-virtual-gpu.json"])["aio"]["use_gds"] is True


@pytest.mark.parametrize("bs", [4096, 65536, 100_000, 1 << 20, 64 << 20])
@pytest.mark.parametrize(("path", "compat"), [("gds", False), ("gds_compat", True)])
def test_cufile_takes_the_sizes(settings, path, compat, bs):
    (text,) = (text for name, text in settings((path, 1.0, {"bs": bs})).items() if name.startswith("cufile"))
    properties = json.loads(text)["properties"]
    assert properties["allow_compat_mode"] is compat
    # NVIDIA's configuration guide: multiples of 64 KiB; bounce buffers of 1 to 16 MiB; as many as a batch holds (128).
    assert properties["max_direct_io_size_kb"] % 64 == properties["per_buffer_cache_size_kb"] % 64 == 0
    assert properties["max_direct_io_size_kb"] * 1024 >= min(bs, 16 << 20)
    assert 1024 <= properties["per_buffer_cache_size_kb"] <= 16384
    assert properties["max_device_cache_size_kb"] // properties["per_buffer_cache_size_kb"] >= 128


def test_kvikio_takes_its_environment(settings):
    text = settings(("kvikio", 1.0, {"qd": 8, "jobs": 2}))["kvikio-inference-kv_fetch-virtual.env"]
    values = dict(line.split("=") for line in text.splitlines())
    assert values == {
        "KVIKIO_NTHREADS": "16", "KVIKIO_TASK_SIZE": "65536", "KVIKIO_GDS_THRESHOLD": "16384",
        "KVIKIO_BOUNCE_BUFFER_SIZE": "16777216", "KVIKIO_AUTO_DIRECT_IO_READ": "ON",
        "KVIKIO_AUTO_DIRECT_IO_WRITE": "ON",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "destination", "backend", "device"),
    [
        ("nixl_posix", "host", "POSIX", "cpu"),
        ("nixl_gds", "gpu", "GDS", "cuda"),
        ("nixl_gds_mt", "gpu", "GDS_MT", "cuda"),
    ],
)
def test_lmcache_takes_its_back_end(settings, path, destination, backend, device):
    found = settings((path, 1.0, {"destination": destination}))
    (text,) = (text for name, text in found.items() if name.startswith("lmcache"))
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which LMCache reads it with")
    content = yaml.safe_load(text)
    assert content["nixl_buffer_device"] == device
    extra = content["extra_config"]
    assert (extra["enable_nixl_storage"], extra["nixl_backend"]) == (True, backend)
    assert extra["nixl_path"]
    assert extra["nixl_pool_size"] > 0


@pytest.mark.parametrize(
    "path", ["psync", "libaio", "io_uring", "io_uring_sqpoll", "io_uring_iopoll", "io_uring_full", "mmap"]
)
@pytest.mark.parametrize(
    ("workload", "told"),
    [
        ("inference/kv_fetch", "rw=randread"), ("micro/seqwrite", "rw=write"),
        ("micro/randrw70", "rw=randrw\nrwmixread="), ("micro/zipfread", "random_distribution=zipf:"),
        ("pretrain/checkpoint_ranks", "a model: fio cannot follow it"), ("mine/own", "pattern is not known"),
    ],
)  # fmt: skip
def test_the_fio_job_is_one_that_fio_takes(settings, tmp_path, path, workload, told):
    (text,) = (text for name, text in settings((path, 1.0, {"workload": workload})).items() if name.startswith("fio"))
    assert told in text
    assert ("IT IS WRITTEN" in text) == (workload in ("micro/seqwrite", "micro/randrw70"))
    if shutil.which("fio") is None:
        pytest.skip("needs fio")
    job = tmp_path / "job.fio"
    job.write_text(text)
    done = subprocess.run(
        ["fio", "--parse-only", str(job)], capture_output=True, text=True, timeout=30, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert list(tmp_path.iterdir()) == [job]
