"""Interleaved pairs: ours and theirs in turns, and theirs against itself as the noise floor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pytest_gpuio.crosscheck.side import Side
from pytest_gpuio.crosscheck.verdict import Spread

Turn = Literal["ours", "theirs", "again"]
#: Runs one side once.
RunSide = Callable[[], Side]
#: (number of the pair, its turn): called before each run.
OnTurn = Callable[[int, Turn], None]


@dataclass(frozen=True, slots=True)
class Pair:
    """Runs that were neighbours in time; ``again`` is the other tool once more, for the self-pair."""

    ours: Side
    theirs: Side
    again: Side


@dataclass(slots=True)
class Pairs:
    """All pairs of a comparison; ``interrupted`` when the user ended it early."""

    done: list[Pair] = field(default_factory=list)
    interrupted: bool = False

    def ratios(self, figure: str) -> list[float]:
        """Ours over theirs, pair by pair; pairs that lack the figure are left out."""
        return _ratios([(pair.ours, pair.theirs) for pair in self.done], figure)

    def self_ratios(self, figure: str) -> list[float]:
        """Theirs over theirs, pair by pair."""
        return _ratios([(pair.again, pair.theirs) for pair in self.done], figure)

    def spread(self, figure: str) -> Spread | None:
        """Of the ratios."""
        return Spread.of(self.ratios(figure))

    def per_cpu_second(self) -> Spread | None:
        """Ratio of requests per CPU second of the tools' own account.

        A tool that is pushed off its CPU makes fewer requests, not more expensive ones: where strangers disturb, this
        says what a quiet machine's rates would, as long as both keep their CPU busy.
        """
        return Spread.of(1.0 / ratio for ratio in self.ratios("cpu_told") if ratio)

    def side(self, turn: Turn, figure: str) -> Spread | None:
        """Of one side's own figures."""
        values = [getattr(pair, turn).figure(figure) for pair in self.done]
        return Spread.of(value for value in values if value is not None)


def turns(number: int) -> tuple[Turn, Turn, Turn]:
    """Order inside pair ``number``: A B B, then B B A, and so on.

    Over two pairs each tool is as often early as late, so a drift of the machine hits both alike; ``theirs`` always is
    ours's neighbour, and ``again`` is its.
    """
    return ("ours", "theirs", "again") if number % 2 == 0 else ("again", "theirs", "ours")


def run_pairs(ours: RunSide, theirs: RunSide, count: int, on_turn: OnTurn | None = None) -> Pairs:
    """Runs ``count`` pairs; Ctrl-C ends it with the pairs that are complete.

    Raises:
        GpuioError: a run failed.
    """
    pairs = Pairs()
    try:
        for number in range(count):
            sides: dict[Turn, Side] = {}
            for turn in turns(number):
                if on_turn is not None:
                    on_turn(number, turn)
                sides[turn] = ours() if turn == "ours" else theirs()
            pairs.done.append(Pair(sides["ours"], sides["theirs"], sides["again"]))
    except KeyboardInterrupt:
        pairs.interrupted = True
    return pairs


def _ratios(sides: Sequence[tuple[Side, Side]], figure: str) -> list[float]:
    found = []
    for above, below in sides:
        upper, lower = above.figure(figure), below.figure(figure)
        if upper is not None and lower:
            found.append(upper / lower)
    return found
