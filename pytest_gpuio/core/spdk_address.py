"""The spelling of a target that SPDK drives: ``spdk:pci:0000:01:00.0``, ``spdk:tcp:127.0.0.1:4420:nqn...:ns1``."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from typing import Final, Literal

from pytest_gpuio.core.errors import ConfigError

#: What such a target begins with.
PREFIX: Final = "spdk:"
_PCI = re.compile(r"([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])(?::ns([1-9]\d{0,8}))?")
_TCP = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+):(\d{1,5}):(nqn\.[^\s/]{1,219}?)(?::ns([1-9]\d{0,8}))?")
_FORMS: Final = "spdk:pci:0000:01:00.0[:ns1] or spdk:tcp:127.0.0.1:4420:nqn.2016-06.io.spdk:cnode1[:ns1]"


@dataclass(frozen=True, slots=True)
class SpdkAddress:
    """An NVMe namespace behind a controller.

    Attributes:
        transport: ``pci`` = a local device, ``tcp`` = NVMe over TCP.
        address: PCI address in lower case, or IP address.
        port: TCP port; 0 for PCI.
        subsystem: its NQN; empty for PCI.
        nsid: number of the namespace, from 1.
    """

    transport: Literal["pci", "tcp"]
    address: str
    port: int = 0
    subsystem: str = ""
    nsid: int = 1

    def __str__(self) -> str:
        """As a target is spelled, the namespace's number always behind it."""
        if self.transport == "pci":
            return f"{PREFIX}pci:{self.address}:ns{self.nsid}"
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{PREFIX}tcp:{address}:{self.port}:{self.subsystem}:ns{self.nsid}"

    @property
    def transport_id(self) -> str:
        """As SPDK spells it."""
        if self.transport == "pci":
            return f"trtype:PCIe traddr:{self.address}"
        family = "IPv6" if ":" in self.address else "IPv4"
        return f"trtype:TCP adrfam:{family} traddr:{self.address} trsvcid:{self.port} subnqn:{self.subsystem}"


def spdk_address(target: str | os.PathLike[str]) -> SpdkAddress | None:
    """The address in a target's name; None when it names a file, folder or device of the kernel's.

    Raises:
        ConfigError: it begins like one and is none.
    """
    text = os.fspath(target)
    if not text.startswith(PREFIX):
        return None
    transport, _, rest = text.removeprefix(PREFIX).partition(":")
    if transport == "pci":
        match = _PCI.fullmatch(rest)
        if match is not None:
            return SpdkAddress("pci", match[1].lower(), nsid=int(match[2] or 1))
    if transport == "tcp":
        match = _TCP.fullmatch(rest)
        if match is not None and 0 < int(match[2]) < 65536:
            return SpdkAddress("tcp", _ip(match[1], text), int(match[2]), match[3], int(match[4] or 1))
    raise ConfigError(f"{text!r} is no target for SPDK: write {_FORMS}.")


def _ip(text: str, target: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        raise ConfigError(f"{target!r}: {text!r} is no IP address, and SPDK resolves no names: write it.") from None
