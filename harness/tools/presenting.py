"""view_image shows a picture to a model with vision, present_files delivers files to the person.

The ViewImage middleware puts the picture into the next request.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Annotated

from langchain_core.tools import tool

from harness.events import FileReady
from harness.files.images import UnreadableImage, image_data_url
from harness.files.spool import NotTaken
from harness.graph.calls import IDEMPOTENT
from harness.graph.results import IMAGE, Answer, Runtime, canonical, done, explained, failed, sandbox_of, short
from harness.graph.signals import Told, scope_of, tell
from harness.text.plain import size_text
from sandbox.base import OUTPUTS, Problem, ProblemCode, contents

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from harness.events import ReadyFile
    from harness.files.spool import Spool


PRESENT = "present_files"
MOST_PATHS = 50
BELOW_OUTPUTS = f"only files below {OUTPUTS} can be presented: copy it there first"

VIEW = "view_image"
MOST_IMAGE_BYTES = 20_000_000
MOST_IMAGES_AT_ONCE = 4


class CannotBeShown(Exception):
    """A picture cannot be shown. The text says why, worded for the model."""


@cache  # as file_tools: it depends on no agent
def view_tool() -> BaseTool:
    """The tool for agents whose model has vision."""

    @tool(VIEW)
    async def view_image(path: Annotated[str, "Path of a PNG, JPEG, WEBP or GIF file"], runtime: Runtime) -> Answer:
        """Look at a picture. You see it in your next step only; look again when you need it later."""
        run, call_id = sandbox_of(runtime), runtime.tool_call_id or ""
        if len(run.images) >= MOST_IMAGES_AT_ONCE:
            return failed(runtime, VIEW, f"At most {MOST_IMAGES_AT_ONCE} pictures can be viewed in one step.")
        run.images[call_id] = None  # reserved: other calls of the round arrive meanwhile
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
    """The picture as a data URL. Raises CannotBeShown."""
    found = await contents(await sandbox_of(runtime).get(), path, MOST_IMAGE_BYTES)
    if isinstance(found, Problem):
        raise CannotBeShown(explained(found))
    try:
        return await image_data_url(found, scope_of(runtime).ctx.speaker.id)
    except UnreadableImage as error:
        raise CannotBeShown(f"{short(path)} cannot be shown: {error}.") from error


def present_tool(spool: Spool) -> BaseTool:
    """The tool. Calling it again presents the same files again, so it may be repeated."""

    @tool(PRESENT)
    async def present_files(paths: Annotated[list[str], f"Paths of files below {OUTPUTS}"], runtime: Runtime) -> Answer:
        """Send files to the person with your answer, as they are now. If one is presented again, the newest is sent."""
        if not paths or len(paths) > MOST_PATHS:
            return failed(runtime, PRESENT, f"Give between 1 and {MOST_PATHS} paths.")
        lines: list[str] = []
        refused = 0
        for path in dict.fromkeys(paths):
            try:
                ready = await _taken(runtime, spool, path)
            except NotTaken as error:
                refused += 1
                lines.append(f"{short(path)} is not presented: {error}.")
            else:
                tell(runtime, Told(partial(FileReady, call_id=runtime.tool_call_id or "", file=ready)))
                lines.append(f"{ready.path} ({size_text(ready.size)}) will be sent with your answer.")
        return (failed if refused == len(lines) else done)(runtime, PRESENT, "\n".join(lines))

    present_files.metadata = {IDEMPOTENT: True}
    return present_files


async def _taken(runtime: Runtime, spool: Spool, path: str) -> ReadyFile:
    """Copy a file to the spool. Raises NotTaken."""
    whole = canonical(path)
    if not whole.startswith(OUTPUTS + "/"):
        raise NotTaken(BELOW_OUTPUTS)
    run = sandbox_of(runtime)
    sandbox = await run.get()
    async with run.writing:
        taken = await spool.take(scope_of(runtime).ctx.run_id, whole, sandbox)
    if not isinstance(taken, Problem):
        return taken
    if taken.code is ProblemCode.TOO_LARGE:
        raise NotTaken(f"it is too large to send ({taken.detail}); make it smaller, or put less into it")
    raise NotTaken(explained(taken).rstrip("."))
