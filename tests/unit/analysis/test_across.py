"""Cases without an axis."""

import pytest

from pytest_gpuio.analysis.across import allowed, check_axes, without_axes
from pytest_gpuio.core.errors import ConfigError


def test_the_axis_leaves_every_key(record, run):
    one = run(record(), voids={"s|qd=1|jobs=1": {"gate": "g"}}, skips={"s|qd=2|jobs=1": "no"})
    short = without_axes(one, ["qd"])
    (case,) = short.cells
    assert "qd=" not in case
    assert short.cells[case]["case"] == case
    assert (list(short.voids), list(short.skips)) == (["s|jobs=1"], ["s|jobs=1"])
    assert without_axes(one, []) is one


def test_cells_that_become_one_are_refused(record, run):
    with pytest.raises(ConfigError, match="several cells that differ in qd only"):
        without_axes(run(record(case="s|qd=1"), record(case="s|qd=2")), ["qd"])


def test_what_may_differ():
    assert allowed(["datapath", "qd"]) == {"path", "knobs", "direct"}
    assert allowed([]) == frozenset()
    with pytest.raises(ConfigError, match="'path' is no axis"):
        check_axes(["path"])
