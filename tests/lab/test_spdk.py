"""SPDK on an emulated NVMe drive over PCI Express, through either driver, where a real SPDK is installed."""

import json

import pytest
from vmlab.matrix import TIMING

from pytest_gpuio.results.validate import validate_file

pytestmark = [pytest.mark.lab, pytest.mark.spdk]


def read(machine, name):
    return json.loads((machine.outcome.share / f"{name}.json").read_text())


def test_a_drive_that_the_kernel_has_is_left_to_it(spdk):
    told = read(spdk, "before")
    assert {cell["axes"]["target"] for cell in told["cells"]} == {"kernel"}
    skips = [skip for skip in told["skips"] if "|datapath=spdk|" in skip["case"] and "|target=lab|" in skip["case"]]
    assert len(skips) == 1
    assert "is bound to the kernel's driver nvme" in skips[0]["reason"]


def test_cells_over_pci_express_move_the_right_bytes(spdk, request):
    driver = {"spdk_uio": "uio_pci_generic", "spdk_vfio": "vfio-pci"}[request.node.callspec.params["spdk"]]
    assert (spdk.outcome.share / "driver").read_text() == driver
    assert validate_file(spdk.outcome.share / "spdk.json") == []
    told = read(spdk, "spdk")
    # Emulated processors: what depth was kept, and how long anything took, means nothing.
    late = [void for void in told["voids"] if void["gate"] in TIMING]
    assert [len(late), told["failures"]] == [len(told["voids"]), []], told["voids"]
    assert {cell["axes"]["bs"] for cell in (*told["cells"], *late)} == {4096, 1 << 20}
    for void in late:
        for gate in ("path_proved", "data_verified"):
            assert [line for line in void["evidence"] if line.startswith(f"{gate} passed: ")], void
    for cell in told["cells"]:
        assert cell["effective"]["datapath"] == "spdk"
        assert cell["target"]["devices"][0]["model"] == "QEMU NVMe Ctrl"
        assert cell["verify"]["checked"] > 0
        assert cell["verify"]["bad"] == 0
