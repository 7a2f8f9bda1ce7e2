"""What an application holds in memory and saves or loads as a whole: files of named tensors, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pytest_gpuio.core.errors import ConfigError

Direction = Literal["save", "load"]


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """One file of an application.

    Attributes:
        name: relative path.
        tensors: name and bytes of each, in the order in which they are kept.
    """

    name: str
    tensors: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        """Of its tensors, whatever a container adds left out."""
        return sum(size for _, size in self.tensors)


@dataclass(frozen=True, slots=True)
class Objects:
    """The same bytes that a model's records move, as an application's framework would be asked for them.

    Attributes:
        direction: ``save`` or ``load``.
        files: all of them.
        ranks: indices of the files of each rank, in its order.
        times: how often, one after the other.
        fsync: each file is made durable when it is saved.

    Raises:
        ConfigError: no files, or a rank without any.
    """

    direction: Direction
    files: tuple[ObjectFile, ...]
    ranks: tuple[tuple[int, ...], ...]
    times: int = 1
    fsync: bool = True

    def __post_init__(self) -> None:
        if not self.files or not self.ranks or not all(self.ranks):
            raise ConfigError("an application that saves or loads nothing has no objects.")

    def as_json(self) -> dict[str, Any]:
        """For a message to the measuring child."""
        return {
            "direction": self.direction,
            "files": [{"name": file.name, "tensors": [list(one) for one in file.tensors]} for file in self.files],
            "ranks": [list(mine) for mine in self.ranks],
            "times": self.times,
            "fsync": self.fsync,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Objects:
        """Inverse of :meth:`as_json`."""
        files = tuple(
            ObjectFile(file["name"], tuple((str(name), int(size)) for name, size in file["tensors"]))
            for file in values["files"]
        )
        ranks = tuple(tuple(int(index) for index in mine) for mine in values["ranks"])
        return cls(values["direction"], files, ranks, int(values["times"]), bool(values["fsync"]))
