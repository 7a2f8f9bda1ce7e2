"""Probes of targets that need no special hardware."""

from pytest_gpuio.measure import probes
from pytest_gpuio.media import BlockDevice, Medium

POLLED = BlockDevice("nvme0n1", "259:0", io_poll=True)


def stands_on(monkeypatch, top, *devices):
    """A made-up stack: what is probed is our judgement of it."""
    monkeypatch.setattr(probes, "classify", lambda _: Medium("nvme_ssd", (), devices=devices))
    monkeypatch.setattr(probes, "top_device", lambda _: top)


def test_polling_passes_through_what_says_so(monkeypatch):
    stands_on(monkeypatch, BlockDevice("dm-0", "253:0", io_poll=True), POLLED)
    assert probes.run("io_poll", "/dev/dm-0") is None


def test_polling_ends_at_an_array_that_does_not_pass_it_on(monkeypatch):
    stands_on(monkeypatch, BlockDevice("md0", "9:0", io_poll=False), POLLED)
    reason = probes.run("io_poll", "/dev/md0")
    assert reason.startswith("md0 does not pass polling on (queue/io_poll is 0), though nvme0n1 below it")


def test_what_has_no_uppermost_device_is_judged_by_those_below(monkeypatch):
    stands_on(monkeypatch, None, POLLED)
    assert probes.run("io_poll", "/mnt/btrfs") is None


def test_where_maps_have_no_page_cache_they_are_another_data_path(monkeypatch, tmp_path):
    assert probes.run("page_cache", str(tmp_path)) is None
    assert probes.run("page_cache", "spdk:pci:0000:03:00.0") is None  # that it is no file is told by file_io
    monkeypatch.setattr(probes, "refuses_dax", lambda _target: None)
    assert probes.run("page_cache", str(tmp_path)).endswith("without page cache: use --gpuio-datapath=dax")


def test_a_file_in_memory_has_no_cold_cache(mounted):
    point = mounted("tmpfs", options="size=1m")
    assert "use --gpuio-cache=hot" in probes.run("cold_cache", str(point))
    assert probes.run("cold_cache", "/proc/self/exe") is None
