import copy
import json
from pathlib import Path

import pytest

from pytest_gpuio.report.scaling import scaling_table

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "cell_record.json").read_text())


def cell(gpus, rates, cores_used, cores=32, bs=65536):
    record = copy.deepcopy(GOLDEN)
    record["axes"] |= {"destination": "gpu", "gpus": gpus, "bs": bs}
    record["gb_per_s"] = sum(rates)
    record["cpu"]["cores_used"] = cores_used
    shares = [{"ordinal": i, "gb_per_s": rate} for i, rate in enumerate(rates)]
    record["gpu"] = {"cores": cores, "shares": shares}
    return record


def test_a_row_for_each_number_of_gpus():
    text = scaling_table([cell(4, [9.0, 9.5, 10.0, 9.5], 29.0), cell(1, [10.0], 7.5), cell(2, [10.0, 10.0], 15.0)])
    rows = [line.split() for line in text.splitlines()[2:]]
    # 38 of 4 x 10; 29 of 32 cores is past nine tenths.
    assert rows[0][-6:] == ["1", "10.0", "10.0", "1.00", "7.50", "32"]
    assert rows[1][-6:] == ["2", "20.0", "10.0", "1.00", "15.00", "32"]
    assert rows[2] == ["4", "38.0", "9.00..10.0", "0.95", "29.00", "32", "CPUs", "used", "up"]


@pytest.mark.parametrize(
    "records", [[], [GOLDEN], [cell(1, [10.0], 1.0)], [cell(1, [1.0], 1.0), cell(2, [1.0, 1.0], 1.0, bs=4096)]]
)
def test_without_several_numbers_of_gpus_there_is_no_table(records):
    assert scaling_table(records) == ""


def test_the_longest_way_from_the_target_is_told_where_all_are_known():
    near, far = cell(1, [10.0], 1.0), cell(2, [10.0, 6.0], 2.0)
    near["gpu"]["shares"][0]["distance"] = "same_switch"
    for share, distance in zip(far["gpu"]["shares"], ("same_switch", "other_node"), strict=True):
        share["distance"] = distance
    rows = scaling_table([near, far]).splitlines()[2:]
    assert rows[0].endswith("same switch")
    assert rows[1].endswith("other node")
    far["gpu"]["shares"][0]["distance"] = "unknown"
    assert "node" not in scaling_table([near, far]).splitlines()[3]
