"""``gpuio probe`` against this machine: what other observers say of it."""

import json
import os
import resource
from pathlib import Path

import pytest

from pytest_gpuio import datapaths
from pytest_gpuio.capabilities import CAPABILITIES
from pytest_gpuio.cli import main

PATHS = {
    "null",
    "psync",
    "libaio",
    "io_uring",
    "io_uring_sqpoll",
    "io_uring_iopoll",
    "io_uring_full",
    "io_uring_cmd",
    "mmap",
    "dax",
    "gds",
    "gds_batch",
    "gds_stream",
    "gds_compat",
    "gds_compat_batch",
    "gds_compat_stream",
    "kvikio",
    "nixl_posix",
    "nixl_gds",
    "nixl_gds_mt",
    "torch_save",
    "torch_dcp",
    "safetensors",
}


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("target")
    file = folder / "probe.json"
    assert main(["probe", str(folder), "--json", str(file)]) == 0
    return folder, json.loads(file.read_text())


def test_machine_and_limits_are_this_machines(probed):
    _, found = probed
    assert (found["schema"], found["kind"]) == (1, "gpuio-probe")
    assert found["machine"]["kernel"] == os.uname().release
    assert found["cpus"]["usable"] == sorted(os.sched_getaffinity(0))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = found["limits"]
    assert limits["open_files_soft"] == (None if soft == resource.RLIM_INFINITY else soft)
    assert limits["open_files_hard"] == (None if hard == resource.RLIM_INFINITY else hard)
    assert limits["aio_max_nr"] == int(Path("/proc/sys/fs/aio-max-nr").read_text())
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    assert limits["memlock_limit"] == ("unlimited" if locked == resource.RLIM_INFINITY else locked)


def test_the_clock_has_a_cost_and_a_resolution(probed):
    clock = probed[1]["clock"]
    assert clock["reason"] is None
    assert clock["source"] in ("tsc", "monotonic")
    assert 0 < clock["cost_ns"] < 1e6
    assert 0 < clock["resolution_ns"] < 1e8


def test_every_capability_and_path_has_an_answer_or_a_reason(probed):
    _, found = probed
    assert [answer["name"] for answer in found["capabilities"]] == list(CAPABILITIES)
    named = [answer["name"] for answer in found["datapaths"]]
    assert named == list(datapaths.DATAPATHS)
    assert set(named) >= PATHS
    for answer in (*found["capabilities"], *found["datapaths"]):
        assert (answer["reason"] is None) == answer["available"]
    by_name = {answer["name"]: answer for answer in found["datapaths"]}
    assert by_name["null"]["available"]
    assert not by_name["io_uring_cmd"]["available"]
    # The first file that does direct I/O says whether psync's cells can.
    capable = {answer["name"]: answer["available"] for answer in found["capabilities"]}
    assert by_name["psync"]["available"] == (capable["engine"] and capable["o_direct"])


def test_the_target_is_where_it_is(probed):
    folder, found = probed
    target = found["target"]
    assert target["path"] == str(folder)
    mounts = {line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()}
    assert target["mount_point"] is None or target["mount_point"] in mounts
    assert target["evidence"]
    assert sorted(path.name for path in folder.iterdir()) == ["probe.json"]  # nothing was laid out


def test_the_text_says_the_same(probed, capsys):
    folder, found = probed
    assert main(["probe", str(folder)]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert os.uname().release in out
    assert f"target {folder}" in lines
    for answer in found["datapaths"]:
        (line,) = [
            line
            for line in lines[lines.index("data paths on this target") :]
            if line.startswith(f"  {answer['name']} ")
        ]
        assert line.split()[1] == ("yes" if answer["available"] else "no")
    assert "worth knowing" in out or not found["remedies"]
    assert max(map(len, lines)) <= 160


def test_without_a_target_some_paths_are_open(capsys):
    assert main(["probe", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["target"] is None
    by_name = {answer["name"]: answer for answer in found["datapaths"]}
    assert by_name["io_uring_iopoll"]["available"] in (None, False)
    assert not any(CAPABILITIES[answer["name"]].per_target for answer in found["capabilities"])
    assert main(["probe"]) == 0
    assert "gpuio probe TARGET says which" in capsys.readouterr().out


def test_what_cannot_be_a_target_is_refused(capsys, tmp_path):
    assert main(["probe", str(tmp_path / "no/such/folder")]) == 2
    assert "its parent directory does not exist" in capsys.readouterr().err


def test_somebody_elses_file_is_not_replaced(capsys, tmp_path):
    (tmp_path / "x.json").write_text("mine")
    assert main(["probe", "--json", str(tmp_path / "x.json")]) == 2
    assert (tmp_path / "x.json").read_text() == "mine"
