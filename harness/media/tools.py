"""make_image and speak: pictures and recordings become files of the thread, and are sent with the answer.

Neither is paid for twice if that can be known. Before a picture is requested, that is recorded with the run's files;
each part of a recording is stored as it arrives. So both may be called again after a crash.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from functools import partial
from typing import TYPE_CHECKING, Annotated

from langchain_core.tools import tool

from harness.events import FileReady, ToolProgress, Usage
from harness.files.spool import IMAGES, NotTaken, mime_type_of
from harness.graph.calls import IDEMPOTENT, INTERRUPTED, place_of
from harness.graph.results import Answer, Runtime, canonical, done, explained, failed, sandbox_of, short
from harness.graph.signals import Told, scope_of, tell
from harness.media.services import MediaFailure, Order, make_painter, make_speaker
from harness.media.spoken import in_parts, joined, turns_of
from harness.text.plain import size_text
from sandbox.base import OUTPUTS, WORKSPACE, Problem, ProblemCode, contents

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from langchain_core.tools import BaseTool

    from harness.events import ReadyFile
    from harness.files.spool import Spool
    from harness.media.config import ImageSettings, SpeechSettings
    from harness.media.services import Painter, Speaker
    from harness.ports import Budget, Clock

MAKE_IMAGE, SPEAK = "make_image", "speak"
LONGEST_PROMPT = 4000
MOST_REFERENCES = 4
MOST_REFERENCE_BYTES = 20_000_000
MOST_SCRIPT_BYTES = 400_000
ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif"}
PARTS = f"{WORKSPACE}/.speech"
"""Parts of recordings that were paid for, one file each, reused when a recording is made again."""
LOST = f"{INTERRUPTED} The picture is missing, but may have been charged: ask the person before you make it again."


class NotMade(Exception):
    """Nothing was made. The text says why, worded for the model."""


class Media:
    """The configured tools, each None if its section is missing, and their resources. spool: delivers files. Raises
    ToolSetupError for a class that is not available."""

    def __init__(
        self,
        images: ImageSettings | None,
        speech: SpeechSettings | None,
        route: Callable[[str], tuple[str | None, Path | None]],
        *,
        spool: Spool,
        budget: Budget | None,
        clock: Clock,
    ) -> None:
        self.tools: list[BaseTool] = []
        self._services: list[Painter | Speaker] = []
        desk = _Desk(spool, budget, clock)
        if images is not None:
            painter = make_painter(images, route(images.base_url), clock)
            self._services.append(painter)
            self.tools.append(image_tool(images, painter, desk))
        if speech is not None:
            service = make_speaker(speech, route(speech.base_url), clock)
            self._services.append(service)
            self.tools.append(speech_tool(speech, service, desk))

    async def close(self) -> None:
        """Close connections; runs must have ended."""
        for service in self._services:
            await service.close()


class _Desk:
    """Budget and files, shared by both tools."""

    def __init__(self, spool: Spool, budget: Budget | None, clock: Clock) -> None:
        self.spool = spool
        self.clock = clock
        self._budget = budget

    async def afford(self, runtime: Runtime) -> None:
        """Raise NotMade if a budget is used up."""
        overdraft = await self._budget.overdraft(scope_of(runtime).ctx) if self._budget is not None else None
        if overdraft is not None:
            raise NotMade(f"The budget {overdraft.name} is used up; nothing was requested. Tell the person.")

    async def write(self, runtime: Runtime, path: str, content: bytes) -> None:
        """Write a file into the sandbox. Raises NotMade."""
        run = sandbox_of(runtime)
        sandbox = await run.get()
        async with run.writing:
            if isinstance(problem := await sandbox.write_file(path, content), Problem):
                raise NotMade(explained(problem))

    async def present(self, runtime: Runtime, path: str) -> ReadyFile | None:
        """Have a file sent with the answer; None if there is no such file. Raises NotMade."""
        run = sandbox_of(runtime)
        sandbox = await run.get()
        try:
            async with run.writing:
                taken = await self.spool.take(scope_of(runtime).ctx.run_id, path, sandbox)
        except NotTaken as error:
            raise NotMade(f"{path} was made but not sent: {error}.") from None
        if isinstance(taken, Problem):
            if taken.code is ProblemCode.NOT_FOUND:
                return None
            raise NotMade(f"{path} was made but not sent: {explained(taken)}")
        tell(runtime, Told(partial(FileReady, call_id=runtime.tool_call_id or "", file=taken)))
        return taken


def image_tool(settings: ImageSettings, painter: Painter, desk: _Desk) -> BaseTool:
    @tool(MAKE_IMAGE)
    async def make_image(
        prompt: Annotated[str, "What to show: subject, setting, style, light, colors, and any words in quotes"],
        runtime: Runtime,
        shape: Annotated[str, "As listed above"] = "",
        name: Annotated[str, "File name without extension"] = "",
        references: Annotated[tuple[str, ...], "Paths of pictures to start from, at most 4"] = (),
    ) -> Answer:
        """Make a picture with a paid service. It is saved below the outputs and sent with your answer: do not present
        it again. One call makes one picture."""
        place = place_of(runtime)
        stem = f"{OUTPUTS}/{_slug(name, 'picture')}-{hashlib.sha256(place.encode()).hexdigest()[:6]}"
        try:
            order = await _order(runtime, settings, prompt, shape, references)
            if await desk.spool.begun(scope_of(runtime).ctx.run_id, place):
                for ending in ENDINGS.values():
                    if await desk.present(runtime, f"{stem}.{ending}") is not None:
                        return done(runtime, MAKE_IMAGE, f"{stem}.{ending} will be sent with your answer.")
                return failed(runtime, MAKE_IMAGE, LOST)
            await desk.afford(runtime)
            painted = await painter.paint(order)
            _pay(runtime, settings, painted.input_tokens, painted.output_tokens)
            mime_type = mime_type_of("", painted.content[:32])
            if mime_type not in {known for _, known in IMAGES}:
                raise NotMade("No picture was made: the service returned something else. An operator has to check it.")
            path = f"{stem}.{ENDINGS[mime_type]}"
            await desk.write(runtime, path, painted.content)
            await desk.present(runtime, path)
        except MediaFailure as failure:
            return failed(runtime, MAKE_IMAGE, f"No picture was made: {failure}.")
        except NotMade as error:
            return failed(runtime, MAKE_IMAGE, str(error))
        told = f"{path} ({size_text(len(painted.content))}) will be sent with your answer."
        return done(runtime, MAKE_IMAGE, told)

    make_image.description += f" Shapes: {', '.join(settings.sizes)}."
    make_image.metadata = {IDEMPOTENT: True}
    return make_image


async def _order(
    runtime: Runtime, settings: ImageSettings, prompt: str, shape: str, references: Sequence[str]
) -> Order:
    """The order for the service. Raises NotMade."""
    if not prompt.strip() or len(prompt) > LONGEST_PROMPT:
        raise NotMade(f"Describe the picture in 1 to {LONGEST_PROMPT} characters.")
    sizes = {str(name): size for name, size in settings.sizes.items()}
    size = sizes.get(shape) if shape else next(iter(sizes.values()))
    if size is None:
        raise NotMade(f"There is no such shape; use one of: {', '.join(sizes)}.")
    if references and not settings.edits:
        raise NotMade("This service cannot start from pictures. Describe the picture in words.")
    if len(references) > MOST_REFERENCES:
        raise NotMade(f"At most {MOST_REFERENCES} pictures can be given.")
    given = []
    for path in references:
        content = await _read(runtime, path, MOST_REFERENCE_BYTES)
        mime_type = mime_type_of("", content[:32])
        if mime_type not in ENDINGS:
            raise NotMade(f"{short(path)} is not a PNG, JPEG, WEBP or GIF.")
        given.append((f"reference.{ENDINGS[mime_type]}", content, mime_type))
    return Order(prompt=prompt.strip(), size=size, references=given)


def _pay(runtime: Runtime, settings: ImageSettings, input_tokens: int, output_tokens: int) -> None:
    flat = 0 if settings.price is None else round(settings.price.picture * 1_000_000_000)
    used = partial(Usage, model=settings.name, input_tokens=input_tokens, output_tokens=output_tokens, flat=flat)
    tell(runtime, Told(used))


def speech_tool(settings: SpeechSettings, service: Speaker, desk: _Desk) -> BaseTool:
    @tool(SPEAK)
    async def speak(
        runtime: Runtime,
        text: Annotated[str, "What to say, in plain spoken words; or leave it out and give script"] = "",
        script: Annotated[str, "Path of a text file with what to say, for long texts"] = "",
        voices: Annotated[dict[str, str] | None, "Voice of each speaker"] = None,
        name: Annotated[str, "Name of the file, without an ending"] = "",
    ) -> Answer:
        """Make a recording (MP3) with a paid service. With voices such as {"ANN": "nova", "BEN": "onyx"}, each line
        that begins with "ANN:" or "BEN:" is spoken with that voice. It is saved below the outputs and sent with your
        answer: do not present it again."""
        try:
            said = await _said(runtime, text, script)
            turns = turns_of(
                said, {who: _voice(settings, voice) for who, voice in (voices or {}).items()}, settings.voice
            )
            length = sum(len(words) for _, words in turns)
            if not turns or length > settings.max_recording:
                raise NotMade(f"Give between 1 and {settings.max_recording} characters to say, not {length}.")
            parts = [(voice, part) for voice, words in turns for part in in_parts(words)]
            recordings = await _recorded(runtime, parts, settings, service, desk)
            whole = await asyncio.to_thread(joined, recordings)
            path = f"{OUTPUTS}/{_slug(name, 'speech')}.mp3"
            await desk.write(runtime, path, whole)
            await desk.present(runtime, path)
        except MediaFailure as failure:
            return failed(runtime, SPEAK, f"Nothing was recorded: {failure}. Parts that were made are kept.")
        except (NotMade, ValueError) as error:
            return failed(runtime, SPEAK, str(error))
        told = f"{path} ({size_text(len(whole))}, {len(turns)} turns) will be sent with your answer."
        return done(runtime, SPEAK, told)

    speak.description += f" Voices: {', '.join(dict.fromkeys((settings.voice, *settings.voices)))}."
    speak.metadata = {IDEMPOTENT: True}
    return speak


async def _recorded(
    runtime: Runtime, parts: Sequence[tuple[str, str]], settings: SpeechSettings, service: Speaker, desk: _Desk
) -> list[bytes]:
    """The recordings of all parts; existing ones are not paid for again. Raises NotMade, MediaFailure."""
    began, recordings = desk.clock.monotonic(), []
    for number, (voice, words) in enumerate(parts, 1):
        seconds = round(desk.clock.monotonic() - began)
        told = partial(ToolProgress, tool=SPEAK, seconds=seconds, line=f"{number}/{len(parts)}")
        tell(runtime, Told(partial(told, call_id=runtime.tool_call_id or "")))
        key = hashlib.sha256("\0".join((settings.model, voice, repr(settings.options), words)).encode()).hexdigest()[
            :32
        ]
        kept = f"{PARTS}/{key}.mp3"
        content = await contents(await sandbox_of(runtime).get(), kept, MOST_REFERENCE_BYTES)
        if isinstance(content, Problem):
            await desk.afford(runtime)
            content = await service.say(words, voice, "mp3")
            flat = settings.cost(len(words))
            used = partial(Usage, model=settings.name, input_tokens=0, output_tokens=0, flat=flat)
            tell(runtime, Told(used))
            await desk.write(runtime, kept, content)
        recordings.append(content)
    return recordings


async def _said(runtime: Runtime, text: str, script: str) -> str:
    if bool(text.strip()) == bool(script.strip()):
        raise NotMade("Give either text or script.")
    if not script.strip():
        return text
    return (await _read(runtime, script, MOST_SCRIPT_BYTES)).decode("utf-8", "replace")


def _voice(settings: SpeechSettings, voice: str) -> str:
    known = (settings.voice, *settings.voices)
    if voice not in known:
        raise NotMade(f"There is no voice {voice[:60]!r}; use one of: {', '.join(dict.fromkeys(known))}.")
    return voice


async def _read(runtime: Runtime, path: str, most: int) -> bytes:
    """The content of a file in the sandbox. Raises NotMade."""
    found = await contents(await sandbox_of(runtime).get(), canonical(path), most)
    if isinstance(found, Problem):
        raise NotMade(explained(found))
    return found


def _slug(name: str, otherwise: str) -> str:
    """A name that is valid on every file system; letters of any script are kept."""
    return re.sub(r"[^\w-]+", "-", name.strip())[:60].strip("-_") or otherwise
