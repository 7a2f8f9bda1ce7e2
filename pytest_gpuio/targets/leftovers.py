"""What runs leave below a target for the next ones: where it lies, how much it is, and taking it away again."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_gpuio.core.errors import TargetError, errno_text
from pytest_gpuio.targets.header import read_header
from pytest_gpuio.targets.layout import make_directory
from pytest_gpuio.targets.location import READ_FILE, WRITE_FILE

#: Below a target: a folder for each workload model, with its files.
MODELS: Final = "models"
#: Marks the folder as ours, and tells backup programs to pass over it (bford.info/cachedir).
_TAG: Final = "CACHEDIR.TAG"
_TAG_TEXT: Final = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Files that pytest-gpuio laid out to measure with; `gpuio clean` removes them.\n"
)


#: In a folder whose files are all ours, though none says so.
_OWN: Final = ".gpuio-own-folder"
_OWN_TEXT: Final = "Files of a framework that pytest-gpuio measured; the run that made them did not end well.\n"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file that we made: its path, and the bytes that it takes on the medium."""

    path: Path
    bytes: int


def make_model_folder(folder: Path) -> None:
    """Makes a model's folder below ``TARGET/models``, and that one with a tag when it is not there yet.

    Raises:
        TargetError: it cannot be made.
    """
    models = folder.parent
    try:
        if not models.is_dir():
            make_directory(models.parent)
            models.mkdir()
            (models / _TAG).write_text(_TAG_TEXT)
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise TargetError(f"{folder} cannot be made a directory: {errno_text(error.errno or 0)}.") from error


@contextmanager
def own_folder(folder: Path, name: str) -> Iterator[Path]:
    """A folder below a model's for files that cannot carry our header, as those of a framework; removed in the end.

    Raises:
        TargetError: it cannot be made.
    """
    make_model_folder(folder)
    try:
        made = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
        (made / _OWN).write_text(_OWN_TEXT)
    except OSError as error:
        raise TargetError(f"{folder} takes no folder: {errno_text(error.errno or 0)}.") from error
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def find(target: Path) -> tuple[Leftover, ...]:
    """Every file of ours that a target holds; what does not carry our header is not among them.

    Raises:
        TargetError: the target cannot be looked at.
    """
    try:
        if not stat.S_ISDIR(target.stat().st_mode):
            return tuple(_ours([target]))
    except OSError as error:
        raise TargetError(f"{target} cannot be looked at: {errno_text(error.errno or 0)}.") from error
    return tuple(_ours([target / READ_FILE, target / WRITE_FILE, *_below(target / MODELS)]))


def model_bytes(target: Path) -> int:
    """Bytes on the medium that files of models take below a target; quick, nothing is opened."""
    files = (path for path in _below(target / MODELS) if path.name != _TAG)
    return sum(found.st_blocks * 512 for path in files if (found := _regular(path)) is not None)


def remove(leftovers: Sequence[Leftover], target: Path) -> int:
    """Removes files, and folders below ``TARGET/models`` that held some of them and are empty now.

    Returns:
        How many files are gone.

    Raises:
        TargetError: one could not be removed; those before it are gone.
    """
    gone = 0
    folders: set[Path] = set()
    # What says that a folder is ours goes last.
    for leftover in sorted(leftovers, key=lambda one: one.path.name == _OWN):
        # Looked at once more: what took its place meanwhile is not ours.
        if not any(_ours([leftover.path])):
            continue
        try:
            leftover.path.unlink()
        except OSError as error:
            raise TargetError(f"{leftover.path} cannot be removed: {errno_text(error.errno or 0)}.") from error
        gone += 1
        folders.add(leftover.path.parent)
    models = target / MODELS
    for folder in sorted(folders, key=lambda path: -len(path.parts)):
        while models in folder.parents:
            try:
                folder.rmdir()
            except OSError:
                break
            folder = folder.parent
    _remove_tagged(models)
    return gone


def _remove_tagged(models: Path) -> None:
    """The folder of all models, when nothing but our tag is in it."""
    tag = models / _TAG
    with suppress(OSError):
        if [entry.name for entry in os.scandir(models)] == [_TAG] and tag.read_text() == _TAG_TEXT:
            tag.unlink()
            models.rmdir()


def _below(folder: Path) -> Iterator[Path]:
    if folder.is_symlink():
        return
    for base, _folders, names in os.walk(folder, followlinks=False):
        yield from (Path(base, name) for name in names)


def _in_own_folder(path: Path) -> bool:
    """Below a folder of :func:`own_folder` whose run was killed."""
    for folder in path.parents:
        if folder.name == MODELS:
            return False
        mark = folder / _OWN
        if _regular(mark) is not None:
            with suppress(OSError):
                return mark.read_text() == _OWN_TEXT
    return False


def _regular(path: Path) -> os.stat_result | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _ours(paths: Sequence[Path]) -> Iterator[Leftover]:
    for path in paths:
        found = _regular(path)
        if found is None:
            continue
        if _in_own_folder(path):
            yield Leftover(path, found.st_blocks * 512)
            continue
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            ours = read_header(fd, str(path)) is not None
        except (TargetError, OSError):
            ours = False  # damaged: nothing proves whose it is
        finally:
            os.close(fd)
        if ours:
            yield Leftover(path, found.st_blocks * 512)
