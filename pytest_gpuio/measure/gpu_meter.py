"""Child side: what NVIDIA's management library says of the GPUs over a measured stretch; it looks at both ends only."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_INSTALL: Final = "pip install 'pytest-gpuio[gpu]'"
#: What GPM measures between two samples: our name, NVML's name, factor to bytes per second or to a share.
_METRICS: Final = (
    ("pcie_rx_bytes_per_s", "NVML_GPM_METRIC_PCIE_RX_PER_SEC", float(1 << 20)),
    ("pcie_tx_bytes_per_s", "NVML_GPM_METRIC_PCIE_TX_PER_SEC", float(1 << 20)),
    ("sm_active", "NVML_GPM_METRIC_SM_UTIL", 0.01),
    ("graphics_active", "NVML_GPM_METRIC_GRAPHICS_UTIL", 0.01),
    ("memory_active", "NVML_GPM_METRIC_DRAM_BW_UTIL", 0.01),
)
_COUNTERS: Final = (
    ("pcie_rx_bytes_per_s", "NVML_FI_DEV_PCIE_COUNT_RX_BYTES"),
    ("pcie_tx_bytes_per_s", "NVML_FI_DEV_PCIE_COUNT_TX_BYTES"),
)
#: Reasons for lower clocks that mean the GPU could not run as it would: heat, power, or the board's brake.
_SLOWED: Final = (
    ("SwPowerCap", "power cap"),
    ("HwSlowdown", "hardware slowdown"),
    ("SwThermalSlowdown", "heat (driver)"),
    ("HwThermalSlowdown", "heat (hardware)"),
    ("HwPowerBrakeSlowdown", "power brake"),
)


@dataclass
class _Look:
    """One GPU at one time."""

    at: float
    sample: Any
    counters: Mapping[str, int]
    facts: Mapping[str, Any]


class GpuMeter:
    """Stands at both ends of a stretch.

    Args:
        uuids: of the GPUs by their CUDA ordinal.
        nvml: NVIDIA's binding; None = import it.
    """

    def __init__(self, uuids: Mapping[int, str], nvml: Any = None) -> None:
        self.reason: str | None = None
        self._nvml: Any = None
        self._handles: dict[int, Any] = {}
        self._before: dict[int, _Look] = {}
        try:
            self._nvml = nvml or importlib.import_module("pynvml")
            self._nvml.nvmlInit()
        except ImportError:
            self.reason = f"NVIDIA's nvidia-ml-py is not installed: {_INSTALL}"
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, cells are measured without it
            self.reason = f"NVML cannot be opened ({error})"
            return
        for ordinal, uuid in uuids.items():
            handle = self._ask("nvmlDeviceGetHandleByUUID", uuid)
            if handle is not None:
                self._handles[ordinal] = handle

    def _ask(self, name: str, *arguments: Any) -> Any:
        """What NVML answers; None where it cannot, which depends on GPU, driver and privileges."""
        try:
            return getattr(self._nvml, name)(*arguments)
        except Exception:  # noqa: BLE001 - its error class is its own; an unknown fact is no error here
            return None

    def begin(self) -> None:
        """The stretch begins."""
        self._release()
        self._before = {ordinal: self._look(handle) for ordinal, handle in self._handles.items()}

    def finish(self) -> dict[str, Any]:
        """What was found, as JSON-able values; null where the GPU or its driver does not tell."""
        found = []
        for ordinal, handle in self._handles.items():
            before, after = self._before.get(ordinal), self._look(handle)
            if before is not None:
                found.append({"ordinal": ordinal} | self._between(before, after))
            self._free(after)
        self._release()
        reason = self.reason
        if reason is None and not found:
            reason = "NVML does not show the GPUs that CUDA shows"
        return {"reason": reason, "gpus": found}

    def close(self) -> None:
        """Let go of NVML."""
        self._release()
        if self._nvml is not None:
            self._ask("nvmlShutdown")
            self._nvml = None
            self._handles = {}

    def _look(self, handle: Any) -> _Look:
        sample = None
        support = self._ask("nvmlGpmQueryDeviceSupport", handle)
        if support is not None and support.isSupportedDevice:
            sample = self._ask("nvmlGpmSampleAlloc")
            if sample is not None:
                self._ask("nvmlGpmSampleGet", handle, sample)
        counters = {}
        for name, field in _COUNTERS:
            values = self._ask("nvmlDeviceGetFieldValues", handle, [getattr(self._nvml, field, None)])
            if values and values[0].nvmlReturn == 0:
                counters[name] = int(values[0].value.ullVal)
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses", handle)
        mask = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        facts = {
            "memory_used": None if memory is None else int(memory.used),
            "contexts": None if processes is None else len(processes),
            "sm_clock_hz": _hertz(self._ask("nvmlDeviceGetClockInfo", handle, getattr(self._nvml, "NVML_CLOCK_SM", 1))),
            "memory_clock_hz": _hertz(
                self._ask("nvmlDeviceGetClockInfo", handle, getattr(self._nvml, "NVML_CLOCK_MEM", 2))
            ),
            "temperature": self._ask("nvmlDeviceGetTemperature", handle, 0),
            "slowed": None if mask is None else self._slowed(mask),
        }
        return _Look(time.monotonic(), sample, counters, facts)

    def _slowed(self, mask: int) -> list[str]:
        return [text for name, text in _SLOWED if mask & getattr(self._nvml, f"nvmlClocksEventReason{name}", 0)]

    def _between(self, before: _Look, after: _Look) -> dict[str, Any]:
        seconds = after.at - before.at
        found: dict[str, Any] = dict.fromkeys(name for name, _, _ in _METRICS)
        found |= {"seconds": seconds, "pcie_source": None}
        found |= self._gpm(before.sample, after.sample)
        for name, _field in _COUNTERS:
            if found[name] is None and name in before.counters and name in after.counters and seconds > 0:
                found[name] = (after.counters[name] - before.counters[name]) / seconds
                found["pcie_source"] = "counters"
        slowed = [look.facts["slowed"] for look in (before, after)]
        known = [reasons for reasons in slowed if reasons is not None]
        return found | {
            "memory_used_before": before.facts["memory_used"],
            "memory_used_after": after.facts["memory_used"],
            "contexts": after.facts["contexts"],
            "sm_clock_hz": after.facts["sm_clock_hz"],
            "memory_clock_hz": after.facts["memory_clock_hz"],
            "temperature": after.facts["temperature"],
            "slowed": sorted({reason for reasons in known for reason in reasons}) if known else None,
        }

    def _gpm(self, before: Any, after: Any) -> dict[str, Any]:
        if before is None or after is None:
            return {}
        known = [(name, getattr(self._nvml, metric, None), factor) for name, metric, factor in _METRICS]
        wanted = [(name, metric, factor) for name, metric, factor in known if metric is not None]
        try:
            request = self._nvml.c_nvmlGpmMetricsGet_t()
            request.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
            request.numMetrics = len(wanted)
            request.sample1, request.sample2 = before, after
            for index, (_name, metric, _factor) in enumerate(wanted):
                request.metrics[index].metricId = metric
            self._nvml.nvmlGpmMetricsGet(request)
        except Exception:  # noqa: BLE001 - as in _ask
            return {}
        found: dict[str, Any] = {
            name: float(request.metrics[index].value) * factor
            for index, (name, _metric, factor) in enumerate(wanted)
            if request.metrics[index].nvmlReturn == 0
        }
        return found | {"pcie_source": "gpm"} if "pcie_rx_bytes_per_s" in found else found

    def _free(self, look: _Look) -> None:
        if look.sample is not None:
            self._ask("nvmlGpmSampleFree", look.sample)

    def _release(self) -> None:
        for look in self._before.values():
            self._free(look)
        self._before = {}


def _hertz(megahertz: int | None) -> int | None:
    return None if megahertz is None else int(megahertz) * 1_000_000


def slowed_gpus(values: Mapping[str, Any] | None) -> Sequence[tuple[int, list[str]]] | None:
    """Ordinals of the GPUs that were slowed down, with the reasons; None when no GPU tells.

    Args:
        values: of :meth:`GpuMeter.finish`.
    """
    known = [gpu for gpu in (values or {}).get("gpus", ()) if gpu["slowed"] is not None]
    return [(gpu["ordinal"], gpu["slowed"]) for gpu in known if gpu["slowed"]] if known else None
