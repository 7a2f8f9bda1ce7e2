"""The GPU meter against a fake of NVML (our own logic); tests/gpu has the real one."""

from types import SimpleNamespace

import pytest

from pytest_gpuio.measure.gates.unsettled import no_throttle
from pytest_gpuio.measure.gpu_meter import GpuMeter, slowed_gpus

HW_THERMAL, POWER_CAP, IDLE = 0x40, 0x4, 0x1


class FakeNvml:
    """NVML with one GPU; metrics are whatever the test says, and each call can be missing."""

    NVML_GPM_METRIC_PCIE_RX_PER_SEC, NVML_GPM_METRIC_PCIE_TX_PER_SEC, NVML_GPM_METRIC_SM_UTIL = 21, 20, 2
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_FI_DEV_PCIE_COUNT_RX_BYTES, NVML_FI_DEV_PCIE_COUNT_TX_BYTES = 198, 197

    def __init__(self, *, gpm=True, counters=True, missing=(), masks=(IDLE, IDLE)):
        self.gpm, self.counters, self.missing, self.masks = gpm, counters, missing, list(masks)
        self.bytes = {198: 1_000, 197: 500}
        self.samples = 0
        self.open = 0
        self.nvmlClocksEventReasonSwPowerCap = POWER_CAP
        self.nvmlClocksEventReasonHwThermalSlowdown = HW_THERMAL

    def __getattribute__(self, name):
        if name.startswith("nvml") and name in object.__getattribute__(self, "missing"):
            raise RuntimeError("not supported")
        return object.__getattribute__(self, name)

    def nvmlInit(self):  # noqa: N802
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid != "GPU-1":
            raise RuntimeError("not found")
        return "handle"

    def nvmlGpmQueryDeviceSupport(self, _handle):  # noqa: N802
        return SimpleNamespace(isSupportedDevice=int(self.gpm))

    def nvmlGpmSampleAlloc(self):  # noqa: N802
        self.samples += 1
        return object()

    def nvmlGpmSampleGet(self, _handle, _sample):  # noqa: N802
        return None

    def nvmlGpmSampleFree(self, _sample):  # noqa: N802
        self.samples -= 1

    def c_nvmlGpmMetricsGet_t(self):  # noqa: N802
        return SimpleNamespace(metrics=[SimpleNamespace(metricId=0, nvmlReturn=1, value=0.0) for _ in range(8)])

    def nvmlGpmMetricsGet(self, request):  # noqa: N802
        values = {21: 56_362.0, 20: 3_365.0, 2: 12.5}
        for metric in request.metrics[: request.numMetrics]:
            metric.nvmlReturn, metric.value = 0, values[metric.metricId]

    def nvmlDeviceGetFieldValues(self, _handle, fields):  # noqa: N802
        self.bytes[fields[0]] += 4_000_000
        value = SimpleNamespace(ullVal=self.bytes[fields[0]])
        return [SimpleNamespace(nvmlReturn=0 if self.counters else 3, value=value)]

    def nvmlDeviceGetMemoryInfo(self, _handle):  # noqa: N802
        return SimpleNamespace(used=7 << 30)

    def nvmlDeviceGetComputeRunningProcesses(self, _handle):  # noqa: N802
        return ["us", "somebody"]

    def nvmlDeviceGetCurrentClocksEventReasons(self, _handle):  # noqa: N802
        return self.masks.pop(0)

    def nvmlDeviceGetClockInfo(self, _handle, kind):  # noqa: N802
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetTemperature(self, _handle, _sensor):  # noqa: N802
        return 38


def measure(nvml, uuid="GPU-1"):
    meter = GpuMeter({0: uuid}, nvml)
    meter.begin()
    found = meter.finish()
    meter.close()
    assert nvml.samples == 0
    assert nvml.open == 0
    return found


def test_gpm_tells_rates_in_bytes_and_shares_of_one():
    (gpu,) = measure(FakeNvml())["gpus"]
    # 56,362 MiB/s of an H200 under a copy of 55.1 GB/s: 59.1 GB/s with the protocol's own bytes.
    assert gpu["pcie_rx_bytes_per_s"] == pytest.approx(59.1e9, rel=1e-3)
    assert (gpu["sm_active"], gpu["pcie_source"]) == (0.125, "gpm")
    assert gpu["memory_active"] is None
    assert (gpu["sm_clock_hz"], gpu["contexts"], gpu["memory_used_after"]) == (1_980_000_000, 2, 7 << 30)
    assert gpu["slowed"] == []


def test_without_gpm_the_driver_s_counters_are_taken():
    (gpu,) = measure(FakeNvml(gpm=False))["gpus"]
    assert gpu["pcie_source"] == "counters"
    assert gpu["pcie_rx_bytes_per_s"] * gpu["seconds"] == pytest.approx(4_000_000)
    assert gpu["sm_active"] is None


def test_what_the_gpu_does_not_tell_is_null_and_no_error():
    names = [name for name in dir(FakeNvml) if name.startswith("nvmlDeviceGet") and "Handle" not in name]
    (gpu,) = measure(FakeNvml(gpm=False, counters=False, missing=(*names, "nvmlGpmQueryDeviceSupport")))["gpus"]
    assert {value for name, value in gpu.items() if name not in ("ordinal", "seconds")} == {None}
    assert slowed_gpus({"gpus": [gpu]}) is None


def test_a_gpu_that_nvml_does_not_show_is_told():
    assert measure(FakeNvml(), "GPU-2") == {"reason": "NVML does not show the GPUs that CUDA shows", "gpus": []}


def test_without_nvml_the_install_line_is_told(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    meter = GpuMeter({0: "GPU-1"})
    meter.begin()
    assert meter.finish()["reason"] == "NVIDIA's nvidia-ml-py is not installed: pip install 'pytest-gpuio[gpu]'"
    meter.close()


def test_nvml_that_does_not_open_is_told():
    found = GpuMeter({0: "GPU-1"}, FakeNvml(missing=("nvmlInit",))).finish()
    assert found == {"reason": "NVML cannot be opened (not supported)", "gpus": []}


def test_a_gpu_slowed_at_either_end_flags_the_cell():
    found = measure(FakeNvml(masks=(IDLE, HW_THERMAL | POWER_CAP)))
    assert found["gpus"][0]["slowed"] == ["heat (hardware)", "power cap"]
    seen = SimpleNamespace(surroundings={}, outcome={"gpu_meter": found})
    finding = no_throttle(seen)
    assert finding.state == "failed"
    assert "GPU 0 was slowed down: heat (hardware), power cap" in finding.detail
    well = SimpleNamespace(surroundings={}, outcome={"gpu_meter": measure(FakeNvml())})
    assert (no_throttle(well).state, no_throttle(well).detail) == ("passed", "no GPU was slowed down")
    nothing = SimpleNamespace(surroundings={}, outcome={})
    assert no_throttle(nothing).state == "unknown"
