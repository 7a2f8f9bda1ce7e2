"""Counters of the block layer."""

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.media import Counters, Medium, device_counters
from pytest_gpuio.media.counters import parse_stat

STAT = "  11  12  13  14  15  16  17  18  19  20  21  22 23 24 25 26 27\n"


def test_fields_are_those_of_the_kernels_document():
    # Documentation/block/stat.rst: read I/Os, merges, sectors, ticks, write I/Os, merges, sectors, ticks, in_flight,
    # io_ticks, time_in_queue, then discards and flushes; sectors are 512 bytes.
    assert parse_stat(STAT) == Counters(
        read_ios=11,
        read_bytes=13 * 512,
        read_ticks=14,
        write_ios=15,
        write_bytes=17 * 512,
        write_ticks=18,
        in_flight=19,
        io_ticks_ms=20,
        time_in_queue_ms=21,
    )


def test_not_a_stat_file():
    assert parse_stat("") is None
    assert parse_stat("1 2 3") is None
    assert parse_stat("a b c d e f g h i j k l") is None


@given(st.lists(st.integers(0, 2**63), min_size=22, max_size=22))
def test_difference_then_sum_gives_the_later_reading_back(numbers):
    earlier, later = (parse_stat(" ".join(map(str, part))) for part in (numbers[:11], numbers[11:]))
    grown = later - earlier
    again = earlier + grown
    assert again.read_bytes == later.read_bytes
    assert again.time_in_queue_ms == later.time_in_queue_ms
    assert grown.in_flight == later.in_flight


def test_a_device_that_went_away_makes_the_sum_unknown(tree):
    tree.nvme(0, "259:0")
    root = str(tree.root)
    assert device_counters(Medium("nvme_ssd", (), counted=("259:0",)), root) is not None
    assert device_counters(Medium("nvme_ssd", (), counted=("259:0", "259:1")), root) is None
    assert device_counters(Medium("ram", ()), root) is None
