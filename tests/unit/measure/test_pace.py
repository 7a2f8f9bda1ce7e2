"""The child's side of windows in step."""

import threading
import time

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.measure.pace import Pace, Verdict, sleep_until


@pytest.mark.parametrize(
    "verdict",
    [Verdict(), Verdict(at_ns=123456789), Verdict(again=True)]
    + [Verdict(end=reason) for reason in ("precision", "max_time", "max_windows", "interrupted")],
)
@pytest.mark.parametrize("number", [1, 2, 10**9])
def test_a_verdict_survives_the_shared_words(verdict, number):
    first, second = verdict.encode(number)
    assert 0 <= first < 1 << 64
    assert Verdict.decode(first, second) == verdict


@pytest.fixture
def words():
    return memoryview(bytearray(16)).cast("Q"), memoryview(bytearray(4)).cast("I")


def test_answers_to_earlier_questions_do_not_count(words):
    answers, stop = words
    asked = []

    def emit(event, **data):
        asked.append((event, data))

        def later():
            if data["number"] == 2:
                time.sleep(0.02)
            answers[1], answers[0] = Verdict(at_ns=data["number"]).encode(data["number"])[::-1]

        threading.Thread(target=later).start()

    pace = Pace(answers, stop, emit, 10.0)
    assert pace.ask().at_ns == 1
    assert pace.ask(ios=5).at_ns == 2
    assert asked[1] == ("pace", {"number": 2, "values": {"ios": 5}})


def test_the_stop_word_ends_the_wait(words):
    answers, stop = words
    stop[0] = 1
    assert Pace(answers, stop, lambda *_, **__: None, 10.0).ask() == Verdict(end="interrupted")


def test_the_wait_has_a_deadline(words):
    with pytest.raises(EngineError, match="were not ready within 0 s"):
        Pace(*words, lambda *_, **__: None, 0.01).ask()


def test_a_time_gone_by_is_no_wait():
    sleep_until(1)
    at = time.monotonic_ns() + 2_000_000
    sleep_until(at)
    assert time.monotonic_ns() >= at
