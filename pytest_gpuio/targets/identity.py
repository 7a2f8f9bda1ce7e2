"""Whether a target is still what it was when the run began, so that no cell is measured under the wrong name."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from pytest_gpuio.core.errors import TargetError


@dataclass(frozen=True, slots=True)
class Identity:
    """What a name stood for.

    Attributes:
        device: number of the device node; None for a file or folder, or one that is yet to be made.
        character: the device is a character device.
        file_system: number of the file system that a file or folder lies on, or will.
    """

    device: int | None
    character: bool
    file_system: int | None


def identify(target: str | os.PathLike[str]) -> Identity:
    """What a target's name stands for now; one that is yet to be made stands for its folder.

    Raises:
        OSError: neither it nor its folder can be looked at.
    """
    path = Path(target).absolute()
    try:
        status = path.stat()
    except FileNotFoundError:
        return Identity(None, character=False, file_system=path.parent.stat().st_dev)
    if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode):
        return Identity(status.st_rdev, stat.S_ISCHR(status.st_mode), None)
    # A stacked file system (overlay) may give files numbers of their own, never folders.
    return Identity(
        None, character=False, file_system=(status if stat.S_ISDIR(status.st_mode) else path.parent.stat()).st_dev
    )


def check_unchanged(target: str | os.PathLike[str], before: Identity | None) -> None:
    """Refuses a target that has become something else: its device was pulled out, its file system is gone.

    Args:
        target: as the user named it.
        before: what it was; None = it could not be looked at even then.

    Raises:
        TargetError: it is something else now.
    """
    if before is None:
        return
    path = os.fspath(target)
    try:
        now = identify(target)
    except OSError as error:
        raise TargetError(
            f"{path} is gone since the run began ({error.strerror}): no cell of it can be measured."
        ) from None
    if now == before:
        return
    if before.device is not None:
        what = "another device" if now.device is not None else "no device any more"
        raise TargetError(
            f"{path} is {what} since the run began: it was pulled out or its driver gave it up (see dmesg). Its cells "
            "cannot be measured."
        )
    raise TargetError(
        f"{path} lies on another file system than when the run began: was it unmounted, or mounted over? Its "
        "cells would measure the wrong medium."
    )
