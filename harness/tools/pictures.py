"""view_image: shows a picture to a model that can see. The ViewImage middleware puts it into the next request."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Annotated

from langchain_core.tools import tool

from harness.files.images import UnreadableImage, image_data_url
from harness.graph.calls import IDEMPOTENT
from harness.graph.results import IMAGE, Answer, Runtime, canonical, done, explained, failed, sandbox_of, short
from harness.graph.signals import scope_of
from sandbox.base import Problem

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

VIEW = "view_image"
MOST_BYTES = 20_000_000
MOST_AT_ONCE = 4


class CannotBeShown(Exception):
    """The text says why, in words for the model."""


def view_tool() -> BaseTool:
    """For make.py."""

    @tool(VIEW)
    async def view_image(path: Annotated[str, "Path of a PNG, JPEG, WEBP or GIF file"], runtime: Runtime) -> Answer:
        """Look at a picture. You see it in your next step only; look again when you need it later."""
        run, call_id = sandbox_of(runtime), runtime.tool_call_id or ""
        if len(run.images) >= MOST_AT_ONCE:
            return failed(runtime, VIEW, f"At most {MOST_AT_ONCE} pictures can be looked at in one step.")
        run.images[call_id] = None  # taken already: other calls of the round come meanwhile
        try:
            run.images[call_id] = await _picture(runtime, path)
        except CannotBeShown as error:
            return failed(runtime, VIEW, str(error))
        finally:
            if run.images[call_id] is None:
                del run.images[call_id]
        return done(runtime, VIEW, f"{short(path)} is shown to you now.", **{IMAGE: canonical(path)})

    view_image.metadata = {IDEMPOTENT: True}
    return view_image


async def _picture(runtime: Runtime, path: str) -> str:
    """As a data URL. Raises CannotBeShown."""
    sandbox = await sandbox_of(runtime).get()
    content = io.BytesIO()

    async def write(data: bytes) -> None:
        content.write(data)

    found = await sandbox.fetch(path, write, max_bytes=MOST_BYTES)
    if isinstance(found, Problem):
        raise CannotBeShown(explained(found))
    try:
        return await image_data_url(content.getvalue(), scope_of(runtime).ctx.speaker.id)
    except UnreadableImage as error:
        raise CannotBeShown(f"{short(path)} cannot be shown: {error}.") from error
