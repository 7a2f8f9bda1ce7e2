"""Text of what ``gpuio probe`` found."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.report import numbers

_WIDTH: Final = 120
_UNKNOWN: Final = "unknown"
_ANSWERS: Final = {True: "yes", False: "no", None: "?"}


def probe_text(found: Mapping[str, Any]) -> str:
    """Machine, clock, limits, capabilities, target and data paths, each with its remedy.

    Args:
        found: what ``gpuio probe --json`` writes.

    Returns:
        Lines that end in a newline.
    """
    lines = ["machine", *_facts(_machine(found)), "", "limits", *_facts(_limits(found["limits"])), ""]
    lines += ["capabilities", *_answers(found["capabilities"]), ""]
    if found["target"] is not None:
        lines += [f"target {found['target']['path']}", *_facts(_target(found["target"])), ""]
        lines += ["data paths on this target", *_answers(found["datapaths"])]
    else:
        lines += ["data paths (gpuio probe TARGET says which of them a target can have)", *_answers(found["datapaths"])]
    lines += ["", "GPU storage (cuFile)", *_facts(_gpu_storage(found)), "", *_remedies(found["remedies"])]
    return "".join(f"{line}\n" for line in lines)


def _machine(found: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    machine, clock, perf = found["machine"], found["clock"], found["perf_events"]
    cpu = machine["cpu"]
    yield "kernel", f"{machine['kernel']} {machine['architecture']}"
    yield (
        "CPU",
        f"{cpu['model'] or _UNKNOWN}, {found['cpus']['online']} online, usable {_list(found['cpus']['usable'])}",
    )
    yield "memory", _size(machine["memory_bytes"])
    yield "hypervisor", machine["hypervisor"] or "none"
    if clock["reason"] is not None:
        yield "clock", f"unknown: {clock['reason']}"
    else:
        cost = numbers.duration(clock["cost_ns"])
        yield "clock", f"{clock['source']}, a stamp costs {cost}, resolution {numbers.duration(clock['resolution_ns'])}"
    yield "clocksource", machine["clocksource"] or _UNKNOWN
    yield "CPU counters", "cycles and instructions per I/O" if perf["available"] else f"no: {perf['reason']}"
    yield "fio", found["fio"]["version"] or found["fio"]["reason"]


def _limits(limits: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    locked = limits["memlock_limit"]
    yield "locked memory", describe_size(locked) if isinstance(locked, int) else str(locked or _UNKNOWN)
    soft, hard = limits["open_files_soft"], limits["open_files_hard"]
    yield "open files", f"{_count(soft)} (hard {_count(hard)})"
    most = limits["aio_max_nr"]
    yield "libaio requests", _UNKNOWN if most is None else f"{limits['aio_nr']:,} of {most:,} (fs.aio-max-nr) taken"
    disabled = limits["io_uring_disabled"]
    yield "io_uring_disabled", "no such setting (before Linux 6.6)" if disabled is None else str(disabled)
    yield "huge pages", limits["transparent_hugepage"] or "none"
    yield "may lock all memory", "yes (CAP_IPC_LOCK)" if limits["may_lock_all"] else "no"
    yield "CPU quota", "none" if limits["cpu_quota"] is None else f"{limits['cpu_quota']:g} CPUs"


_ROUTES: Final = {
    "direct_nvidia_fs": "from the device into GPU memory, by nvidia-fs",
    "direct_p2pdma": "from the device into GPU memory, by PCI peer-to-peer DMA",
    "compat": "through host memory (gds_compat)",
    "none": "not at all",
}


def _gpu_storage(found: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """What gdscheck tells, and what it would come to."""
    storage = found["gpu_storage"]
    kernel, expected = storage["kernel"], storage["forecast"]
    for gpu in found["gpus"]:
        yield f"GPU {gpu['ordinal']}", f"{gpu['name']}, {gpu['bus_id']}, {_size(gpu['bytes'])}, {gpu['uuid']}"
        if "distance" in gpu:
            yield "  to the target", f"{gpu['distance'].replace('_', ' ')}: {gpu['evidence']}"
    if not found["gpus"]:
        yield "GPU", "none that the CUDA driver shows"
    kind = {True: "open kernel module", False: "proprietary kernel module", None: ""}[kernel["driver_open"]]
    yield "driver", f"{kernel['driver']}, {kind}" if kernel["driver"] else "not loaded"
    module = kernel["nvidia_fs"]
    yield "nvidia-fs", "not loaded" if module is None else f"loaded, {module['version'] or 'version unknown'}"
    yield "PCI peer-to-peer DMA", _known(kernel["p2pdma"], "CONFIG_PCI_P2PDMA is set", "the kernel is built without it")
    yield "static BAR1", _known(kernel["static_bar1"], "RMForceStaticBar1=1", "not asked for")
    yield "IOMMU", kernel["iommu"] or _UNKNOWN
    yield "udev database", "there" if kernel["udev_database"] else "missing: cuFile takes no file on a block device"
    for name, known in (storage["target_udev"] or {}).items():
        yield f"udev on {name}", "knows what lies on it" if known else "has no entry"
    facts = (storage["compat"]["facts"] or storage["strict"]["facts"]) if found["gpus"] else None
    if facts is not None:
        source = facts["settings_source"] or "its defaults"
        yield "libcufile", f"{facts['release']}, {', '.join(facts['libraries'])}; settings from {source}"
        properties = facts["properties"]
        yield (
            "limits",
            f"requests above {describe_size(properties['max_direct_bytes'])} are split, up to "
            f"{describe_size(properties['poll_threshold_bytes'])} polled (in poll mode), "
            f"batches up to {properties['max_batch']}",
        )
    whose = "files here go" if found["target"] is not None else "files go, at best,"
    yield "expected", f"{whose} {_ROUTES[expected['route']]}: {expected['because']}"
    for sentence in expected["in_the_way"]:
        yield "not direct", sentence


def _known(value: bool | None, yes: str, no: str) -> str:
    return _UNKNOWN if value is None else yes if value else no


def _target(target: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    yield "medium", target["medium"]
    for sentence in target["evidence"]:
        yield "", sentence
    yield "file system", f"{target['file_system'] or _UNKNOWN}, {target['mount_options'] or 'no mount options'}"
    for device in target["devices"]:
        facts = [
            f"{name} {value}" for name, value in device.items() if value is not None and name not in ("name", "dev")
        ]
        yield f"device {device['name']}", ", ".join(facts)
    if not target["devices"]:
        yield "device", "none under it"
    alignment = target["alignment"]
    if alignment is None:
        yield "alignment", "unknown: neither statx nor a block device says"
    elif alignment["offset"] == 0:
        yield "alignment", "direct I/O is refused (statx)"
    else:
        yield (
            "alignment",
            f"offsets {alignment['offset']} bytes, memory {alignment['memory']} bytes ({alignment['source']})",
        )


def _answers(answers: Iterable[Mapping[str, Any]]) -> list[str]:
    listed = list(answers)
    width = max(len(answer["name"]) for answer in listed)
    lines = []
    for answer in listed:
        head = f"  {answer['name']:<{width}}  {_ANSWERS[answer['available']]:<3}  "
        lines += _wrapped(answer["title"] if answer["available"] else answer["reason"], head)
    return lines


def _facts(facts: Iterable[tuple[str, str]]) -> list[str]:
    listed = list(facts)
    width = max(len(name) for name, _ in listed)
    return [line for name, text in listed for line in _wrapped(text, f"  {name:<{width}}  ")]


def _remedies(remedies: Iterable[str]) -> list[str]:
    lines = [line for remedy in remedies for line in _wrapped(remedy, "  - ")]
    return ["worth knowing", *lines] if lines else []


def _wrapped(text: str, head: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head.rstrip()]


def _list(numbers_: Iterable[int]) -> str:
    return ",".join(map(str, numbers_))


def _size(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value / 2**30:.1f} GiB"


def _count(value: int | None) -> str:
    return "unlimited" if value is None else f"{value:,}"
