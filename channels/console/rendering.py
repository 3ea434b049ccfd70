"""Messages as text with terminal attributes, by rich. The only control sequences in it are rich's colours."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.markdown import Markdown
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from channels.console.frames import Shown

MAX_DRAFT = 20_000
"""Characters of a growing text that are rendered again at each change; of a longer one only its end."""

_PADDING = re.compile(r"(?<! ) ++$", re.MULTILINE)
"""Rich fills lines up to the width; whoever copies a text from the terminal does not want that."""


def render(shown: Shown, width: int) -> str:
    """The whole message, with a line end behind each line."""
    parts: list[RenderableType] = []
    if shown.file is not None:
        parts.append(Text(f"[file] {shown.file}", style="bold"))
    if shown.text:
        parts.append(_markdown(shown))
    if shown.status:
        parts.append(Text(shown.status, style="dim italic"))
    return rendered(Group(*parts), width)


def rendered(content: RenderableType, width: int) -> str:
    """Whatever rich can show, as text."""
    # legacy_windows off and soft hyperlinks off: no sequence but colours may come out.
    console = Console(file=io.StringIO(), force_terminal=True, legacy_windows=False, width=width)
    with console.capture() as capture:
        console.print(content)
    return _PADDING.sub("", capture.get())


def _markdown(shown: Shown) -> Markdown:
    text = shown.text
    if not shown.final and len(text) > MAX_DRAFT:
        text = text[text.find("\n", len(text) - MAX_DRAFT) + 1 :]
    return Markdown(text, hyperlinks=False)
