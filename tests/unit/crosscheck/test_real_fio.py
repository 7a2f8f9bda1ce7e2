"""Tiny cells by the real fio and the real engine; nothing is asserted about speed."""

import hashlib
import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gpuio import datapaths, phases
from pytest_gpuio.core.errors import CapabilityMissing, ConfigError, GpuioError
from pytest_gpuio.crosscheck.compare import compare
from pytest_gpuio.crosscheck.fio import FioError, run
from pytest_gpuio.crosscheck.fio_job import fio_job
from pytest_gpuio.crosscheck.ours import Ours
from pytest_gpuio.crosscheck.request import Request, prepare
from pytest_gpuio.results import strict_json

SIZE = 8 << 20


@pytest.fixture
def ours():
    with Ours() as tool:
        yield tool


def request_for(folder, path="psync", workload="micro/randread", **changes):
    return Request(target=folder, path=datapaths.get(path), workload=phases.get(workload), size=SIZE, **changes)


def prepared(request, ours):
    try:
        return prepare(request, ours)[0]
    except CapabilityMissing as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("path", ["null", "psync", "libaio", "io_uring"])
def test_a_cell_by_both(tmp_path, ours, real_fio, said, path):
    plan = prepared(request_for(tmp_path, path, qd=1 if path == "psync" else 4), ours)
    long = path == "io_uring"  # fio's process is observed well inside its run only
    found = compare(plan, ours, real_fio, pairs=1, seconds=1.0 if long else 0.4, say=said)
    (pair,) = found.pairs.done
    assert [side.tool for side in (pair.ours, pair.theirs, pair.again)] == ["gpuio", "fio", "fio"]
    for side in (pair.ours, pair.theirs, pair.again):
        # What is in flight when fio's ramp ends is in one of its two counts only.
        assert abs(side.bytes - side.ios * 4096) <= plan.qd * 4096
        assert 0.2 < side.seconds < 10
        assert side.latency["p50"] <= side.latency["p99"] <= side.latency["p999"]
        # The tool's own figure, against the clock of its process read from outside.
        assert 0 < side.cores_told < 2
        if long:
            assert side.observed.process_cores == pytest.approx(side.cores_told, abs=0.35)
        # Little's law holds both sides to the depth; null answers at once.
        if path != "null":
            assert 0.3 * plan.qd < side.iops * side.latency["mean"] / 1e9 < 1.5 * plan.qd
    assert said.lines == ["pair 1/1: gpuio", "pair 1/1: fio", "pair 1/1: fio again"]
    content = found.to_json()
    assert strict_json.loads(strict_json.dumps(content), source="x")["figures"]["iops"]["ratio"]["count"] == 1
    assert found.foreign() is None or 0 <= found.foreign().median <= 1


def test_fio_stays_inside_the_region_and_covers_it(tmp_path, ours, real_fio):
    """strace as the independent observer of fio's offsets: the same blocks as ours, each once a round."""
    plan = replace(prepared(request_for(tmp_path), ours), region_bytes=1 << 20)
    trace = tmp_path / "trace"
    job = fio_job(plan, 1.0, ramp_s=0.0)
    arguments = [
        argument for argument in job.arguments if not argument.startswith(("--time_based", "--runtime", "--ramp"))
    ]
    command = ["strace", "-f", "-qq", "-e", "trace=pread64", "-o", str(trace), real_fio.path, *arguments]
    try:
        done = subprocess.run([*command, "--output=/dev/null"], capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("needs strace")
    if done.returncode and "ptrace" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    offsets = [int(offset) for offset in re.findall(r", 4096, (\d+)\) *= 4096$", trace.read_text(), re.MULTILINE)]
    assert sorted(offsets) == list(range(plan.region_offset, plan.region_offset + (1 << 20), 4096))


def test_a_writing_cell_spares_the_header_and_the_file(tmp_path, ours, real_fio, said):
    plan = prepared(request_for(tmp_path, "psync", "micro/randwrite", qd=1), ours)
    file = Path(plan.path)
    before, head = file.stat(), hashlib.sha256(file.read_bytes()[: plan.region_offset]).digest()
    found = compare(plan, ours, real_fio, pairs=1, seconds=0.4, say=said)
    assert found.pairs.done[0].theirs.ios > 0
    after = file.stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    assert hashlib.sha256(file.read_bytes()[: plan.region_offset]).digest() == head


def test_two_jobs_that_read_and_write_are_one_figure(tmp_path, ours, real_fio, said):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    plan = prepared(request_for(tmp_path, "libaio", "micro/randrw70", qd=2, jobs=2), ours)
    side = compare(plan, ours, real_fio, pairs=1, seconds=0.4, say=said).pairs.done[0].theirs
    assert abs(side.bytes - side.ios * 4096) <= 2 * plan.qd * 4096
    assert 0.6 < side.iops * side.latency["mean"] / 1e9 < 6  # four in flight


def test_fio_makes_no_file(tmp_path, real_fio, ours):
    plan = replace(prepared(request_for(tmp_path), ours), path=str(tmp_path / "missing"))
    job = fio_job(plan, 0.3, ramp_s=0.0)
    with pytest.raises(FioError):
        run(real_fio, job.arguments, seconds=job.seconds)
    assert not (tmp_path / "missing").exists()


def test_an_unaligned_block_is_refused_before_any_io(tmp_path, ours):
    with pytest.raises(ConfigError, match="multiple"):
        prepare(request_for(tmp_path, bs=1000), ours)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_capability_names_path_and_target(tmp_path, ours):
    with pytest.raises(GpuioError, match=f"io_uring_cmd on {tmp_path} needs"):
        prepare(request_for(tmp_path, "io_uring_cmd"), ours)


def test_the_recording_is_what_this_fio_prints(tmp_path, ours, real_fio):
    """The keys that the parser reads exist in this version, too."""
    plan = prepared(request_for(tmp_path), ours)
    job = fio_job(plan, 0.3, ramp_s=0.0)
    told = subprocess.run(
        [real_fio.path, *job.arguments, "--output-format=json", "--eta=never"],
        capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path,
    ).stdout  # fmt: skip
    recorded = json.loads((Path(__file__).parents[2] / "data/fio/psync.json").read_text())
    now = json.loads(told[told.index("{") :])
    for key in ("error", "usr_cpu", "sys_cpu", "job_runtime", "read"):
        assert key in now["jobs"][0]
        assert key in recorded["jobs"][0]
    for key in ("total_ios", "io_bytes", "runtime", "short_ios", "lat_ns"):
        assert key in now["jobs"][0]["read"]
    assert "99.900000" in now["jobs"][0]["read"]["lat_ns"]["percentile"]
