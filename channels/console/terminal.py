"""The user interface of the console: picks the form that fits what standard input and output are."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from channels.console.plain import PlainTerminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.console.link import TerminalLink


class Terminal:
    """One person's terminal on one link. interrupt, stays: see InteractiveTerminal."""

    def __init__(
        self,
        link: TerminalLink,
        interrupt: Callable[[], None] | None = None,
        stays: str = "",
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        self._link = link
        self._interrupt = interrupt
        self._stays = stays
        self._stdin = stdin or sys.stdin
        self._stdout = stdout or sys.stdout

    async def run(self) -> None:
        """Exchange inputs and frames until the gateway closes the link.

        With a terminal on both sides: prompt and growing answers. Else plain: prints what is final, without control
        sequences, and tells the gateway of the end of input.
        """
        if self._stdin.isatty() and self._stdout.isatty():
            # Imported here because it costs a tenth of a second and is of no use in a pipe or a service.
            from channels.console.interactive import InteractiveTerminal

            await InteractiveTerminal(self._link, self._interrupt, self._stays).run()
        else:
            await PlainTerminal(self._link, self._stdin.fileno(), self._stdout).run()
