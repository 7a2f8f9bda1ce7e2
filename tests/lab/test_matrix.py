"""Every data path on every medium, on real Linux drivers: what each is found to be, and that the right bytes moved."""

import json

import pytest
from vmlab.devices import ALL, DEVICES
from vmlab.matrix import Fate, fates, table

from pytest_gpuio.datapaths import DATAPATHS
from pytest_gpuio.results.validate import validate_file

pytestmark = pytest.mark.lab

#: What each device is found to be.
MEDIA = {
    "nvme": "nvme_ssd",
    "nvme4k": "nvme_ssd",
    "nvme_generic": "nvme_ssd",
    "nvme4k_generic": "nvme_ssd",
    "dm": "nvme_ssd",
    "md": "nvme_ssd",
    "ext4": "nvme_ssd",
    "loop": "nvme_ssd",
    "sata_ssd": "sata_ssd",
    "hdd": "hdd",
    "virtio": "virtual",
    "pmem": "pmem",
    "dax": "pmem",
    "dax_off": "nvme_ssd",
    "devdax": "pmem",
    "virtio_pmem": "virtual",
    "null_blk": "null_blk",
    "zram": "ram",
    "brd": "ram",
    "tmpfs": "ram",
    "nvmeof": "nvmeof",
}
GENERIC = {"nvme_generic", "nvme4k_generic"}
#: Devices that can be polled here, by the kernel's own word (queue/io_poll).
POLLED = {"nvme", "nvme4k", "dm", "null_blk", "nvmeof"}
#: Folders on devices that can be polled, where newer kernels poll for reads alone.
FOLDERS = ("ext4", "dax_off")
PLAIN = ("psync", "libaio", "io_uring", "io_uring_sqpoll", "mmap")
POLLING = ("io_uring_iopoll", "io_uring_full")


@pytest.fixture(scope="session")
def outcome(matrix):
    """Outcome of the one machine with every device."""
    return matrix.outcome


@pytest.fixture(scope="session")
def found(outcome, tables, kernel):
    found = fates(outcome.share / "matrix.json")
    again = outcome.share / "again.json"
    if again.exists():
        found |= fates(again)
    rows = [(name, f"{MEDIA[name]}: {DEVICES[name].title}") for name in MEDIA if name in outcome.devices]
    paths = host_paths(found)
    shown = dict(found)
    for path in POLLING:
        for name in FOLDERS:
            if found[name, path].state == "FAILED":
                # A limit of the kernel, which the gate found: judged in a test of its own.
                why = f"Linux {kernel.version} does not poll for writes to files (path_proved)"
                shown[name, path] = Fate("reads", why)
    text = table(rows, paths, shown)
    for name, path in found:
        if path not in paths:
            text += f"\n{path}, into GPU memory: {found[name, path].state}, {found[name, path].reason}"
    tables["medium x data path (emulated devices, real drivers; ok = the right bytes by the right path)"] = text
    return found


def host_paths(found):
    """Data paths that were tried on all targets; those into GPU memory were on one."""
    return tuple(dict.fromkeys(path for name, path in found if name == "brd"))


def test_every_device_was_built(outcome):
    assert outcome.missing == {}
    assert set(MEDIA) <= set(outcome.devices)
    assert set(MEDIA) == {name for name in ALL if not name.startswith(("under_", "files"))}


@pytest.mark.parametrize("name", MEDIA)
def test_each_device_is_known_for_what_it_is(found, outcome, name):
    told = json.loads((outcome.share / "matrix.json").read_text())
    media = {
        dict(part.split("=", 1) for part in each["case"].split("|")[1:])["medium"]
        for kind in ("cells", "voids", "skips", "failures")
        for each in told[kind]
        if f"|target={name}|" in each["case"]
    }
    assert media == {MEDIA[name]}


@pytest.mark.parametrize("path", PLAIN)
@pytest.mark.parametrize("name", sorted(set(MEDIA) - GENERIC - {"devdax"}))
def test_plain_paths_move_the_right_bytes_everywhere(found, kernel, name, path):
    if (name, path) == ("tmpfs", "mmap"):
        # Its page cache cannot be emptied, and a mapping that is not DAX is measured cold unless asked otherwise.
        assert found[name, path].reason.startswith("needs cold_cache: ")
        return
    if (name, path) == ("dax", "mmap"):
        # There a map is the data path dax.
        assert found[name, path].reason.startswith("needs page_cache: ")
        return
    if name == "tmpfs" and kernel.release < (6, 6):
        assert found[name, path].reason.startswith("needs o_direct: ")
        return
    assert found[name, path].state == "ok", found[name, path]


@pytest.mark.parametrize("path", POLLING)
@pytest.mark.parametrize("name", sorted(set(MEDIA) - GENERIC - {"devdax", *FOLDERS}))
def test_polling_works_where_there_are_poll_queues_and_is_refused_elsewhere(found, name, path):
    fate = found[name, path]
    if name in POLLED:
        assert fate.state == "ok", fate
    else:
        assert fate.state == "n/a"
        assert fate.reason.startswith("needs io_poll: ")


@pytest.mark.parametrize("name", sorted(GENERIC))
def test_passthrough_commands_move_the_right_bytes(found, name):
    assert found[name, "io_uring_cmd"].state == "ok", found[name, "io_uring_cmd"]
    for path in (*PLAIN, *POLLING):
        assert found[name, path].state == "n/a"
        assert found[name, path].reason.startswith("needs file_io: "), found[name, path]


def test_no_cell_is_blank(found, outcome):
    blank = [(name, path) for name in MEDIA for path in host_paths(found) if (name, path) not in found]
    assert blank == []
    # Nothing is left out of the table but paths that end in GPU memory.
    gpu = {path.name for path in DATAPATHS.values() if "host" not in path.destinations and not path.by_name}
    assert {path for _, path in found} - set(host_paths(found)) == gpu
    assert [(key, fate) for key, fate in found.items() if fate.state == "n/a" and not fate.reason] == []


@pytest.mark.parametrize("name", FOLDERS)
def test_kernels_that_do_not_poll_for_writes_to_files_are_found_out(found, outcome, kernel, name):
    reads = fates(outcome.share / "matrix.json", "micro/randread")
    for path in POLLING:
        assert reads[name, path].state == "ok", reads[name, path]
        if kernel.release < (6, 6):
            assert found[name, path].state == "ok"
        else:
            assert "path_proved: asked for" in found[name, path].reason
            assert found[name, path].reason.endswith(": not polled")


def test_polled_requests_interrupt_nobody(outcome):
    """The kernel's own counts around each cell, against the requests that the cell says it made."""
    notes = [json.loads(line) for line in (outcome.share / "interrupts.jsonl").read_text().splitlines()]
    seen = {
        note["datapath"]: note["interrupts"] / note["ios"]
        for note in notes
        if note["target"] == "nvme4k" and note["workload"] == "micro/randrw70"
    }
    # Its first cell also laid it out.
    assert seen["io_uring"] > 0.1, notes
    assert seen["io_uring_iopoll"] < 0.02, notes


def test_nvme_over_tcp_is_not_taken_for_a_local_drive(outcome):
    cells = json.loads((outcome.share / "matrix.json").read_text())["cells"]
    told = next(cell["target"] for cell in cells if cell["axes"]["target"] == "nvmeof")
    assert told["medium"] == "nvmeof"
    assert {device["transport"] for device in told["devices"]} == {"tcp"}
    # Its model is an Optane's: where it is decides, not what it is.
    assert {device["model"] for device in told["devices"]} == {"INTEL SSDPE21K375GA"}


def test_the_results_are_valid(outcome):
    assert validate_file(outcome.share / "matrix.json") == []


def test_dax_is_proved_and_refused_where_it_is_silently_off(found):
    if not any(path == "dax" for _, path in found):
        pytest.skip("no dax data path in this version")
    fate = found["dax", "dax"]
    assert fate.state == "ok", fate
    assert "(MAP_SYNC; sf in smaps): yes" in fate.gates["path_proved"][1]
    # Among them the folder whose file system was told dax=always and has none.
    for name in set(MEDIA) - GENERIC - {"dax", "devdax"}:
        assert found[name, "dax"].state == "n/a", (name, found[name, "dax"])
        assert found[name, "dax"].reason.startswith("needs dax: ")


def test_devdax_is_loads_and_stores_and_nothing_else(found):
    assert found["devdax", "dax"].state == "ok", found["devdax", "dax"]
    for path in (*PLAIN, *POLLING, "io_uring_cmd"):
        assert found["devdax", path].state == "n/a", found["devdax", path]
