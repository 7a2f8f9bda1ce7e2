"""Frameworks for real, as far as they are installed: what they write, what comes back, and what windows count."""

import importlib.util
import json
from array import array
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_gpuio.core.errors import CapabilityMissing, EngineError
from pytest_gpuio.engine.replay import RESULTS
from pytest_gpuio.measure.frameworks import FRAMEWORKS
from pytest_gpuio.measure.frameworks.framework import import_framework
from pytest_gpuio.measure.frameworks.run import FrameworkRun
from pytest_gpuio.phases.objects import ObjectFile, Objects

pytest.importorskip("pytest_gpuio.engine")
NEEDS = {"torch_save": "torch", "torch_dcp": "torch", "safetensors": "safetensors"}
INSTALLED = [name for name, module in NEEDS.items() if importlib.util.find_spec(module) is not None]
every = pytest.mark.parametrize("name", INSTALLED or [pytest.param("none", marks=pytest.mark.skip("none installed"))])
FILES = (ObjectFile("a.pt", (("first", 100_000), ("second", 7))), ObjectFile("b.pt", (("third", 1 << 20),)))
BYTES = 100_007 + (1 << 20)


@pytest.fixture
def run_of(tmp_path):
    """A run of a framework on a folder; the plan is what a run looks at of one."""
    runs = []

    def run_of(name, direction="save", *, rank=None, ranks=((0, 1),), cache="cold", **changed):
        objects = Objects(direction, FILES, ranks, **changed)
        told = {"objects": objects.as_json(), "folder": str(tmp_path / "own"), "ios": [5] * len(ranks)}
        (tmp_path / "objects").write_text(json.dumps(told))
        plan = SimpleNamespace(
            engine=name, seed=1, cache=cache, replay=SimpleNamespace(objects=str(tmp_path / "objects"))
        )
        runs.append(FrameworkRun(plan, rank, memoryview(bytearray(4))))
        return runs[-1]

    yield run_of
    for run in runs:
        run.close()


@every
def test_saved_files_hold_every_byte_and_are_found_right(run_of, tmp_path, name):
    run = run_of(name, times=2)
    results = array("Q", [0] * (2 * RESULTS))
    run.prepare()
    window = run.replay(0, 2, results)
    on_disk = sum(path.stat().st_size for path in (tmp_path / "own").rglob("*") if path.is_file())
    # Container and metadata come on top of the tensors.
    assert BYTES < on_disk < BYTES + 20_000
    assert (window.ios, window.writes, window.reads, window.errors) == (5, 5, 0, 0)
    assert window.bytes == 2 * on_disk
    assert window.end_ns > window.start_ns
    assert window.cpu_ns > 0
    due, begin, end, consumed = zip(*(results[RESULTS * row : RESULTS * row + 4] for row in range(2)), strict=True)
    assert begin[0] < end[0] <= begin[1] < end[1] <= window.end_ns - window.start_ns
    assert (due, consumed) == ((0, end[0]), end)
    # A call per file, or per rank where a rank's files become one.
    assert run.histograms()["lat"].count == (2 if name == "torch_dcp" else 4)
    swept = run.sweep()
    assert (swept.checked, swept.bad) == (3, 0)


@every
def test_what_is_loaded_is_compared_to_the_byte(run_of, tmp_path, name):
    run = run_of(name, "load")
    run.prepare()
    window = run.replay(0, 1, array("Q", [0] * RESULTS))
    assert (window.ios, window.reads, window.errors) == (5, 5, 0)
    assert (run.sweep().checked, run.sweep().bad) == (3, 0)
    # One byte in the middle of the largest tensor.
    largest = max(
        (path for path in (tmp_path / "own").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    )
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    if name == "torch_save":
        content[len(content) // 2] ^= 0  # its archive has checksums that it does not look at
    run.replay(0, 1, array("Q", [0] * RESULTS))
    assert run.sweep().bad == 1


@every
def test_another_framework_free_reader_finds_the_same_bytes(run_of, tmp_path, name):
    """The content is position dependent and incompressible: no two kilobytes are alike."""
    run = run_of(name)
    run.replay(0, 1, array("Q", [0] * RESULTS))
    largest = max(
        (path for path in (tmp_path / "own").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    )
    blocks = np.frombuffer(largest.read_bytes()[-(1 << 19) :][: 400 << 10], np.uint8).reshape(-1, 1024)
    assert len({block.tobytes() for block in blocks}) == len(blocks)


@pytest.mark.skipif("safetensors" not in INSTALLED, reason="safetensors is not installed")
def test_a_safetensors_file_is_as_its_format_says(run_of, tmp_path):
    run_of("safetensors").replay(0, 1, array("Q", [0] * RESULTS))
    data = (tmp_path / "own" / "a.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert {name: entry["shape"] for name, entry in header.items()} == {"first": [100_000], "second": [7]}
    assert len(data) == 8 + length + 100_007


@every
def test_each_rank_reads_what_another_one_wrote(run_of, name):
    ranks = ((1,), (0,))
    one = run_of(name, "load", rank=0, ranks=ranks)
    other = run_of(name, "load", rank=1, ranks=ranks)
    for run, tensors in ((one, 1), (other, 2)):
        run.prepare()
        run.replay(0, 1, array("Q", [0] * RESULTS))
        assert (run.sweep().checked, run.sweep().bad) == (tensors, 0)


@every
def test_only_all_groups_are_run(run_of, name):
    with pytest.raises(EngineError, match="saves and loads all there is"):
        run_of(name).replay(0, 5, array("Q", [0] * (5 * RESULTS)))


@every
def test_more_than_memory_holds_is_refused_before_anything_is_made(run_of, tmp_path, name, monkeypatch):
    monkeypatch.setattr("pytest_gpuio.measure.frameworks.run.memory_bytes", lambda *_: 1 << 20)
    with pytest.raises(CapabilityMissing, match="use a smaller --gpuio-scale"):
        run_of(name)
    assert not (tmp_path / "own").exists()


def test_an_absent_framework_names_its_extra():
    with pytest.raises(CapabilityMissing, match=r"Nothing is not installed: pip install 'pytest-gpuio\[frameworks\]'"):
        import_framework("nothing_of_this_name", "Nothing")


def test_every_framework_path_has_its_driver():
    from pytest_gpuio.datapaths.frameworks import FRAMEWORK_PATHS

    assert {path.engine for path in FRAMEWORK_PATHS} == set(FRAMEWORKS)
    assert all(path.by_name and path.framework and path.caches[0] == "cold" for path in FRAMEWORK_PATHS)


@pytest.mark.skipif("safetensors" not in INSTALLED, reason="safetensors is not installed")
def test_what_a_framework_cannot_read_is_told_with_its_file(run_of, tmp_path):
    run = run_of("safetensors", "load")
    (tmp_path / "own" / "b.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(EngineError, match=r"safetensors: \S+b\.safetensors: "):
        run.replay(0, 1, array("Q", [0] * RESULTS))
