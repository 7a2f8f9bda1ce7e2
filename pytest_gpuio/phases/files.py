"""The files of a workload model: names and sizes, nothing on any disk yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_gpuio.core.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_FILES: Final = 1 << 16
#: Of a file, as off_t has it.
MOST_OFFSET: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """The files of a model, by index.

    Attributes:
        names: relative paths, unique: ``rank0/model.bin``.
        sizes: bytes of each, shape (files,), uint64.
    """

    names: tuple[str, ...]
    sizes: NDArray[np.uint64]

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Files:
        """Files of a mapping from name to bytes.

        Raises:
            ConfigError: no files, too many, a size below 1, or a name that would leave the folder.
        """
        import numpy as np

        for name, size in sizes.items():
            if not 0 < int(size) <= MOST_OFFSET:
                raise ConfigError(f"file {name!r} has {int(size):,} bytes: use 1 to 2^63 - 1.")
        return cls(tuple(sizes), np.fromiter((int(size) for size in sizes.values()), np.uint64, len(sizes)))

    def __post_init__(self) -> None:
        if not 0 < len(self.names) <= _MOST_FILES:
            raise ConfigError(f"{len(self.names):,} files: use 1 to {_MOST_FILES:,}; a smaller scale needs fewer.")
        if len(self.sizes) != len(self.names) or len(set(self.names)) != len(self.names):
            raise ConfigError(f"{len(self.names)} names need as many sizes and must differ from each other.")
        for name in self.names:
            parts = name.split("/")
            if not name or "\0" in name or len(name) > 200 or any(part in ("", ".", "..") for part in parts):
                raise ConfigError(f"file name {name!r}: write a relative path without '..' of at most 200 characters.")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def bytes(self) -> int:
        """Of all files."""
        return int(self.sizes.sum())
