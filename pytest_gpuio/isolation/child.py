"""The parent's side of a measuring child: requests with deadlines, events, and an end to everything."""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
import select
import time
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from pytest_gpuio.core.errors import ChildDied, GpuioError
from pytest_gpuio.isolation import messages
from pytest_gpuio.isolation.failures import decode_failure
from pytest_gpuio.isolation.process import KILL_WAIT_S, Process, read_some
from pytest_gpuio.isolation.serve import EXIT

if TYPE_CHECKING:
    import resource

#: Gets each event's name and data while a request runs.
OnEvent = Callable[[str, dict[str, Any]], None]

#: How long a child that was told to stop may take to answer, in seconds.
GRACE_S: Final = 2.0

_TAIL_LINES: Final = 15
_TAIL_CHARACTERS: Final = 2_000
#: How long a child that closed its pipe may take to end, in seconds.
_CLOSE_WAIT_S: Final = 0.5
#: Reads of what a dead child left in its pipes; the longest line needs 256.
_LAST_READS: Final = 1_024


class _Late(Exception):
    """The deadline has passed or the child is silent; the text goes on from ``measuring child 'x'``."""


class _Lost(Exception):
    """The child cannot be talked to any more; the text goes on from ``measuring child 'x'``."""


class Child:
    """A child process that serves requests until it is closed, dies, or is given up.

    It is started at once, in a session of its own. It ends when the thread that created this object ends (kill -9 of
    the whole process included), when its request pipe closes, and when this object is collected. One thread at a time
    may use it; only :meth:`stop` may be called from anywhere.

    Args:
        module: module that calls :func:`pytest_gpuio.isolation.serve.serve` when run with ``python -P -m``.
        name: what people see: the family of data paths.
        env: variables added to this process's environment.
        grace_s: seconds that a child may take to answer after it was told to stop.

    Raises:
        ChildDied: the system refused to start it.
    """

    def __init__(
        self, module: str, *, name: str, env: Mapping[str, str] | None = None, grace_s: float = GRACE_S
    ) -> None:
        self.name = name
        self._grace_s = grace_s
        memory, page = _shared_page()
        self._word, self._answers = page.cast("I")[:1], page.cast("Q")[1:3]
        try:
            self._process = Process(module, name=name, env=env, word=memory)
        finally:
            os.close(memory)
        # Kills it when this object is collected and when the interpreter ends: no orphans.
        self._finalizer = weakref.finalize(self, self._process.destroy)
        self._lines = messages.LineBuffer()
        self._unsent = memoryview(b"")
        self._number = 0
        self._running: int | None = None
        self._lost: str | None = None
        self._poll = select.poll()
        for fd in (self._process.replies, self._process.prints, self._process.pidfd):
            self._poll.register(fd, select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id, and id of its process group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can take a request: it runs, and has not been closed or given up."""
        return self._finalizer.alive and self._lost is None and not self._process.ended

    @property
    def usage(self) -> resource.struct_rusage | None:
        """Resource usage over its whole life, from wait4; None until it has ended and was reaped."""
        return self._process.usage

    @property
    def output(self) -> str:
        """The last 64 KiB of what it printed, as far as it has been read."""
        return self._process.output.decode("utf-8", errors="replace")

    def request(
        self,
        op: str,
        params: Mapping[str, Any] | None = None,
        *,
        deadline_s: float,
        silence_s: float | None = None,
        on_event: OnEvent | None = None,
    ) -> Any:
        """Has the child run one operation and returns its result.

        A late child is told to stop, gets ``grace_s`` seconds to answer, and is then killed with its group. The same
        happens when anything is raised here meanwhile (Ctrl-C, an error in ``on_event``); a second Ctrl-C kills at
        once. Either way the child is idle or gone when this returns or raises.

        Args:
            op: name of the operation.
            params: its parameters; they must have a JSON form.
            deadline_s: seconds from now to the reply.
            silence_s: longest time between two messages of the child, in seconds; None = up to the deadline.
            on_event: called in this thread for each event, also while a child that was interrupted or late winds up.

        Raises:
            ChildDied: it crashed, was late or silent, or broke the protocol; ``alive`` tells whether it can go on.
            ChildFault: the operation raised something unexpected; the traceback is an attribute.
            GpuioError: what the operation raised, as the same class; or the child is closed, or still busy.
            MessageError: the parameters have no JSON form; nothing was sent.
        """
        if not self._finalizer.alive:
            raise GpuioError(f"measuring child {self.name!r} is closed.")
        if self._running is not None:
            raise GpuioError(f"measuring child {self.name!r} is busy with another request: one at a time.")
        line = messages.encode(messages.request(self._number + 1, op, params or {}))
        if self._lost is not None:
            raise ChildDied(self._sentence(f"is gone: it {self._lost}"))
        if self._process.ended:
            self._give_up()
            raise ChildDied(self._sentence(f"died while it was idle: it {self._lost}"))
        self._word[0] = 0
        self.answer(0, 0)
        self._number += 1
        try:
            self._running = self._number
            self._send(line)
            answer = self._converse(deadline_s, silence_s, on_event)
        except _Late as late:
            error = self._late(op, str(late), on_event)
            raise error from error.__cause__
        except _Lost as lost:
            self._give_up(str(lost))
            raise ChildDied(self._sentence(f"{self._lost}, during {op!r}")) from None
        except KeyboardInterrupt as interrupt:
            try:
                self._settle(on_event)
            except Exception as error:
                raise interrupt from error
            raise
        except BaseException:
            self._settle(None)
            raise
        if answer["ok"]:
            return answer.get("result")
        raise decode_failure(answer["error"])

    def stop(self) -> None:
        """Asks the running request to end early; the child's code and the engine look at this word. Never blocks."""
        self._word[0] = 1

    def answer(self, first: int, second: int) -> None:
        """Writes the child's two words (uint64), for code of its that waits for them. Never blocks."""
        self._answers[1] = second
        self._answers[0] = first

    def close(self) -> str | None:
        """Ends the child: an idle one is asked to exit, any other is killed. Bounded; a second call does nothing.

        Returns:
            How it ended, as a sentence, when it was asked to exit and crashed or hung instead; None = well.
        """
        asked, ended = False, True
        try:
            if self._process.mine and self.alive and self._running is None:
                asked = True
                self._ask_to_exit()
                ended = self._process.ended
        finally:
            self._finalizer()
            # Frees the shared page; stop() and answer() stay harmless.
            self._word, self._answers = memoryview(bytearray(4)).cast("I"), memoryview(bytearray(16)).cast("Q")
        if asked and not ended:
            return self._sentence(f"did not end within {self._grace_s:g} s of being asked to, and was killed")
        if asked and self._process.returncode:
            return self._sentence(f"{self._process.describe_end()} when it was asked to end")
        return None

    def _ask_to_exit(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._process.requests, messages.encode(messages.request(0, EXIT, {})))
        until = time.monotonic() + self._grace_s
        waiting = select.poll()
        for fd in (self._process.prints, self._process.pidfd):
            waiting.register(fd, select.POLLIN)
        while (rest := until - time.monotonic()) > 0 and not self._process.ended:
            for fd, _ in waiting.poll(_milliseconds(rest)):
                if fd == self._process.prints and self._process.read_output() == b"":
                    waiting.unregister(fd)

    def _send(self, line: bytes) -> None:
        """Sends what fits into the pipe; :meth:`_receive` sends the rest, so that a deaf child cannot block this."""
        self._unsent = memoryview(line)
        self._poll.register(self._process.requests, select.POLLOUT)

    def _send_more(self) -> None:
        """Raises BrokenPipeError when the child has closed its end."""
        with contextlib.suppress(BlockingIOError):
            self._unsent = self._unsent[os.write(self._process.requests, self._unsent) :]
        if not self._unsent:
            self._poll.unregister(self._process.requests)

    def _converse(self, deadline_s: float, silence_s: float | None, on_event: OnEvent | None) -> dict[str, Any]:
        """The reply of the running request."""
        deadline = time.monotonic() + deadline_s
        while True:
            silence = time.monotonic() + silence_s if silence_s is not None else math.inf
            message = self._receive(min(deadline, silence))
            if message is not None and "event" not in message:
                return message
            if time.monotonic() >= deadline:
                raise _Late(f"was not done within {deadline_s:g} s")
            if message is None:
                raise _Late(f"said nothing for {silence_s:g} s")
            if on_event is not None:
                on_event(message["event"], message["data"])

    def _settle(self, on_event: OnEvent | None) -> dict[str, Any] | None:
        """Brings a busy child to rest: its reply to the stop word, or None after it was killed."""
        if self._running is None:
            return None
        self.stop()
        until = time.monotonic() + self._grace_s
        reason = f"did not answer within {self._grace_s:g} s of being told to stop and was killed"
        try:
            while time.monotonic() < until and (message := self._receive(until)) is not None:
                if "event" not in message:
                    return message
                if on_event is not None:
                    on_event(message["event"], message["data"])
        except _Lost as lost:
            reason = str(lost)
        except BaseException:
            self._give_up("was killed at once when interrupted again")
            raise
        self._give_up(reason)
        return None

    def _late(self, op: str, reason: str, on_event: OnEvent | None) -> ChildDied:
        """Winds up a late child; the error to raise."""
        answer = self._settle(on_event)
        if answer is None:
            return ChildDied(self._sentence(f"{reason} during {op!r}, then {self._lost}"))
        if answer["ok"]:
            return ChildDied(f"measuring child {self.name!r} {reason} during {op!r}; it stopped when told to.")
        failure = decode_failure(answer["error"])
        error = ChildDied(f"measuring child {self.name!r} {reason} during {op!r}; told to stop, it answered: {failure}")
        error.__cause__ = failure
        return error

    def _receive(self, until: float) -> dict[str, Any] | None:
        """The next message; None when there is none before ``until`` (of the monotonic clock)."""
        while True:
            message = self._next()
            if message is not None:
                return message
            rest = until - time.monotonic()
            if rest <= 0:
                return None
            ready = {fd for fd, _ in self._poll.poll(_milliseconds(rest))}
            if self._process.prints in ready and self._process.read_output() == b"":
                self._poll.unregister(self._process.prints)
            closed = False
            if self._process.requests in ready:
                try:
                    self._send_more()
                except BrokenPipeError:
                    closed = True
            if self._process.replies in ready:
                data = read_some(self._process.replies)
                closed = closed or data == b""
                self._lines.feed(data or b"")
            if closed or self._process.pidfd in ready:
                return self._last_message(closed)

    def _last_message(self, closed: bool) -> dict[str, Any]:
        """What a child said before it died or closed its pipe."""
        if not self._process.wait(_CLOSE_WAIT_S if closed else KILL_WAIT_S):
            raise _Lost("closed its message pipe" if closed else self._process.describe_end())
        for _ in range(_LAST_READS):
            data = read_some(self._process.replies)
            if not data:
                break
            self._lines.feed(data)
        message = self._next()
        if message is not None:
            return message
        torn = " in the middle of a message" if self._lines.pending else ""
        raise _Lost(self._process.describe_end() + torn)

    def _next(self) -> dict[str, Any] | None:
        """The next message that has arrived, checked against the running request; a reply ends it."""
        try:
            line = self._lines.pop()
            if line is None:
                return None
            message = messages.decode(line)
        except messages.MessageError as error:
            raise _Lost(f"broke the protocol: {error}") from None
        is_event = isinstance(message.get("event"), str) and isinstance(message.get("data"), dict)
        is_reply = message.get("ok") is True or (message.get("ok") is False and isinstance(message.get("error"), dict))
        if message.get("id") != self._running or is_event == is_reply:
            raise _Lost(f"broke the protocol: unexpected message to request {self._running}: {line[:100]!r}")
        if is_reply:
            self._running = None
        return message

    def _give_up(self, reason: str | None = None) -> None:
        """Kills it and keeps the reason (its own end when there is none) and the last words."""
        self._running = None
        self._unsent = memoryview(b"")
        reaped = self._process.kill()
        for _ in range(_LAST_READS):
            if not self._process.read_output():
                break
        if reason is None:
            self._lost = self._process.describe_end()
        else:
            self._lost = reason if reaped else f"{reason}, but {self._process.describe_end()}"

    def _sentence(self, text: str) -> str:
        """A whole message: who, what, and the last words."""
        tail = "\n".join(self.output.strip().splitlines()[-_TAIL_LINES:])[-_TAIL_CHARACTERS:]
        words = f" Its last words:\n{tail}" if tail else " It printed nothing."
        return f"measuring child {self.name!r} (pid {self.pid}) {text}.{words}"


def _shared_page() -> tuple[int, memoryview]:
    """Shared memory: descriptor and bytes; the first uint32 is the stop word, the second and third uint64 answers."""
    memory = os.memfd_create("gpuio-stop", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(memory, mmap.PAGESIZE)
        # A page that shrank under a reader would be a SIGBUS in its window.
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return memory, memoryview(mmap.mmap(memory, mmap.PAGESIZE))
    except BaseException:
        os.close(memory)
        raise


def _milliseconds(seconds: float) -> int:
    """For poll: never shorter than asked, and no wait so long that poll refuses it."""
    return math.ceil(min(seconds, 3600.0) * 1000)
