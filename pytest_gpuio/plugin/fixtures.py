"""The fixtures a suite names: one per axis, and ``gpuio``, which measures the cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_gpuio.plugin.cells import CellHandle


def _axis(request: pytest.FixtureRequest) -> Any:
    try:
        return request.param
    except AttributeError:
        raise pytest.UsageError(
            f"fixture {request.fixturename!r} is an axis of a cell: the test must also ask for the fixture 'gpuio'."
        ) from None


@pytest.fixture
def datapath(request: pytest.FixtureRequest) -> str:
    """Name of the requested data path, ``io_uring``."""
    return str(_axis(request))


@pytest.fixture
def medium(request: pytest.FixtureRequest) -> str:
    """Class of the target's medium, detected from the system, ``nvme_ssd``."""
    return str(_axis(request))


@pytest.fixture
def phase(request: pytest.FixtureRequest) -> str:
    """Phase of the workload: ``pretrain``, ``finetune``, ``inference``, or ``micro`` for none of them."""
    return str(_axis(request))


@pytest.fixture
def gpuio_target(request: pytest.FixtureRequest) -> str:
    """Name of the target, ``default`` when the user gave none."""
    return str(_axis(request))


@pytest.fixture
def gpuio_workload(request: pytest.FixtureRequest) -> str:
    """Name of the workload, ``inference/kv_fetch``."""
    return str(_axis(request))


@pytest.fixture
def gpuio_destination(request: pytest.FixtureRequest) -> str:
    """Memory the bytes end in: ``host`` or ``gpu``."""
    return str(_axis(request))


@pytest.fixture
def gpuio_gpus(request: pytest.FixtureRequest) -> int:
    """Number of GPUs; 0 for host memory."""
    return int(_axis(request))


@pytest.fixture
def gpuio_bs(request: pytest.FixtureRequest) -> int:
    """Bytes per request."""
    return int(_axis(request))


@pytest.fixture
def gpuio_qd(request: pytest.FixtureRequest) -> int:
    """Requests in flight per job."""
    return int(_axis(request))


@pytest.fixture
def gpuio_jobs(request: pytest.FixtureRequest) -> int:
    """Worker threads."""
    return int(_axis(request))


@pytest.fixture
def gpuio_batch(request: pytest.FixtureRequest) -> str:
    """Requests per submit call x completions a reap waits for, ``1x1``."""
    return str(_axis(request))


@pytest.fixture
def gpuio_arrivals(request: pytest.FixtureRequest) -> str:
    """The arrival process: ``closed`` loop, or an open loop's ``poisson:10000``."""
    return str(_axis(request))


@pytest.fixture
def gpuio(
    request: pytest.FixtureRequest,
    benchmark: Any,
    datapath: str,  # noqa: ARG001 - named so that the axes belong to every test that asks for gpuio
    medium: str,  # noqa: ARG001
    phase: str,  # noqa: ARG001
    gpuio_target: str,  # noqa: ARG001
    gpuio_workload: str,  # noqa: ARG001
    gpuio_destination: str,  # noqa: ARG001
    gpuio_gpus: int,  # noqa: ARG001
    gpuio_bs: int,  # noqa: ARG001
    gpuio_qd: int,  # noqa: ARG001
    gpuio_jobs: int,  # noqa: ARG001
    gpuio_batch: str,  # noqa: ARG001
    gpuio_arrivals: str,
) -> CellHandle:
    """The cell of this test: ``gpuio.run()`` measures, judges and records it."""
    from pytest_gpuio.plugin.cells import CellHandle
    from pytest_gpuio.plugin.selection import CELL
    from pytest_gpuio.plugin.state import run_of

    return CellHandle(run_of(request.config), request.node, request.node.stash[CELL], gpuio_arrivals, benchmark)
