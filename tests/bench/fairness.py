"""Scenario `fairness`: how long one person waits while another floods the same queue with work that hangs.

The four queues of the gateway, in this process: downloads, voice messages, documents (in bubblewrap), pages. What they
wait for (a file server, a transcription service, a converter, a page's helper) takes a fixed time here, so that only
the wait in the queue is compared.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bot.clock import SystemClock
from bot.files.conversion import Converter
from bot.files.sandboxes import Sandboxes
from bot.files.uploads import UploadLimits, Uploads
from bot.settings.sections import TranscriptionSettings
from bot.store.identity import thread_folder
from bot.voice.service import Transcript
from bot.voice.speech_to_text import Listener, Recoder
from channels.base import ChannelPorts, Route
from channels.message import Attachment
from harness.context import InputFile, Voice
from harness.files.helpers import Helpers
from sandbox.config import SandboxSettings
from sandbox.policy import STAMP
from tests.bench.figures import Figure, Outcome, Target, percentile
from tests.memory_channel import MemoryChannel
from tests.simulators.transcription import speech

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from bot.voice.audio import Kind
    from channels.base import Sink

    Work = Callable[[str, bool], Awaitable[object]]
    """Called with the owner of the work, and whether it hangs."""

ANN, BOB = "memory:1", "memory:2"
FLOOD = 40
QUICK_SECONDS, HANGING_SECONDS = 0.25, 600.0
RATIO = Target(1.2)
MARKITDOWN = f"""#!/bin/sh
case "$3" in *hang*) exec sleep {HANGING_SECONDS:g} ;; esac
sleep {QUICK_SECONDS}
echo "# The text" > "$5"
"""
HELPER = f"""\
import json, sys, time
while line := sys.stdin.buffer.readline():
    time.sleep({HANGING_SECONDS} if json.loads(line)["hang"] else {QUICK_SECONDS})
    print("{{}}", flush=True)
"""


async def _work(hangs: bool) -> None:
    await asyncio.sleep(HANGING_SECONDS if hangs else QUICK_SECONDS)


class _Platform(MemoryChannel):
    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        await _work(attachment.ref == "hang")
        await sink.write(b"content")


class _Service:
    async def transcribe(self, content: bytes, kind: Kind) -> Transcript:
        words = speech.heard(content)
        await _work(words == "hang")
        return Transcript(words, None)

    async def close(self) -> None:
        """Do nothing: it holds no resources."""


async def fairness(rounds: int) -> Outcome:
    """Measure each queue `rounds` times, without and with the flood."""
    outcome = Outcome(details={"rounds": rounds, "flood": FLOOD})
    with tempfile.TemporaryDirectory(prefix="antler-bench-", ignore_cleanup_errors=True) as name:
        async with _queues(Path(name)) as queues:
            for queue, work in queues.items():
                outcome.figures += await _measured(queue, work, rounds)
    return outcome


async def _measured(queue: str, work: Work, rounds: int) -> list[Figure]:
    await work(BOB, False)  # creates what is created at first use
    idle = await _latencies(work, rounds)
    flood = [asyncio.ensure_future(work(ANN, True)) for _ in range(FLOOD)]
    await asyncio.sleep(QUICK_SECONDS)  # as many are running as allowed
    try:
        beside = await _latencies(work, rounds)
    finally:
        for each in flood:
            each.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
    medians = percentile(idle, 50), percentile(beside, 50)
    return [
        Figure(f"{queue}_alone", medians[0], "ms"),
        Figure(f"{queue}_beside_a_flood", medians[1], "ms"),
        Figure(f"{queue}_ratio", medians[1] / medians[0], "x", RATIO),
    ]


async def _latencies(work: Work, rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        began = time.monotonic()
        async with asyncio.timeout(60):
            await work(BOB, False)
        found.append((time.monotonic() - began) * 1000)
    return found


@asynccontextmanager
async def _queues(folder: Path) -> AsyncIterator[Mapping[str, Work]]:
    async with AsyncExitStack() as stack:
        sandboxes = _sandboxes(folder)
        await sandboxes.start()
        stack.push_async_callback(sandboxes.shutdown, 10)
        (folder / "helper.py").write_text(HELPER)
        helpers = Helpers(folder / "helper.py")
        stack.push_async_callback(helpers.close)
        queues: dict[str, Work] = {"downloads": _downloads(folder), "voice": _voice(folder, sandboxes)}
        if shutil.which("bwrap") is not None:
            queues["documents"] = await _documents(folder, sandboxes)
        queues["pages"] = lambda whose, hangs: helpers.call({"hang": hangs}, b"", seconds=HANGING_SECONDS, whose=whose)
        yield queues


def _sandboxes(folder: Path) -> Sandboxes:
    runtime = folder / "runtime"
    (runtime / "bin").mkdir(parents=True)
    (runtime / STAMP).write_text("built")
    (runtime / "bin" / "python3").write_text(MARKITDOWN)
    (runtime / "bin" / "python3").chmod(0o755)
    settings = SandboxSettings.model_validate({"use": "bubblewrap", "runtime": str(runtime)})
    return Sandboxes(settings, folder / "data")


def _downloads(folder: Path) -> Work:
    async def nothing(events: object) -> None:
        """Ignore events: nobody writes here."""

    ports = ChannelPorts(publish=nothing, clock=SystemClock(), route=lambda _: Route())
    platform, many = _Platform("memory", ports), 1_000_000_000
    uploads = Uploads(UploadLimits(many, many, many, many), SystemClock())

    def work(whose: str, hangs: bool) -> Awaitable[object]:
        attachment = Attachment(ref="hang" if hangs else "quick", kind="file", name="a.bin")
        return uploads.fetch(platform, attachment, folder / "uploads", uploads.allowance(whose))

    return work


def _voice(folder: Path, sandboxes: Sandboxes) -> Work:
    settings = TranscriptionSettings.model_validate({"model": "bench", "timeout": HANGING_SECONDS})
    listener = Listener(settings, _Service(), Recoder(sandboxes), SystemClock())
    files = {}
    for words in ("hang", "quick"):
        path = folder / words
        path.write_bytes(speech.ogg(words))
        files[words] = InputFile(path=path, name=words, mime_type="audio/ogg", size=1, voice=Voice())
    return lambda whose, hangs: listener.hear("0" * 32, files["hang" if hangs else "quick"], whose)


async def _documents(folder: Path, sandboxes: Sandboxes) -> Work:
    convert = Converter(sandboxes, wanted=True, seconds=HANGING_SECONDS)
    files = {}
    for thread, words in (("a" * 32, "hang"), ("b" * 32, "quick")):
        async with sandboxes.borrow(thread):
            """The folders exist now, owned by the user that runs commands."""
        path = thread_folder(folder / "data", thread) / "uploads" / f"{words}.pdf"
        path.write_bytes(b"%PDF")
        files[words] = thread, InputFile(path=path, name=path.name, mime_type="application/pdf", size=4)
    return lambda whose, hangs: convert(*files["hang" if hangs else "quick"], whose)
