"""Traces of block I/O and frameworks through pytest, measured for real; what is told before and kept after a run."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil

import pytest

SUITE = """
import pytest


@pytest.mark.workload({names})
def test_model(gpuio):
    gpuio.run()
"""
TRACES = """
import pytest


@pytest.mark.workload("inference/kv_trace")
def test_requests(gpuio):
    gpuio.run()


@pytest.mark.workload("micro/block_trace")
def test_block_io(gpuio):
    gpuio.run()
"""
SMALL = "ranks=2,scale=0.002"


@pytest.fixture
def target(target):
    yield target
    shutil.rmtree(target / "models", ignore_errors=True)


@pytest.fixture
def iolog(tmp_path):
    """Twenty I/Os, 50 ms apart (late is what comes a gap late), on a file that is there."""
    traced = tmp_path / "traced.dat"
    traced.write_bytes(b"theirs" * 1000)
    lines = [
        f"{1 + 50_000 * i} {traced} {'write' if i % 4 == 3 else 'read'} {4096 * (7 * i % 40)} {4096 * (1 + i % 3)}"
        for i in range(20)
    ]
    path = tmp_path / "some.iolog"
    path.write_text(f"fio version 3 iolog\n1 {traced} add\n1 {traced} open\n" + "\n".join(lines) + "\n")
    return path


def test_a_block_trace_is_replayed_on_a_file_of_ours_and_told_ahead(gpuio_run, results, iolog, target):
    outcome = gpuio_run(
        "--gpuio-datapath=io_uring", f"--gpuio-workload-param=file={iolog}", "--gpuio-max-time=2900ms", "-rs",
        suite=TRACES,
    )  # fmt: skip
    outcome.assert_outcomes(passed=1, skipped=1)
    # Before the first dot: 15 reads and 5 writes of one, two or three blocks.
    text = outcome.stdout.str()
    line = re.search(r"gpuio: micro/block_trace\[file=\S+\] replays (.*)", text)
    assert line is not None
    assert line[1].startswith("15 reads of ")
    assert "5 writes of " in line[1]
    assert "its times span 0.95 s, and a pass replays all of it" in line[1]
    assert line.start() < text.index("test_suite.py")
    assert "is a trace of I/O (iolog), not of requests: the workload micro/block_trace replays it" in text
    (cell,) = results()["cells"]
    assert cell["replay"]["timed"]
    assert cell["replay"]["groups"] == 20
    assert cell["replay"]["wanted_bytes"] == 4096 * sum(1 + i % 3 for i in range(20))
    # 19 gaps of 50 ms.
    assert min(cell["windows"]["seconds"]) >= 0.949
    assert cell["verify"]["checked"] > 0
    assert cell["reads"] == 15 * cell["windows"]["count"]
    # What was traced is not touched; what is replayed lies below the target.
    assert (iolog.parent / "traced.dat").read_bytes() == b"theirs" * 1000
    assert [path.name for path in (target / "models" / "micro-block_trace").iterdir()] == ["trace"]


def test_a_long_trace_says_how_much_of_it_a_pass_replays(gpuio_run, tmp_path):
    path = tmp_path / "long.iolog"
    lines = [f"{1 + 1_000_000 * i} /dev/x read {4096 * i} 4096" for i in range(600)]
    path.write_text("fio version 3 iolog\n1 /dev/x add\n1 /dev/x open\n" + "\n".join(lines) + "\n")
    outcome = gpuio_run(
        "--collect-only", "--gpuio-max-time=6s", suite=SUITE.format(names=f"'micro/block_trace[file={path}]'")
    )
    outcome.stdout.fnmatch_lines(
        ["*its times span 599.0 s (9 min 59 s), of which a pass replays the first 2 s (3 of 600 groups; all with "
         "--gpuio-max-time=1797s, or use speed=)*"]
    )  # fmt: skip


def test_a_trace_that_cannot_be_read_is_its_own_tests_failure(gpuio_run):
    outcome = gpuio_run(
        "--gpuio-datapath=io_uring", suite=SUITE.format(names="'micro/block_trace[file=/nonesuch.iolog]'")
    )
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["*/nonesuch.iolog: cannot be read: ENOENT*"])


def test_what_models_leave_is_told_and_removed_on_demand(gpuio_run, target):
    suite = SUITE.format(names=f"'pretrain/checkpoint_restore[{SMALL}]'")
    kept = gpuio_run("--gpuio-datapath=psync", suite=suite)
    kept.assert_outcomes(passed=1)
    told = re.search(r"files of workload models take (\S+)MB in (\S+) and stay for the next run", kept.stdout.str())
    assert told is not None
    on_disk = sum(path.stat().st_blocks * 512 for path in (target / "models").rglob("*") if path.is_file())
    assert float(told[1]) == pytest.approx(on_disk / 1e6, rel=0.01)
    assert told[2] == f"{target}/models"
    theirs = target / "models" / "theirs.txt"
    theirs.write_text("theirs")
    gone = gpuio_run("--gpuio-datapath=psync", "--gpuio-clean", suite=suite)
    gone.stdout.fnmatch_lines([f"*files of workload models (*MB) were removed from {target}*"])
    assert {path.name for path in (target / "models").iterdir()} <= {"theirs.txt", "CACHEDIR.TAG"}
    assert theirs.read_text() == "theirs"


needs_safetensors = pytest.mark.skipif(
    importlib.util.find_spec("safetensors") is None, reason="safetensors is not installed"
)


@needs_safetensors
def test_a_framework_is_measured_beside_the_raw_path_with_the_same_bytes(gpuio_run, results, target):
    names = (f"'pretrain/checkpoint_ranks[{SMALL}]'", f"'pretrain/checkpoint_restore[{SMALL}]'")
    outcome = gpuio_run(
        "--gpuio-datapath=safetensors,psync", "-p", "no:randomly", suite=SUITE.format(names=", ".join(names))
    )
    outcome.assert_outcomes(passed=4)
    cells = {
        (cell["axes"]["workload"].partition("[")[0], cell["axes"]["datapath"]): cell for cell in results()["cells"]
    }
    for workload in ("pretrain/checkpoint_ranks", "pretrain/checkpoint_restore"):
        raw, ours = cells[workload, "psync"], cells[workload, "safetensors"]
        assert ours["windows"]["ios_per_window"] == raw["windows"]["ios_per_window"]
        # Framing differs, and the raw path's is rounded for O_DIRECT.
        ratio = ours["bytes"] / ours["windows"]["count"] / (raw["bytes"] / raw["windows"]["count"])
        assert ratio == pytest.approx(1.0, abs=0.01)
        assert ours["axes"]["cache"] == "cold"
        assert ours["verify"]["checked"] > 0
        assert ours["verify"]["bad"] == 0
        assert ours["library"]["settings"]["framework"] == "safetensors"
        # Two ranks in two processes, whose CPU is all counted.
        assert ours["replay"]["ranks"]["processes"] == 2
        assert [daemon["seconds"] > 0 for daemon in ours["cpu"]["daemons"]] == [True]
        assert ours["effective"]["datapath"] == "safetensors"
    assert cells["pretrain/checkpoint_ranks", "safetensors"]["durability"]["syncs"] > 0
    # Its folders are gone; what the raw path laid out stays.
    assert not list((target / "models").rglob("safetensors-*"))


@needs_safetensors
def test_frameworks_say_what_they_have_no_part_in(gpuio_run, target):
    names = "'inference/kv_fetch', 'inference/kv_offload', 'inference/cold_start[strategy=sliced,tensor_parallel=8]'"
    outcome = gpuio_run("--gpuio-datapath=safetensors", "-rs", suite=SUITE.format(names=names))
    outcome.assert_outcomes(skipped=3)
    text = outcome.stdout.str()
    assert "it has no part in inference/kv_fetch; try pretrain/checkpoint_ranks" in text
    assert "it has no part in inference/kv_offload" in text
    assert "frameworks load one whole model once" in text
    assert not list(target.iterdir())


@needs_safetensors
def test_a_smoke_run_of_a_framework(gpuio_run, target):
    gpuio_run(
        "--gpuio-datapath=safetensors", "--benchmark-disable",
        suite=SUITE.format(names="'inference/cold_start[model=qwen2.5-0.5b,scale=0.002]'"),
    ).assert_outcomes(passed=1)  # fmt: skip
    assert not list((target / "models").rglob("*.safetensors"))


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is installed")
def test_an_absent_framework_is_a_skip_with_the_install_line(gpuio_run):
    outcome = gpuio_run(
        "--gpuio-datapath=torch_save,torch_dcp", "-rs", suite=SUITE.format(names="'inference/cold_start'")
    )
    outcome.assert_outcomes(skipped=2)
    outcome.stdout.fnmatch_lines(
        ["*needs torch: PyTorch is not installed: pip install 'pytest-gpuio[[]frameworks[]]'*"]
    )


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_torch_is_measured(gpuio_run, results):
    outcome = gpuio_run(
        "--gpuio-datapath=torch_save,torch_dcp",
        suite=SUITE.format(names=f"'pretrain/checkpoint_ranks[{SMALL}]', 'inference/cold_start[scale=0.001]'"),
    )
    outcome.assert_outcomes(passed=4)
    for cell in results()["cells"]:
        assert cell["verify"]["checked"] > 0
        assert json.dumps(cell["library"]["settings"]).count("torch") > 0
