"""The command line: a command in a machine with devices, or, without one, the suites."""

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from vmlab import devices as lab_devices
from vmlab.errors import LabBroken, LabUnavailable
from vmlab.kernel import SOURCES, fetch_kernel
from vmlab.machine import run_job

_EXAMPLES = """\
without COMMAND the suites are run; what stands before no "--" are pytest's own options:

    tox run -e lab
    tox run -e lab -- -k matrix -s

with one it is run as root in the machine, over this machine's files (what it writes is forgotten, but for /lab, which
--keep names), with this environment's programs first on the path:

    tox run -e lab -- --devices all -- gpuio probe /dev/nvme0n1
    tox run -e lab -- --devices nvme,sata_ssd --kernel stable -- lsblk -o NAME,TRAN,ROTA,MODEL
    tox run -e lab -- --devices pmem --keep /tmp/seen -- sh -c 'dmesg > /lab/dmesg'

exit status: the command's; 3 the lab cannot be had here, 4 the machine died
"""


def parser() -> argparse.ArgumentParser:
    """Arguments before the ``--`` of a command."""
    listed = "\n".join(f"    {device.name:<15} {device.title}" for device in lab_devices.DEVICES.values())
    result = argparse.ArgumentParser(
        "tox run -e lab --",
        usage="%(prog)s [PYTEST OPTIONS]\n"
        "       %(prog)s [--devices NAMES] [--kernel SOURCE] [--keep FOLDER] -- COMMAND...",
        description="A virtual machine (QEMU, emulated processors) that boots Debian's own kernel over this machine's "
        "files, so that each storage medium is there on its real Linux driver. Its speed means nothing.",
        epilog=f"devices, each as /dev/lab/NAME where it is one:\n{listed}\n\n{_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("--devices", metavar="NAMES", default="", help="comma list of devices, or all (default: none)")
    result.add_argument("--kernel", choices=SOURCES, help="where the kernel comes from (default: the newest there is)")
    result.add_argument("--keep", metavar="FOLDER", type=Path, help="the machine's /lab: what is left there stays")
    result.add_argument("--timeout", metavar="S", type=float, default=1800, help="seconds for the command (1800)")
    return result


def main(arguments: list[str]) -> int:
    """Runs a command, or the suites; returns an exit status."""
    if "--" not in arguments and not {"-h", "--help"} & set(arguments):
        folder = Path(__file__).parent.parent
        # The table first: what is cut off for time is then the rarer things.
        suites = [str(folder / f"test_{name}.py") for name in ("matrix", "guards", "faults", "spdk")]
        words = [sys.executable, "-m", "pytest", "-m", "lab", *suites, *arguments]
        return subprocess.run(words, check=False).returncode
    at = arguments.index("--") if "--" in arguments else len(arguments)
    asked = parser().parse_args(arguments[:at])
    command = arguments[at + 1 :]
    if not command:
        parser().error("there is no command after --")
    try:
        return _run(asked, command)
    except LabUnavailable as error:
        print(f"lab: {error}", file=sys.stderr)
        return 3
    except LabBroken as error:
        print(f"lab: {error}", file=sys.stderr)
        return 4


def _run(asked: argparse.Namespace, command: list[str]) -> int:
    names = lab_devices.closure(name for name in asked.devices.split(",") if name)
    print("lab: fetching the kernel, booting ...", file=sys.stderr, flush=True)
    kernel = fetch_kernel(asked.kernel)
    # What was built is listed first, then the command's own output follows as it comes.
    job = f'"$PYTHON" /lab/listing.py\nexec {shlex.join(command)} 2>&1\n'
    with tempfile.TemporaryDirectory(prefix="lab-share-") as temporary:
        share = asked.keep or Path(temporary)
        share.mkdir(parents=True, exist_ok=True)
        (share / "listing.py").write_text(_LISTING)
        outcome = run_job(kernel, job, share, devices=names, deadline_s=asked.timeout, said=_show)
    print(f"lab: {kernel.version}, {outcome.seconds:.0f} s", file=sys.stderr)
    return outcome.status or 0


_LISTING = """\
import json
told = json.load(open("/lab/devices.json"))
for name, path in told["devices"].items():
    print(f"lab: {name:<15} {path}")
for name, why in told["missing"].items():
    print(f"lab: {name:<15} could not be built: {why}")
"""


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
