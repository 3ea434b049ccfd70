"""The interactive terminal: a persistent prompt, with the growing answer above it.

Growing messages are drawn as part of the prompt, final ones are printed permanently above it. So the input line can be
edited while an answer arrives, and the scrollback contains each message once.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import termios
import time
from enum import Enum
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory, InMemoryHistory
from rich.console import Console, Group
from rich.markdown import Markdown
from rich.text import Text

from channels.console.frames import End, Menu, Shown
from channels.console.transcript import Entry, Transcript
from channels.text.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output
    from rich.console import RenderableType

    from channels.console.frames import Shown
    from channels.console.link import TerminalLink


PROMPT = "› "
SECOND_INTERRUPT_SECONDS = 2.0
"""A second Ctrl-C within this time exits."""
_ROWS_BELOW = 4
_MENU_ROWS = 8
"""Rows kept free below a command that is being typed."""
MOST_HISTORY = 256 * 1024
"""Size limit of the history file in bytes; of a longer one the newer half is kept."""

MAX_DRAFT = 20_000
"""Characters of a growing text that are rendered again at each change; only the end of a longer text is rendered."""
_PADDING = re.compile(r"(?<! ) ++$", re.MULTILINE)
"""Padding at line ends: Rich fills lines up to the width, but copied text should not end in blanks."""


def render(shown: Shown, width: int) -> str:
    """The whole message, with a line end after each line."""
    parts: list[RenderableType] = []
    if shown.file is not None:
        parts.append(Text(f"[file] {shown.file}", style="bold"))
    if shown.text:
        parts.append(_markdown(shown))
    if shown.status:
        parts.append(Text(shown.status, style="dim italic"))
    return rendered(Group(*parts), width)


def rendered(content: RenderableType, width: int) -> str:
    """Anything that rich can show, as text."""
    # legacy_windows and soft hyperlinks off: no escape sequences other than colors may be produced.
    console = Console(file=io.StringIO(), force_terminal=True, legacy_windows=False, width=width)
    with console.capture() as capture:
        console.print(content)
    return _PADDING.sub("", capture.get())


def _markdown(shown: Shown) -> Markdown:
    text = shown.text
    if not shown.final and len(text) > MAX_DRAFT:
        text = text[text.find("\n", len(text) - MAX_DRAFT) + 1 :]
    return Markdown(text, hyperlinks=False)


class _Commands(Completer):
    """Completes the name of a command and shows its description next to it."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        typed = document.text_before_cursor
        if not typed.startswith("/") or " " in typed:
            return
        for name, description in self._transcript.commands:
            if name.startswith(typed[1:]):
                yield Completion(f"/{name}", start_position=-len(typed), display_meta=description)


class _History(FileHistory):
    """The input history. As in shells, a line that begins with a blank is not kept."""

    def store_string(self, string: str) -> None:
        if not string.startswith(" "):
            super().store_string(string)


def _history(path: Path | None) -> History:
    """The history in a file, readable only by its owner and truncated if too long; None: only for this session."""
    if path is None:
        return InMemoryHistory()
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "r+b") as file:
        kept = file.read()
        if len(kept) > MOST_HISTORY:
            file.seek(0)
            file.write(kept[kept.find(b"\n# ", len(kept) - MOST_HISTORY // 2) + 1 :])
            file.truncate()
    return _History(path)


class Interrupted(Exception):
    """Ctrl-C at the prompt."""


class Left(Enum):
    """How a person left the prompt. GONE: the window was closed."""

    INTERRUPT = "interrupt"
    END = "end"
    GONE = "gone"


class InteractiveTerminal:
    """interrupt: ends the run that this terminal belongs to, None to end only the link. stays: printed after a Ctrl-D
    that ends neither. history: the file of the input history, None for none. prompt_input and output: prompt_toolkit's,
    None for this process's terminal."""

    def __init__(
        self,
        link: TerminalLink,
        interrupt: Callable[[], None] | None = None,
        stays: str = "",
        history: Path | None = None,
        prompt_input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._link = link
        self._interrupt_all = interrupt or link.close
        self._stays = stays
        self._entry = Entry(link)
        self._transcript = Transcript()
        self._drawn: tuple[Shown, int, str] | None = None
        self._interrupted_at = float("-inf")
        self._session: PromptSession[str] = PromptSession(
            erase_when_done=True,
            input=prompt_input,
            output=output,
            interrupt_exception=Interrupted,
            eof_exception=EOFError,
            history=_history(history),
            completer=_Commands(self._transcript),
            complete_while_typing=Condition(self._is_command),
            reserve_space_for_menu=_MENU_ROWS,
        )
        self._output = self._session.app.output

    async def run(self) -> None:
        """Run until the gateway closes the link. The terminal is restored as soon as the person leaves."""
        async with asyncio.TaskGroup() as group:
            prompting = group.create_task(self._prompt(), name="console prompt")
            try:
                await self._show()
            except OSError:
                self._link.close()  # the window was closed
            prompting.cancel()

    async def _prompt(self) -> None:
        # Raw mode between two prompts as well: in cooked mode Ctrl-C would be a signal, and Ctrl-D would be lost.
        with self._session.app.input.raw_mode():
            left = await self._prompts()
        if left is not Left.END:
            self._interrupt_all()
            return
        await self._link.send(End())
        if self._stays:
            self._print(f"{self._stays}\n")

    async def _prompts(self) -> Left:
        while True:
            try:
                # The process's own SIGINT handler stays: at the prompt Ctrl-C is a key, not a signal.
                text = await self._session.prompt_async(self._message, handle_sigint=False)
            except Interrupted:
                if not await self._interrupt():
                    return Left.INTERRUPT
            except EOFError:
                return Left.GONE if self._is_gone() else Left.END
            except OSError:
                return Left.GONE
            else:
                await self._enter(text)

    def _is_gone(self) -> bool:
        """Whether the terminal is gone; a closed window also ends the input."""
        try:
            termios.tcgetattr(self._session.app.input.fileno())
        except termios.error:
            return True
        return False

    async def _enter(self, text: str) -> None:
        if text.strip():
            self._transcript.entered()
            self._print(rendered(Text(PROMPT + sanitize(text), style="bold"), self._width()))
            await self._entry.send(text)

    async def _interrupt(self) -> bool:
        """Handle Ctrl-C: clear the line, else stop the run, else leave (False)."""
        if self._session.default_buffer.text:
            return True
        now = time.monotonic()
        if not self._transcript.busy or now - self._interrupted_at < SECOND_INTERRUPT_SECONDS:
            return False
        self._interrupted_at = now
        await self._enter("/stop")
        return True

    async def _show(self) -> None:
        while (frame := await self._link.receive()) is not None:
            ready = self._transcript.apply(frame)
            if ready is not None:
                self._print(render(ready, self._width()) + "\n")
                self._transcript.remember(ready)
            if isinstance(frame, Menu) and self._is_command():
                self._session.default_buffer.start_completion()  # typed before the commands were known
            self._session.app.invalidate()
        for shown in self._transcript.growing.values():
            self._print(render(shown, self._width()))

    def _print(self, text: str) -> None:
        """Print permanently above the prompt. Not by prompt_toolkit's in_terminal, which leaves raw mode for a time."""
        app = self._session.app
        app.renderer.erase()
        self._output.write_raw(text)
        self._output.flush()
        app.invalidate()

    def _message(self) -> ANSI:
        """The text drawn before the input: the end of the growing message, as far as it fits, and the prompt."""
        growing = list(self._transcript.growing.values())
        text = "".join(self._draw(shown) for shown in growing[-1:])
        if not text and self._transcript.busy:
            text = rendered(Text("…", style="dim"), self._width())
        lines = text.splitlines(keepends=True)
        room = max(3, self._output.get_size().rows - _ROWS_BELOW - (_MENU_ROWS if self._is_command() else 0))
        return ANSI("".join(lines[-room:]) + PROMPT)

    def _is_command(self) -> bool:
        return self._session.default_buffer.text.startswith("/")

    def _draw(self, shown: Shown) -> str:
        """The rendered message. The prompt calls this at each key, so the result is kept for each state and width."""
        width = self._width()
        if self._drawn is None or self._drawn[:2] != (shown, width):
            self._drawn = (shown, width, render(shown, width))
        return self._drawn[2]

    def _width(self) -> int:
        return max(20, self._output.get_size().columns)
