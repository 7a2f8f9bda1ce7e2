"""From the target a user named to the file or device that is used."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from pytest_gpuio.core.errors import TargetError, errno_text
from pytest_gpuio.core.spdk_address import spdk_address
from pytest_gpuio.targets.open import check_regular
from pytest_gpuio.targets.raw_device import raw_device

#: The target when none is named, in the working directory.
DEFAULT_DIRECTORY: Final = ".gpuio"
READ_FILE: Final = "gpuio-read.dat"
WRITE_FILE: Final = "gpuio-write.dat"


def target_file(target: str | os.PathLike[str], *, writes: bool) -> Path:
    """The file or device of a target; touches nothing.

    A directory holds one file for reading cells and one for writing cells. A file or device is used as it is. A name
    that does not exist yet is a file when it has a suffix (``/mnt/x/data.bin``), else a directory; its parent must
    exist.

    Args:
        target: directory, file or device, as the user named it.
        writes: for a cell that writes.

    Raises:
        TargetError: a symbolic link to a file, a missing parent, no permission, or something else than those.
    """
    path = Path(target)
    if spdk_address(path) is not None:
        return path
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            check_regular(str(path))
        if not path.absolute().parent.is_dir():
            raise TargetError(
                f"{path} cannot be a target: its parent directory does not exist. Create it, or name another path."
            ) from None
        _check_no_device(path)
        return path if path.suffix else path / _name(writes)
    except OSError as error:
        raise TargetError(f"{path} cannot be used as a target: {errno_text(error.errno or 0)}.") from error
    if stat.S_ISDIR(mode):
        return path / _name(writes)
    if raw_device(path) is None:
        check_regular(str(path))
    return path


def _check_no_device(path: Path) -> None:
    """Refuses a new name among device nodes: a drive that is not there must not become a file in memory.

    Raises:
        TargetError: the folder is the system's own of devices.
    """
    if _number(path.absolute().parent) == _number(Path("/dev")):
        raise TargetError(f"there is no device {path}: see lsblk for its name, or dmesg if it was there before.")


def _number(folder: Path) -> int | None:
    try:
        return folder.stat().st_dev
    except OSError:
        return None


def _name(writes: bool) -> str:
    return WRITE_FILE if writes else READ_FILE
