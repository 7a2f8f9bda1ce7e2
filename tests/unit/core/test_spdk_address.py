"""The spelling of targets that SPDK drives."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.spdk_address import SpdkAddress, spdk_address

NQN = "nqn.2016-06.io.spdk:lab"


@pytest.mark.parametrize(
    ("text", "address", "transport_id"),
    [
        ("spdk:pci:0000:01:00.0", SpdkAddress("pci", "0000:01:00.0"), "trtype:PCIe traddr:0000:01:00.0"),
        ("spdk:pci:0000:AF:00.1:ns12", SpdkAddress("pci", "0000:af:00.1", nsid=12), "trtype:PCIe traddr:0000:af:00.1"),
        (
            f"spdk:tcp:127.0.0.1:4420:{NQN}",
            SpdkAddress("tcp", "127.0.0.1", 4420, NQN),
            f"trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:4420 subnqn:{NQN}",
        ),
        (
            f"spdk:tcp:[::1]:4421:{NQN}:ns2",
            SpdkAddress("tcp", "::1", 4421, NQN, 2),
            f"trtype:TCP adrfam:IPv6 traddr:::1 trsvcid:4421 subnqn:{NQN}",
        ),
    ],
)
def test_both_transports(text, address, transport_id):
    assert spdk_address(Path(text)) == address
    assert spdk_address(str(address)) == address
    assert address.transport_id == transport_id


@pytest.mark.parametrize(
    "text",
    ["spdk:", "spdk:pci:01:00.0", "spdk:pci:0000:01:00.9", "spdk:pci:0000:01:00.0:ns0", f"spdk:tcp:h:4420:{NQN}",
     f"spdk:tcp:127.0.0.1:0:{NQN}", f"spdk:tcp:127.0.0.1:70000:{NQN}", "spdk:tcp:127.0.0.1:4420:iqn.x", "spdk:rdma:x"],
)  # fmt: skip
def test_what_is_no_address_is_told_with_the_form(text):
    with pytest.raises(ConfigError, match=r"spdk:pci:0000:01:00\.0|no IP address"):
        spdk_address(text)


@given(st.text(max_size=60))
def test_any_text_is_an_address_none_or_a_named_error(text):
    try:
        found = spdk_address("spdk:" + text)
    except ConfigError:
        return
    assert found is not None
    assert spdk_address(str(found)) == found


def test_paths_are_none():
    assert spdk_address("/dev/nvme0n1") is None
    assert spdk_address("./spdk:pci:0000:01:00.0") is None
