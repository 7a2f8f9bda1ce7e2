"""The key-value cache in tiers: from a trace of requests to reads and writes of storage."""

from __future__ import annotations

from pytest_gpuio.phases.kv_cache.layout import GRANULARITIES, Layout
from pytest_gpuio.phases.kv_cache.prefill import Prefill
from pytest_gpuio.phases.kv_cache.tiers import Placement, Reuse, Tiers
from pytest_gpuio.phases.kv_cache.traffic import Traffic

__all__ = ["GRANULARITIES", "Layout", "Placement", "Prefill", "Reuse", "Tiers", "Traffic"]
