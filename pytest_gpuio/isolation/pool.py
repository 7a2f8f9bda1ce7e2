"""The measuring children of one run: one persistent child per family of data paths."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Self

from pytest_gpuio.isolation.child import GRACE_S, Child
from pytest_gpuio.isolation.process import given_up


class Children:
    """Starts a child when its family is first asked for, keeps it, and starts a new one when it has died.

    Args:
        module: the module every child runs.
        env: variables added to this process's environment. env_of: further ones of a family.
        grace_s: seconds that a child may take to answer after it was told to stop.
    """

    def __init__(
        self,
        module: str,
        *,
        env: Mapping[str, str] | None = None,
        env_of: Callable[[str], Mapping[str, str]] | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self._module = module
        self._env = env
        self._env_of = env_of
        self._grace_s = grace_s
        self._children: dict[str, Child] = {}
        #: Sentences about children that were asked to end and crashed or hung instead.
        self.bad_ends: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_all()

    def get(self, family: str) -> Child:
        """The family's child, alive; a new one when there is none or the old one has died.

        Raises:
            ChildDied: a new one could not be started.
        """
        child = self._children.get(family)
        if child is not None and child.alive:
            return child
        return self.replace(family)

    def replace(self, family: str) -> Child:
        """Ends the family's child, whatever its state, and starts another: after a void cell nothing is trusted.

        Raises:
            ChildDied: the new one could not be started.
        """
        old = self._children.pop(family, None)
        if old is not None:
            self._close(old)
        env = self._env
        if self._env_of is not None:
            env = {**(env or {}), **self._env_of(family)}
        child = self._children[family] = Child(self._module, name=family, env=env, grace_s=self._grace_s)
        return child

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the children that are alive."""
        return tuple(child.pid for child in self._children.values() if child.alive)

    @property
    def given_up(self) -> frozenset[int]:
        """Process ids of children that outlived SIGKILL and still do: they wait in the kernel for a device."""
        return given_up()

    def stop(self) -> None:
        """Sets the stop word of every child. Never blocks."""
        for child in list(self._children.values()):
            child.stop()

    def close_all(self) -> None:
        """Ends every child; each takes a bounded time."""
        with contextlib.ExitStack() as stack:  # an interrupt in one still closes the others
            while self._children:
                stack.callback(self._close, self._children.popitem()[1])

    def _close(self, child: Child) -> None:
        end = child.close()
        if end is not None:
            self.bad_ends.append(end)
