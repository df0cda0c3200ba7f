"""A student's notebook, running: the IPython shell that runs its cells, and the calls into it.

This is the student's own process. Nothing that it says is believed; it is written to be of
service to honest code, and hostile code can at worst make it answer nonsense.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import random
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import wanting
import wire
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from matplotlib_inline.backend_inline import configure_inline_support
from traitlets import Type
from traitlets.config import Config

from helpers import probes
from helpers.calling import Answer, call_here
from helpers.guard import CallTimeoutError, CappedText, time_limit
from helpers.lending import KilledError
from helpers.plain import plain_copy
from helpers.process_state import course_defaults, leave_modes

# Taken before anybody's code has run: what a notebook puts in a probe's place is not asked.
_PROBES = {name: getattr(probes, name) for name in probes.__all__}
# The kinds that are safe to show to somebody else.
_SHOWN = ("text/plain", "image/png")
_MOST_SHOWN_BYTES = 2 * 2**20
_MOST_OUTPUTS = 64
_MOST_TEXT = 20_000


class Outputs:
    """What one cell puts out, up to a limit."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.kept: list[dict[str, Any]] = []
        self._room = _MOST_SHOWN_BYTES

    def show(self, data: dict[str, Any], count: int | None = None) -> None:
        """Keep the parts of a display that are safe to show."""
        parts = {kind: data[kind] for kind in _SHOWN if type(data.get(kind)) is str}
        size = sum(len(part) for part in parts.values())
        if parts and size <= self._room and len(self.kept) < _MOST_OUTPUTS:
            self._room -= size
            self.kept.append({"kind": "data", "data": parts, "count": count})

    def fail(self, name: str, value: str, traceback: list[str]) -> None:
        """Keep an exception."""
        text = "\n".join(traceback)[-_MOST_TEXT:]
        self.kept.append(
            {"kind": "error", "name": name[:200], "value": value[:_MOST_TEXT], "traceback": text}
        )


class _Publisher(DisplayPublisher):
    outputs = Outputs()

    def publish(self, data: Any, metadata: Any = None, **_: Any) -> None:
        self.outputs.show(data)

    def clear_output(self, wait: bool = False) -> None:
        """Do nothing: what was shown stays."""


class _Hook(DisplayHook):
    outputs = Outputs()

    def write_output_prompt(self) -> None:
        """Write no prompt."""

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        self.outputs.show(format_dict, self.prompt_count)


class _Shell(InteractiveShell):
    display_pub_class = Type(_Publisher)
    displayhook_class = Type(_Hook)
    outputs = Outputs()

    def _tee(self, channel: str) -> contextlib.AbstractContextManager:
        # IPython's own keeps a second copy of all that is printed, for its history: a kilobyte
        # for each line.
        return contextlib.nullcontext()

    def enable_gui(self, gui: Any = None) -> None:
        """Do nothing: there is no window to draw in."""

    def ask_exit(self) -> None:
        """End what runs, and nothing else: so a notebook's ``exit()`` costs its own cell."""
        raise SystemExit

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        self.outputs.fail(str(etype.__name__), str(evalue), [str(line) for line in stb])


def make_shell() -> InteractiveShell:
    """Return a shell with an empty notebook; no thread and no file goes with it."""
    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.colors = "nocolor"
    # "sx (ls)" is Python to whoever reads it, and to a shell that takes it for a magic is not.
    settings.InteractiveShell.automagic = False
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    InteractiveShell.clear_instance()
    shell = _Shell.instance(config=settings, user_module=main, user_ns=main.__dict__)
    shell.ast_transformers.append(wanting.ImportsMayFail())
    configure_inline_support(shell, "inline")  # figures are shown after a cell, as pictures
    # From here on, whoever asks for a shell gets this one, as in a notebook.
    shell.run_cell("None", store_history=False)  # loads what the first cell would load
    return shell


def rehearse(shell: InteractiveShell) -> None:
    """Do once, on nobody's behalf, what every kernel does: what it resolves, and the tables that
    torch fills, need not be made again in each. Random numbers are seeded afresh by each.
    """
    numbers = torch.randn(2, 3)
    _call(shell, wire.Probe("gradient"), [torch.exp, numbers], {})
    frame = wire.encode({"value": [numbers, numbers.numpy(), 1.0]})
    text, blob = wire.lengths(frame[: wire.HEADER.size])
    start = wire.HEADER.size + text
    wire.decode(frame[wire.HEADER.size : start], frame[start : start + blob], trusted=True)
    _run(shell, "def rehearsed(): pass\n1", 1.0)
    shell.reset()


# What the judge calls each cell, by the number that it ran under here.
_numbers: dict[int, int] = {}


def serve(channel: socket.socket, shell: InteractiveShell) -> None:
    """Answer messages on ``channel`` until it is closed."""
    lender = _Lender(channel)
    while (message := _receive(channel)) is not None:
        # Told to nobody here: whatever else is written to the channel does not begin with it.
        ticket = lender.ticket = bytes.fromhex(message.pop("ticket"))
        match message.pop("do"):
            case "begin":
                answer = _begin(shell, **message)
            case "run":
                answer = _run(shell, **message)
            case "call":
                answer = _call(shell, lender=lender, **message)
        channel.sendall(ticket + answer)


def _receive(channel: socket.socket) -> dict[str, Any] | None:
    header = _read(channel, wire.HEADER.size)
    if header is None:
        return None
    text, blob = wire.lengths(header)
    content = _read(channel, text), _read(channel, blob)
    with course_defaults():
        return wire.decode(*content, trusted=True)


def _encode(message: dict[str, Any]) -> bytes:
    with course_defaults():  # not what a notebook's cell has set
        return wire.encode(message)


def _read(channel: socket.socket, count: int) -> bytes | None:
    buffer = bytearray(count)
    view, got = memoryview(buffer), 0
    while got < count:
        received = channel.recv_into(view[got:])
        if received == 0:
            return None
        got += received
    return bytes(buffer)


def _begin(shell: InteractiveShell, seed: int) -> bytes:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    # No other device is here; torch.manual_seed would note a seed for each, and who asked for it.
    torch.default_generator.manual_seed(seed)
    return _encode({})


def _run(shell: InteractiveShell, code: str, seconds: float, number: int = -1) -> bytes:
    outputs, stream = Outputs(), CappedText()
    _numbers[shell.execution_count] = number
    shell.outputs = shell.display_pub.outputs = shell.displayhook.outputs = outputs
    error, timed_out = None, False
    shell.user_ns[wanting.NAME] = wanting.Wanting
    try:
        with _written_to(stream), time_limit(seconds):
            result = shell.run_cell(code, store_history=True)
            error = result.error_before_exec or result.error_in_exec
    except BaseException as problem:  # a hook of the student's, or a ring of the timer
        error = problem
    leave_modes()
    timed_out = isinstance(error, CallTimeoutError)
    if error is not None and not any(output["kind"] == "error" for output in outputs.kept):
        outputs.fail(type(error).__name__, "", [])
    kept = outputs.kept
    if stream.kept():
        kept = [{"kind": "stream", "text": stream.kept()}, *kept]
    by_the_wall = timed_out and error.by_the_wall
    return _encode({"outputs": kept, "timed_out": timed_out, "by_the_wall": by_the_wall})


@contextlib.contextmanager
def _written_to(stream: CappedText) -> Iterator[None]:
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        yield


def _call(
    shell: InteractiveShell, function: Any, args: list, kwargs: dict, lender: _Lender | None = None
) -> bytes:
    try:
        resolved = [_resolve(shell, value, lender) for value in (function, args, kwargs)]
    except NameError as error:
        return _answer(Answer(problem=str(error)))
    answer = call_here(*resolved)
    try:
        return _answer(answer)
    except wire.WireError as error:
        answer.value, answer.problem = None, f"what came back cannot be judged: {error}"
        return _answer(answer)


def _answer(answer: Answer) -> bytes:
    return _encode(
        {
            "value": answer.value,
            "problem": answer.problem,
            "is_stub": answer.is_stub,
            "timed_out": answer.timed_out,
            "by_the_wall": answer.by_the_wall,
            "printed": answer.printed,
            "warned": answer.warned,
            "places": [
                [_numbers[place.cell], place.line, place.function]
                for place in answer.places
                if place.cell in _numbers
            ],
        }
    )


def _resolve(shell: InteractiveShell, value: Any, lender: _Lender | None) -> Any:
    if isinstance(value, wire.Name):
        if value.name not in shell.user_ns:
            raise NameError(f"{value.name} is not defined")
        return shell.user_ns[value.name]
    if isinstance(value, wire.Probe):
        return _PROBES[value.name]
    if isinstance(value, wire.Lent) and lender is not None:
        return lender.make(value)
    if isinstance(value, list):
        return [_resolve(shell, item, lender) for item in value]
    if isinstance(value, dict):
        return {key: _resolve(shell, item, lender) for key, item in value.items()}
    return value


class _Lender:
    """Makes functions and iterators that ask the judge, which has lent them."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self.ticket = b""

    def make(self, lent: wire.Lent) -> Callable | Iterator:
        """Return what stands here for ``lent``."""

        def ask(*args: Any, **kwargs: Any) -> Any:
            return self._ask(lent.number, list(args), kwargs)

        if lent.kind == "stream":
            return _LentStream(ask)
        ask.__name__ = lent.name
        return ask

    def _ask(self, number: int, args: list, kwargs: dict[str, Any]) -> Any:
        question = _encode({"lent": number, "args": plain_copy(args), "kwargs": plain_copy(kwargs)})
        with self._lock, _alarm_held():  # a ring between question and answer would mix them up
            self._channel.sendall(self.ticket + question)
            answer = _receive(self._channel)
        if "error" not in answer:
            return answer["value"]
        raise _error_called(answer["error"])(*answer["message"])


class _LentStream:
    """An iterator whose items come from the judge."""

    def __init__(self, ask: Callable) -> None:
        self._ask = ask

    def __iter__(self) -> _LentStream:
        return self

    def __next__(self) -> Any:
        return self._ask()


@contextlib.contextmanager
def _alarm_held() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGPROF})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _error_called(name: str) -> type[BaseException]:
    if name == "KilledError":
        return KilledError
    found = getattr(builtins, name, None)
    is_error = inspect.isclass(found) and issubclass(found, Exception)
    return found if is_error else RuntimeError
