import pytest

from pytest_gpuio.capabilities import CAPABILITIES, Resolver
from pytest_gpuio.core.errors import ConfigError


class RecordingProbe:
    """A fake probe: answers from a table and remembers what it was asked."""

    def __init__(self, **missing):
        self.missing = missing
        self.asked = []

    def __call__(self, name, target):
        self.asked.append((name, target))
        return self.missing.get(name)


def test_each_capability_is_probed_once():
    probe = RecordingProbe()
    resolver = Resolver(probe)
    assert resolver.reason("io_uring") is None
    assert resolver.reason("io_uring") is None
    assert probe.asked == [("engine", None), ("io_uring", None)]


def test_a_missing_parent_is_the_reason_and_the_child_is_not_probed():
    probe = RecordingProbe(engine="no engine here")
    assert Resolver(probe).reason("libaio") == "no engine here"
    assert probe.asked == [("engine", None)]


def test_a_target_capability_is_asked_per_target():
    probe = RecordingProbe()
    resolver = Resolver(probe)
    resolver.reason("o_direct", "/a")
    resolver.reason("o_direct", "/b")
    resolver.reason("o_direct", "/a")
    assert probe.asked == [("o_direct", "/a"), ("o_direct", "/b")]


def test_unknown_name_offers_near_ones():
    with pytest.raises(ConfigError, match="did you mean io_uring"):
        Resolver(RecordingProbe()).reason("io_urin")


def test_parents_exist():
    assert {parent for capability in CAPABILITIES.values() for parent in capability.parents} <= set(CAPABILITIES)
