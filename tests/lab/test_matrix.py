"""Every data path on every medium, on real Linux drivers: what each is found to be, and that the right bytes moved."""

import json
import shutil

import pytest
from vmlab.devices import ALL, DEVICES
from vmlab.matrix import fates, table

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
POLLED = {"nvme", "nvme4k", "dm", "md", "ext4", "null_blk", "nvmeof"}
PLAIN = ("psync", "libaio", "io_uring", "io_uring_sqpoll", "mmap")
POLLING = ("io_uring_iopoll", "io_uring_full")


@pytest.fixture(scope="session")
def outcome(boot):
    """Outcome of the one boot with every device."""
    if shutil.which("mkfs.xfs", path="/usr/sbin:/sbin") is None:
        pytest.skip("needs mkfs.xfs (apt-get install xfsprogs)")
    return boot("matrix", "all", deadline_s=900)


@pytest.fixture(scope="session")
def found(outcome, tables):
    found = fates(outcome.share / "matrix.json")
    rows = [(name, f"{MEDIA[name]}: {DEVICES[name].title}") for name in MEDIA if name in outcome.devices]
    paths = tuple(dict.fromkeys(path for _, path in found))
    tables["medium x data path (emulated devices, real drivers; ok = the right bytes by the right path)"] = table(
        rows, paths, found
    )
    return found


def test_every_device_was_built(outcome):
    assert outcome.missing == {}
    assert set(MEDIA) <= set(outcome.devices)
    assert set(MEDIA) == {name for name in ALL if not name.startswith(("under_", "files"))}


@pytest.mark.parametrize("name", MEDIA)
def test_each_device_is_known_for_what_it_is(found, outcome, name):
    media = {fate.target["medium"] for (target, _), fate in found.items() if target == name and fate.target}
    assert media == {MEDIA[name]}, found


@pytest.mark.parametrize("path", PLAIN)
@pytest.mark.parametrize("name", sorted(set(MEDIA) - GENERIC - {"devdax"}))
def test_plain_paths_move_the_right_bytes_everywhere(found, name, path):
    assert found[name, path].state == "ok", found[name, path]


@pytest.mark.parametrize("path", POLLING)
@pytest.mark.parametrize("name", sorted(set(MEDIA) - GENERIC - {"devdax"}))
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
    others = {path: fate for (target, path), fate in found.items() if target == name and path != "io_uring_cmd"}
    assert others
    assert all(fate.state == "n/a" and fate.reason.startswith("needs file_io: ") for fate in others.values())


def test_no_cell_is_blank(found, outcome):
    paths = {path for _, path in found}
    blank = [(name, path) for name in MEDIA for path in paths if (name, path) not in found]
    assert blank == []
    assert [(key, fate) for key, fate in found.items() if fate.state == "n/a" and not fate.reason] == []


def test_polled_requests_interrupt_nobody(outcome):
    """The kernel's own counts, taken around whole runs: layout was done before, so all requests are the cell's."""
    seen = json.loads((outcome.share / "interrupts.json").read_text())
    requests = {}
    for path in seen:
        told = json.loads((outcome.share / f"counted_{path}.json").read_text())
        (cell,) = told["cells"] or [pytest.skip(f"{path} was void under emulation: {told['voids']}")]
        requests[path] = cell["ios"]
    assert seen["io_uring"] > requests["io_uring"] / 8, (seen, requests)
    assert seen["io_uring_iopoll"] < requests["io_uring_iopoll"] / 20, (seen, requests)
