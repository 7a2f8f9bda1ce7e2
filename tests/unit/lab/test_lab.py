"""The lab's own logic, without a machine: archives, devices, the table, the command line."""

import json
import subprocess

import pytest
from vmlab import command, kernel
from vmlab.devices import ALL, DEVICES, closure, qemu_options
from vmlab.errors import LabUnavailable
from vmlab.initramfs import cpio
from vmlab.matrix import Fate, fates, table
from vmlab.programs import find


def test_archives_are_what_busybox_reads(tmp_path):
    if find("busybox") is None:
        pytest.skip("needs busybox")
    entries = [("folder", 0o040755, b""), ("folder/odd", 0o100644, b"12345"), ("program", 0o100755, b"x" * 4096)]
    archive = tmp_path / "archive"
    archive.write_bytes(cpio(entries))
    with archive.open("rb") as file:
        subprocess.run([find("busybox"), "cpio", "-i"], stdin=file, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "folder/odd").read_bytes() == b"12345"
    assert (tmp_path / "program").stat().st_size == 4096
    assert (tmp_path / "program").stat().st_mode & 0o777 == 0o755


def test_foundations_come_first_and_once():
    assert closure(["loop", "ext4"]) == ("files", "ext4", "loop")
    assert set(closure(["all"])) == set(ALL)
    for index, name in enumerate(closure(["all"])):
        assert set(DEVICES[name].stands_on) <= set(closure(["all"])[:index])
    with pytest.raises(LabUnavailable, match="no device 'floppy'"):
        closure(["floppy"])


def test_an_iommu_comes_before_what_it_translates_for(tmp_path):
    assert qemu_options(closure(["removable", "iommu"]), tmp_path)[:2] == ["-device", "intel-iommu,aw-bits=48"]


def test_devices_come_in_the_order_asked_for(tmp_path):
    # Behind an expander bus QEMU would put on it what names no bus of its own.
    words = qemu_options(closure(["bad_nvme", "numa_nvme", "iommu"]), tmp_path)
    at = [
        words.index(next(word for word in words if word.startswith(start)))
        for start in ("intel-iommu", "nvme,drive=bad_nvme", "pxb-pcie")
    ]
    assert at == sorted(at)


def test_each_emulated_disk_has_options_and_an_image_of_its_own(tmp_path):
    emulated = [name for name, device in DEVICES.items() if device.qemu is not None and name != "iommu"]
    words = qemu_options(emulated, tmp_path)
    assert words.count("nvme,id=labnvme,serial=LABNVME") == 1
    assert {path.stem for path in tmp_path.glob("*.img")} == set(emulated)
    # QEMU takes neither quotes nor a drive that nothing uses.
    assert not any('"' in word for word in words)
    for name in emulated:
        assert (
            sum(
                f"drive={name}," in word or word.endswith(f"drive={name}") or f"memdev={name}mem" in word
                for word in words
            )
            == 1
        ), name


def results(tmp_path, **kinds):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"cells": [], "voids": [], "skips": [], "failures": []} | kinds))
    return path


def case(path, target="disk", workload="micro/randrw70"):
    return f"suite|datapath={path}|medium=m|target={target}|workload={workload}"


def cell(path, **states):
    gates = (
        dict.fromkeys(("path_proved", "no_errors", "no_short_io", "data_verified", "device_bytes"), "passed") | states
    )
    axes = {"datapath": path, "target": "disk"}
    listed = [{"gate": gate, "state": state, "detail": "why"} for gate, state in gates.items()]
    return {"case": case(path), "axes": axes, "gates": listed, "target": {"medium": "m"}}


def void(path, gate, **states):
    told = cell(path, **({gate: "failed"} | states))
    evidence = [f"{each['gate']} {each['state']}: why" for each in told["gates"]]
    return {"case": told["case"], "axes": told["axes"], "gate": gate, "reason": f"{gate}: why", "evidence": evidence}


def test_only_right_bytes_by_the_right_path_are_ok(tmp_path):
    found = fates(
        results(
            tmp_path,
            cells=[
                cell("a"),
                cell("unverified", data_verified="unknown"),
                {**cell("b"), "case": case("b", workload="other")},
            ],
            voids=[
                void("slow", "depth_achieved"),
                void("wrong", "path_proved"),
                void("both", "littles_law", no_errors="failed"),
            ],
            skips=[{"case": case("c"), "reason": "needs x: because"}, {"case": None, "reason": "no cell"}],
            failures=[{"case": case("d"), "reason": "broke"}],
        )
    )
    states = {path: fate.state for (_, path), fate in found.items()}
    assert states == {
        "a": "ok", "unverified": "FAILED", "slow": "ok", "wrong": "FAILED", "both": "FAILED", "c": "n/a", "d": "FAILED"
    }  # fmt: skip
    assert found["disk", "slow"].reason == "timing means nothing here: depth_achieved"


def test_the_table_has_a_word_in_each_cell_and_one_note_for_equal_reasons():
    found = {
        ("a", "psync"): Fate("ok"),
        ("b", "psync"): Fate("n/a", "needs x: sda is none"),
        ("b", "mmap"): Fate("n/a", "needs x: vda is none"),
    }
    lines = table([("a", "first"), ("b", "second")], ["psync", "mmap"], found).splitlines()
    assert lines[0].split() == ["medium", "psync", "mmap"]
    assert lines[2].split() == ["first", "ok", "BLANK"]
    assert lines[3].split() == ["second", "n/a", "1", "n/a", "1"]
    assert lines[5:] == [" 1  needs x: DISK is none"]


def test_help_lists_every_device(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert all(f"    {name} " in told for name in DEVICES)


@pytest.mark.parametrize(("words", "said"), [(["--devices", "floppy", "--", "true"], "no device 'floppy'")])
def test_what_cannot_be_had_is_3(words, said, capsys):
    assert command.main(words) == 3
    assert said in capsys.readouterr().err


def test_a_missing_program_is_named_with_its_package(monkeypatch, tmp_path):
    monkeypatch.setattr("vmlab.programs._PATH", str(tmp_path))
    with pytest.raises(LabUnavailable, match=r"apt-get install .*qemu-system-x86"):
        kernel.fetch_kernel(cache=tmp_path)


def test_releases_are_numbers(tmp_path):
    assert kernel.Kernel(tmp_path, "6.12.95+deb12-amd64").release == (6, 12)
