"""Debian's kernel package, fetched through apt and kept in the user's cache."""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vmlab import programs
from vmlab.errors import LabUnavailable

#: Where kernels come from: the distribution itself, or its backports, which are newer.
SOURCES = ("backports", "stable")
_META = "linux-image-amd64"


@dataclass(frozen=True, slots=True)
class Kernel:
    """An unpacked kernel package.

    Attributes:
        folder: holds ``boot/`` and ``lib/modules/``.
        version: ``6.12.95+deb12-amd64``.
    """

    folder: Path
    version: str

    @property
    def image(self) -> Path:
        """The kernel itself."""
        return self.folder / "boot" / f"vmlinuz-{self.version}"

    @property
    def release(self) -> tuple[int, int]:
        """``(6, 12)``."""
        major, minor = re.findall(r"\d+", self.version)[:2]
        return int(major), int(minor)


def cache_folder() -> Path:
    """Where kernels are kept between runs: ``$XDG_CACHE_HOME/gpuio-lab``, or ``~/.cache/gpuio-lab``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gpuio-lab"


def fetch_kernel(source: str | None = None, cache: Path | None = None) -> Kernel:
    """The newest kernel of a source, from the cache if it is there.

    Args:
        source: one of :data:`SOURCES`; None = backports, and what the machine's own apt has where there are none.
        cache: folder to keep it in; None = :func:`cache_folder`.

    Raises:
        LabUnavailable: no program, no package, no network; the text says which.
    """
    programs.check()
    cache = cache or cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache):
        reasons = []
        for name in (source,) if source else SOURCES:
            try:
                return _fetch(name, cache)
            except LabUnavailable as error:
                reasons.append(str(error))
                kept = _kept(cache, name)
                if kept is not None:
                    return kept
        raise LabUnavailable("; ".join(reasons))


@contextlib.contextmanager
def _locked(cache: Path) -> Iterator[None]:
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(source: str, cache: Path) -> Kernel:
    options = _backports_options(cache) if source == "backports" else ()
    try:
        told = programs.run("apt-cache", *options, "depends", _META)
    except (subprocess.SubprocessError, OSError) as error:
        raise LabUnavailable(f"apt knows no {_META} ({source}): {_words(error)}") from None
    packages = re.findall(r"Depends: (linux-image-\d\S*)", told)
    if not packages:
        raise LabUnavailable(f"apt's {_META} ({source}) depends on no kernel: run apt-get update, or use Debian")
    folder = cache / source / packages[0]
    if not folder.is_dir():
        _unpack(packages[0], options, folder)
    # Older ones are of no use any more, and large.
    for old in folder.parent.iterdir():
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
    return _kernel(folder)


def _unpack(package: str, options: tuple[str, ...], folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent.parent, prefix="unpack-") as name:
        place = Path(name)
        try:
            # As root: apt's own user may not write into this folder.
            programs.run("apt-get", *options, "-q", "-o", "APT::Sandbox::User=root", "download", package, cwd=place)
            (archive,) = place.glob("*.deb")
            unpacked = place / "unpacked"
            programs.run("dpkg", "-x", archive, unpacked)
            (version,) = [path.name for path in (unpacked / "lib/modules").iterdir()]
            programs.run("depmod", "-b", unpacked, version)
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            raise LabUnavailable(f"{package} cannot be fetched: {_words(error)}") from None
        unpacked.rename(folder)


def _kept(cache: Path, source: str) -> Kernel | None:
    """The kernel fetched last, for days without a network."""
    for folder in sorted((cache / source).glob("linux-image-*")):
        return _kernel(folder)
    return None


def _kernel(folder: Path) -> Kernel:
    (version,) = [path.name for path in (folder / "lib/modules").iterdir()]
    return Kernel(folder, version)


def _backports_options(cache: Path) -> tuple[str, ...]:
    """Options that show apt the backports of the machine's own mirror, and leave the machine's own lists alone."""
    try:
        told = programs.run("apt-get", "indextargets", "--format", "$(ORIGIN)|$(CODENAME)|$(REPO_URI)")
    except (subprocess.SubprocessError, OSError) as error:
        raise LabUnavailable(f"apt does not tell its sources: {_words(error)}") from None
    # A suite by its plain name; bookworm-security and bookworm-updates are others.
    found = re.search(r"^Debian\|([a-z]+)\|(\S+)$", told, re.MULTILINE)
    if found is None:
        raise LabUnavailable("apt has no Debian source, or no lists yet: apt-get update")
    codename, mirror = found.groups()
    place = cache / "apt"
    for folder in ("lists/partial", "archives/partial"):
        (place / folder).mkdir(parents=True, exist_ok=True)
    sources = place / "backports.list"
    sources.write_text(f"deb {mirror} {codename}-backports main\n")
    options = []
    for name, value in (
        ("Dir::Etc::sourcelist", sources),
        ("Dir::Etc::sourceparts", "/dev/null"),
        ("Dir::State::lists", place / "lists"),
        ("Dir::Cache", place),
        ("Acquire::Languages", "none"),
        ("Acquire::Retries", "2"),
        ("Acquire::http::Timeout", "20"),
        ("Acquire::https::Timeout", "20"),
        ("APT::Sandbox::User", "root"),
    ):
        options += ["-o", f"{name}={value}"]
    try:
        programs.run("apt-get", *options, "-q", "--error-on=any", "update", timeout_s=120)
    except (subprocess.SubprocessError, OSError) as error:
        raise LabUnavailable(f"{codename}-backports cannot be reached: {_words(error)}") from None
    return tuple(options)


def _words(error: Exception) -> str:
    said = getattr(error, "stderr", None) or str(error)
    return " ".join(str(said).split())[-300:]
