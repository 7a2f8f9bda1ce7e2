"""The child's side: takes requests from the parent's pipe, runs their handlers, answers, and dies with its parent."""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import signal
import sys

from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.isolation import messages
from pytest_gpuio.isolation.failures import encode_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final, NoReturn, Protocol

    class Emit(Protocol):
        """Sends one event of the running request; call it from the handler's own thread only."""

        def __call__(self, event: str, /, **data: Any) -> None:
            """Raises MessageError when a value has no JSON form."""

    Handler = Callable[[dict[str, Any], Emit], Any]

#: First argument of a child, so that a module started by hand can say what it is.
ARGUMENT: Final = "--gpuio-child"
#: Operation that ends a child; no handler may take its name.
EXIT: Final = "exit"

_PR_SET_PDEATHSIG: Final = 1
_word: memoryview | None = None
_answers: memoryview | None = None


def stop_word() -> memoryview:
    """The one uint32 that the parent shares with this child: not zero = end the request early.

    It can be handed to C as a pointer to ``const uint32_t``; it stays mapped as long as the process lives. The parent
    clears it before each request.

    Raises:
        GpuioError: this process is no child, or :func:`serve` has not been called yet.
    """
    if _word is None:
        raise GpuioError("there is no stop word: this process is not a measuring child that serves requests.")
    return _word


def answer_words() -> memoryview:
    """Two uint64 that the parent writes while a request runs, in answer to an event: the second one, then the first.

    Raises:
        GpuioError: as :func:`stop_word`.
    """
    if _answers is None:
        raise GpuioError("there are no answers: this process is not a measuring child that serves requests.")
    return _answers


def stop_requested() -> bool:
    """Whether the parent wants the running request to end early."""
    return bool(stop_word()[0])


def serve(handlers: Mapping[str, Handler], at_exit: Callable[[], None] | None = None) -> NoReturn:
    """Serves requests until the parent says exit, closes its pipe or dies; never returns.

    A handler gets the request's parameters and a function that sends events; what it returns must have a JSON form. An
    exception goes to the parent as an error; the child lives on.

    Args:
        handlers: functions by operation name.
        at_exit: called once when the parent says exit or closes its pipe; the parent waits for it as long as for an
            answer to its stop word.
    """
    global _word, _answers  # one process is one child
    if EXIT in handlers:
        raise ValueError(f"{EXIT!r} is the operation that ends a child; name the handler differently")
    name, requests, replies, word, parent = _arguments()
    die_with(parent)
    # The terminal's Ctrl-C is the parent's to judge: it sets the stop word and waits for the answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        _line_buffered(stream)
    for fd in (requests, replies, word):
        os.set_inheritable(fd, False)
    page = memoryview(mmap.mmap(word, mmap.PAGESIZE))
    _word, _answers = page.cast("I")[:1], page.cast("Q")[1:3]

    lines = messages.LineBuffer()
    while True:
        line = lines.pop()
        if line is None:
            data = os.read(requests, 65_536)
            if not data:
                _leave(at_exit)
            lines.feed(data)
            continue
        message = messages.decode(line)
        if message["op"] == EXIT:
            _leave(at_exit)
        _write(replies, _answer(name, handlers, message, replies))


def _answer(name: str, handlers: Mapping[str, Handler], message: dict[str, Any], replies: int) -> bytes:
    number, op = message["id"], message["op"]

    def emit(event: str, /, **data: Any) -> None:
        _write(replies, messages.encode(messages.event(number, event, data)))

    try:
        if op not in handlers:
            raise GpuioError(f"child {name!r} has no operation {op!r}; it knows: {', '.join(sorted(handlers))}.")
        return messages.encode(messages.reply(number, handlers[op](message["params"], emit)))
    except Exception as error:  # noqa: BLE001  whatever it is, the parent must hear of it
        return messages.encode(messages.refusal(number, encode_failure(error, f"child {name!r}, operation {op!r}")))


def _arguments() -> tuple[str, int, int, int, int]:
    """Name, request pipe, reply pipe, memory of the stop word, process id of the parent."""
    if len(sys.argv) != 4 or sys.argv[1] != ARGUMENT:
        sys.exit("This module is a measuring child that gpuio starts by itself; it does nothing by hand.")
    requests, replies, word, parent = (int(part) for part in sys.argv[3].split(","))
    return sys.argv[2], requests, replies, word, parent


def die_with(parent: int) -> None:
    """Has the kernel kill this process when the parent's thread that started it ends, kill -9 included."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it died before the line above
        os._exit(0)


def _line_buffered(stream: Any) -> None:
    """A crash must not take the last words along."""
    if stream is not None:
        stream.reconfigure(line_buffering=True)


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except BrokenPipeError:  # the parent is gone, or has given this child up
        os._exit(0)


def _leave(at_exit: Callable[[], None] | None) -> NoReturn:
    """Ends at once: an interpreter's tidy end could wait for threads that are stuck in the kernel."""
    if at_exit is not None:
        try:
            at_exit()
        except Exception as error:  # noqa: BLE001  it must end all the same
            sys.stderr.write(f"closing at exit: {error}\n")
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    os._exit(0)
