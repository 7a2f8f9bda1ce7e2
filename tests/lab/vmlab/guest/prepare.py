"""In the guest: loads drivers, builds the devices named on the command line, and writes ``/lab/devices.json``.

Only the standard library: shells are slow under emulation, one Python is not.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

NVMET = Path("/sys/kernel/config/nvmet")
ND = Path("/sys/bus/nd/devices")
#: Bytes of devices in the guest's memory.
SMALL = 64 << 20
found, missing = {}, {}


class Missing(Exception):
    """A device cannot be built; the text says why."""


def run(*command):
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    print("+", *command, "->", told.returncode, told.stdout, told.stderr, flush=True)
    if told.returncode:
        raise Missing(f"{' '.join(command)}: {(told.stderr or told.stdout).strip().splitlines()[0]}")
    return told.stdout.strip()


def load(*modules):
    """One module with its parameters, or several without; -C /dev/null skips hooks of other packages."""
    run("modprobe", "-C", "/dev/null", *modules)


def write(path, text):
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise Missing(f"{text!r} > {path}: {error.strerror}") from None


def read(path):
    with contextlib.suppress(OSError):
        return Path(path).read_text().strip()
    return ""


def wait_for(what, look, seconds=20.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        value = look()
        if value:
            return value
        time.sleep(0.05)
    raise Missing(f"no {what} after {seconds:.0f} s")


def node(path):
    return wait_for(path, lambda: path if Path(path).exists() else None)


def namespace(number, serial="LABNVME"):
    """A namespace by its own number: that in the kernel's name only counts what is there."""

    def look():
        disks = [path.parent for path in Path("/sys/block").glob("nvme*/nsid") if read(path) == str(number)]
        return [disk.name for disk in disks if read(disk / "device/serial") == serial and read(disk / "hidden") != "1"]

    return node(f"/dev/{wait_for(f'namespace {number} of {serial}', look)[0]}")


def generic(number):
    return node(namespace(number).replace("/dev/nvme", "/dev/ng"))


def disk(model):
    def look():
        return [path.parts[3] for path in Path("/sys/block").glob("sd*/device/model") if model.startswith(read(path))]

    return node(f"/dev/{wait_for(f'SATA disk {model}', look)[0]}")


def virtio(serial):
    def look():
        return [path.parts[3] for path in Path("/sys/block").glob("vd*/serial") if read(path) == serial]

    return node(f"/dev/{wait_for(f'virtio disk {serial}', look)[0]}")


def region(name):
    """The pmem region of an nvdimm: QEMU lays them out in the order of its options."""
    order = [each for each in names if each in ("pmem", "under_dax", "devdax")]

    def look():
        regions = [path for path in ND.glob("region*") if "ACPI" in str(path.resolve())]
        regions.sort(key=lambda path: int(read(path / "resource"), 16))
        return regions if len(regions) >= len(order) else None

    return wait_for(f"region of {name}", look)[order.index(name)]


def dax_namespace(name, kind, driver):
    """What ``ndctl create-namespace --mode=fsdax|devdax`` does: a seed is told its namespace, then bound."""
    here = region(name)
    raw = "namespace" + here.name.removeprefix("region") + ".0"
    with contextlib.suppress(Missing):
        write(f"/sys/bus/nd/drivers/{(ND / raw / 'driver').resolve().name}/unbind", raw)
    seed = wait_for(f"{kind}_seed", lambda: read(here / f"{kind}_seed"))
    write(ND / seed / "align", str(2 << 20))
    # The map of pages lies in the namespace itself.
    write(ND / seed / "mode", "pmem")
    write(ND / seed / "uuid", str(uuid.uuid4()))
    write(ND / seed / "namespace", raw)
    write(f"/sys/bus/nd/drivers/{driver}/bind", seed)
    return seed


def fsdax(name):
    load("nfit")
    load("nd_pmem")
    seed = dax_namespace(name, "pfn", "nd_pmem")
    return node(f"/dev/{wait_for('block device', lambda: [path.name for path in (ND / seed / 'block').iterdir()])[0]}")


def devdax(name):
    load("nfit")
    load("dax_pmem")
    load("device_dax")
    dax_namespace(name, "dax", "dax_pmem")
    return node(wait_for("/dev/daxX.Y", lambda: [str(path) for path in Path("/dev").glob("dax*.*")])[0])


def virtio_pmem(_name):
    load("virtio_pmem")
    load("nd_pmem")

    def look():
        return [path.name for path in Path("/sys/block").glob("pmem*") if "virtio" in str(path.resolve())]

    return node(f"/dev/{wait_for('virtio pmem disk', look)[0]}")


def number_of(path):
    status = Path(path).stat()
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"


def dm(_name):
    load("dm_mod")
    below = found["under_dm"]
    sectors = int(read(f"/sys/block/{below.removeprefix('/dev/')}/size"))
    run("dmsetup", "create", "lablinear", "--table", f"0 {sectors - 2048} linear {below} 2048")
    return node(f"/dev/{next(Path('/sys/block').glob('dm-*/dm')).parent.name}")


def md(_name):
    """An array without metadata on its members, by sysfs as ``mdadm --build`` does."""
    load("md_mod")
    load("raid0")
    write("/sys/module/md_mod/parameters/new_array", "md_lab")
    here = wait_for("md_lab", lambda: next(iter(Path("/sys/block").glob("md*/md")), None))
    write(here / "metadata_version", "none")
    write(here / "level", "raid0")
    write(here / "raid_disks", "2")
    write(here / "chunk_size", "65536")
    for slot, member in enumerate(("under_md0", "under_md1")):
        write(here / "new_dev", number_of(found[member]))
        folder = here / f"dev-{found[member].removeprefix('/dev/')}"
        write(folder / "slot", str(slot))
        write(folder / "offset", "0")
        sectors = int(read(f"/sys/block/{found[member].removeprefix('/dev/')}/size"))
        write(folder / "size", str(sectors // 2))
    write(here / "array_state", "active")
    return node(f"/dev/{here.parent.name}")


def ext4(_name):
    load("ext4")
    run("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0", found["files"])
    return mount("ext4", found["files"], "/mnt/ext4")


def mount(kind, source, point, options="rw"):
    Path(point).mkdir(parents=True, exist_ok=True)
    run("mount", "-t", kind, "-o", options, source, point)
    return point


def xfs(name):
    """Mounted with dax=always, which xfs accepts on any device, and forgets on most."""
    load("xfs")
    below = found[f"under_{name}"]
    run("mkfs.xfs", "-q", "-f", "-m", "reflink=0", below)
    return mount("xfs", below, f"/mnt/{name}", "dax=always")


def loop(_name):
    load("loop")
    path = Path(found["ext4"], "loop.img")
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, SMALL)
    return run("losetup", "--find", "--show", "--direct-io=on", str(path))


def null_blk(_name):
    load("null_blk", "nr_devices=0")
    return null_disk("labnull", memory=True, poll=1)


def null_disk(name, *, memory, poll):
    here = Path("/sys/kernel/config/nullb", name)
    here.mkdir()
    write(here / "size", str(SMALL >> 20))
    write(here / "memory_backed", str(int(memory)))
    write(here / "queue_mode", "2")
    write(here / "poll_queues", str(poll))
    write(here / "power", "1")
    return node(f"/dev/{name}") if Path(f"/dev/{name}").exists() else node(f"/dev/nullb{read(here / 'index')}")


def zram(_name):
    load("zram")
    write("/sys/block/zram0/disksize", str(SMALL))
    return node("/dev/zram0")


def brd(_name):
    load("brd", "rd_nr=2", f"rd_size={SMALL >> 10}")
    return node("/dev/ram0")


def nvmeof(_name):
    load("brd", "rd_nr=2", f"rd_size={SMALL >> 10}")
    load("nvmet")
    load("nvmet_tcp")
    load("nvme_tcp")
    run("ip", "link", "set", "lo", "up")
    here = NVMET / "subsystems/lab"
    here.mkdir()
    write(here / "attr_allow_any_host", "1")
    write(here / "attr_serial", "LABNVMEOF")
    write(here / "attr_model", "INTEL SSDPE21K375GA")
    (here / "namespaces/1").mkdir()
    write(here / "namespaces/1/device_path", node("/dev/ram1"))
    write(here / "namespaces/1/enable", "1")
    port = NVMET / "ports/1"
    port.mkdir()
    for attribute, value in (("trtype", "tcp"), ("adrfam", "ipv4"), ("traddr", "127.0.0.1"), ("trsvcid", "4420")):
        write(port / f"addr_{attribute}", value)
    (port / "subsystems/lab").symlink_to(here)
    options = "transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=lab,nr_io_queues=2,nr_poll_queues=1"
    with Path(node("/dev/nvme-fabrics")).open("r+b", buffering=0) as fabrics:
        fabrics.write(options.encode())
    return namespace(1, "LABNVMEOF")


def tmpfs(_name):
    return mount("tmpfs", "tmpfs", "/mnt/tmpfs", f"size={2 * SMALL}")


def iommu(_name):
    there = sorted(Path("/sys/class/iommu").iterdir())
    if not there:
        raise Missing("this kernel found no IOMMU")
    return str(there[0])


BUILDERS = {
    "iommu": iommu,
    "nvme": lambda _: namespace(1),
    "nvme4k": lambda _: namespace(2),
    "files": lambda _: namespace(3),
    "under_dm": lambda _: namespace(4),
    "under_md0": lambda _: namespace(5),
    "under_md1": lambda _: namespace(6),
    "nvme_generic": lambda _: generic(1),
    "nvme4k_generic": lambda _: generic(2),
    "dm": dm,
    "md": md,
    "ext4": ext4,
    "loop": loop,
    "sata_ssd": lambda _: disk("INTEL SSDSC2KB480G8"),
    "hdd": lambda _: disk("ST1000NM0033"),
    "virtio": lambda _: virtio("LABVIRTIO"),
    "pmem": fsdax,
    "under_dax": fsdax,
    "under_dax_off": lambda _: namespace(7),
    "dax": xfs,
    "dax_off": xfs,
    "devdax": devdax,
    "virtio_pmem": virtio_pmem,
    "null_blk": null_blk,
    "zram": zram,
    "brd": brd,
    "tmpfs": tmpfs,
    "nvmeof": nvmeof,
    "numa_nvme": lambda _: namespace(1, "LABNUMA"),
    "removable": lambda _: namespace(1, "LABREMOVABLE"),
    "bad_nvme": lambda _: namespace(1, "LABBAD"),
    "bad_virtio": lambda _: virtio("LABBADVIRTIO"),
    "throttled": lambda _: namespace(1, "LABTHROTTLED"),
}
NVME = {
    "nvme",
    "nvme4k",
    "files",
    "under_dm",
    "under_md0",
    "under_md1",
    "under_dax_off",
    "numa_nvme",
    "removable",
    "throttled",
    "bad_nvme",
}
DRIVERS = (
    (NVME, ("nvme", "poll_queues=1")),
    ({"sata_ssd", "hdd"}, ("-a", "ahci", "sd_mod")),
    ({"virtio", "bad_virtio"}, ("virtio_blk",)),
)


def main():
    for wanted, driver in DRIVERS:
        if wanted & set(names):
            load(*driver)
    if not Path("/sys/kernel/config/null").parent.is_mount():
        with contextlib.suppress(Missing):
            load("configfs")
        with contextlib.suppress(Missing):
            run("mount", "-t", "configfs", "configfs", "/sys/kernel/config")
    Path("/dev/lab").mkdir(exist_ok=True)
    for name in names:
        began = time.monotonic()
        try:
            found[name] = BUILDERS[name](name)
            if found[name].startswith("/dev/"):
                Path("/dev/lab", name).symlink_to(found[name])
        except (Missing, OSError, KeyError, IndexError) as error:
            missing[name] = f"{type(error).__name__}: {error}" if not isinstance(error, Missing) else str(error)
        print(f"{name}: {found.get(name) or missing.get(name)} ({time.monotonic() - began:.1f} s)", flush=True)
    Path("/lab/devices.json").write_text(json.dumps({"devices": found, "missing": missing}, indent=1))


names = sys.argv[1:]
if __name__ == "__main__":
    main()
