"""The child that runs the bare loop: ``python -P -m pytest_gpuio.crosscheck.child``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pytest_gpuio.isolation.serve import serve


def bare(params: dict[str, Any], emit: Any) -> dict[str, Any]:  # noqa: ARG001 - the handler's signature
    """io_uring without any measurement: requests completed, seconds, CPU seconds."""
    from pytest_gpuio.engine import bare_uring

    return asdict(bare_uring(**params))


if __name__ == "__main__":
    serve({"bare": bare})
