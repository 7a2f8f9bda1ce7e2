"""What a session remembers of targets whose devices fail it."""

import pytest

from pytest_gpuio.core.errors import TargetError
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.measure.session import Session
from pytest_gpuio.media import Medium

EFFORT = Effort("test", region_bytes=1 << 20, precision=0.1, max_time=1.0, window_s=0.25, seed=1, verify="none")


@pytest.fixture
def session(tmp_path):
    (tmp_path / "a").mkdir()
    paths = {name: tmp_path / name for name in ("a", "b")}
    with Session(EFFORT, paths, dict.fromkeys(paths, Medium("unknown", ()))) as session:
        yield session


def test_a_target_that_holds_a_child_is_not_tried_again_while_it_does(session, monkeypatch):
    """A child that outlives SIGKILL needs a broken device: here only our memory of it is tried."""
    session._layouts.stuck("a", frozenset({4711}))
    monkeypatch.setattr(type(session._children), "given_up", property(lambda _: frozenset({4711, 4712})))
    with pytest.raises(TargetError, match="does not answer: measuring child 4711 still waits"):
        session._layouts.check("a")
    session._layouts.check("b")
    monkeypatch.setattr(type(session._children), "given_up", property(lambda _: frozenset()))
    session._layouts.check("a")


def test_a_target_that_vanished_is_refused(session, tmp_path):
    session._layouts.check("a")
    (tmp_path / "a").rmdir()
    session._layouts.check("a")  # it can be made again on the same file system
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    with pytest.raises(TargetError, match="is gone since the run began"):
        session._layouts.check("a")
