"""How much effort a run spends on each cell: a named profile after the user's own options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pytest_gpuio.measure.placement import NEAR
from pytest_gpuio.measure.plan import LEAST_WINDOW_S, Copies, VerifyMode
from pytest_gpuio.measure.settings import Settings

#: A target may get faster after the warm-up, and its windows shorter, by so much.
_OF_LENGTH: Final = 2 / 3


@dataclass(frozen=True, slots=True)
class Profile:
    """How much effort a run spends; the named ones are in :data:`PROFILES`.

    Attributes:
        size: bytes of a target's data region.
        precision: wanted relative half-width of the mean's 95 % confidence interval.
        max_time: seconds of measured windows per cell.
        window_s: seconds a window lasts at least.
    """

    name: str
    size: int
    precision: float
    max_time: float
    window_s: float


PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile("quick", size=1 << 30, precision=0.05, max_time=1.0, window_s=0.25),
        Profile("standard", size=8 << 30, precision=0.02, max_time=10.0, window_s=0.25),
        Profile("thorough", size=32 << 30, precision=0.01, max_time=60.0, window_s=0.5),
    )
}


@dataclass(frozen=True, slots=True)
class Effort:
    """A profile after the user's own options, and what else shapes every plan of a run.

    Attributes:
        region_bytes: bytes every cell works on.
        timeout_s: seconds after which a window is stuck, None = from its bytes.
        arrival_wait: how an open loop waits. knobs: engine settings the user switched.
        sq_idle_ms: milliseconds a submission poller spins without work. daemons: process ids outside.
        allow_destroy: raw devices that may be overwritten, as the user named them. force: whatever they carry.
        numa: where workers and buffers lie: ``near`` the device, ``any``, or the number of a node.
        windows, warm_up_s, least_window_s: see :class:`~pytest_gpuio.measure.plan.Plan`; short windows are for sweeps.
        gpus: ordinals of the GPUs that cells may use, in this order; empty = all. copies: how bytes get there.
        gpu_order: ``near`` or ``far``: which GPUs, by their way to the target; empty = as ``gpus`` says.
    """

    profile: str
    region_bytes: int
    precision: float
    max_time: float
    window_s: float
    seed: int
    verify: VerifyMode
    timeout_s: float | None = None
    arrival_wait: Literal["sleep", "spin"] = "sleep"
    knobs: Mapping[str, bool] = field(default_factory=dict)
    sq_idle_ms: int = 50
    daemons: tuple[int, ...] = ()
    allow_destroy: tuple[str, ...] = ()
    force: bool = False
    numa: str = NEAR
    gpus: tuple[int, ...] = ()
    copies: Copies = field(default_factory=Copies)
    gpu_order: str = ""
    windows: int | None = None
    warm_up_s: float | None = None
    least_window_s: float = LEAST_WINDOW_S


def least_window(length_s: float) -> float:
    """Seconds below which a window that was to last ``length_s`` is not believed."""
    return min(_OF_LENGTH * length_s, LEAST_WINDOW_S)


def effort_of(asked: Settings) -> Effort:
    """The profile after the user's own options."""
    profile = PROFILES[asked.profile]
    # A short budget means few windows, not windows that are too short to be believed.
    shortened = max(min(profile.window_s, asked.max_time or profile.window_s), LEAST_WINDOW_S / _OF_LENGTH)
    window_s = asked.window or shortened
    return Effort(
        profile=profile.name,
        region_bytes=asked.size or profile.size,
        precision=asked.precision or profile.precision,
        max_time=asked.max_time or profile.max_time,
        window_s=window_s,
        least_window_s=least_window(window_s),
        seed=asked.seed,
        verify=asked.verify,
        timeout_s=asked.timeout,
        arrival_wait=asked.wait,
        knobs=asked.knobs,
        sq_idle_ms=asked.sq_idle_ms,
        daemons=asked.daemons,
        allow_destroy=asked.allow_destroy,
        force=asked.force,
        numa=asked.numa,
        gpus=() if isinstance(asked.gpu, str) else asked.gpu,
        gpu_order=asked.gpu if isinstance(asked.gpu, str) else "",
        copies=Copies(**asked.copies),
    )
