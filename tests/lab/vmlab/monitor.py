"""QEMU's monitor protocol: what happens to a running machine from outside."""

import json
import socket
from pathlib import Path
from typing import Any, Self

from vmlab.errors import LabBroken


class Monitor:
    """A connection to a machine's monitor.

    Args:
        path: its socket.

    Raises:
        OSError: nobody listens there.
    """

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("r")
        self._lines.readline()
        self("qmp_capabilities")

    def __call__(self, command: str, **arguments: Any) -> Any:
        """What a command returns.

        Raises:
            LabBroken: QEMU refused it, or is gone.
        """
        words = {"execute": command, "arguments": arguments}
        self._socket.sendall(json.dumps(words).encode() + b"\n")
        for line in self._lines:
            told = json.loads(line)
            if "error" in told:
                raise LabBroken(f"QEMU's {command} {arguments}: {told['error']['desc']}")
            if "return" in told:
                return told["return"]
        raise LabBroken(f"QEMU ended while it was asked for {command}")

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
