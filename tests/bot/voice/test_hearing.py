"""Voice messages: listened to before the agent begins, kept with the run, never a command, never in anybody's way."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from bot.settings.busy_policies import Busy, TurnRules
from bot.store import runs
from bot.texts.en import EN
from bot.voice.speech_to_text import unheard
from channels.message import Attachment
from harness.context import Voice
from tests.bot.core import ANN, BOB, Core, core
from tests.delivery_world import Tripwire

if TYPE_CHECKING:
    from pathlib import Path

    from bot.voice.audio import Untranscribed
    from harness.context import InputFile, RunInput

VOICE = Attachment(ref="v", kind="voice", mime_type="audio/ogg")
FILE = Attachment(ref="f", kind="file", name="notes.txt")


@dataclass
class SpeechToText:
    """A twin of what listens: `words` are in every recording, or `problem` is wrong with it. gate: waited for."""

    words: str = "what is the weather"
    problem: Untranscribed | None = None
    gate: asyncio.Event | None = None
    heard: list[str] = field(default_factory=list)
    works: bool = True

    async def hear(self, thread_id: str, file: InputFile, speaker: str) -> InputFile:
        self.heard.append(file.name)
        if self.gate is not None:
            await self.gate.wait()
        return unheard(file, self.problem) if self.problem else replace(file, voice=Voice(transcript=self.words))

    def limit(self, reason: str) -> str:
        return "5" if reason == "too_long" else ""

    async def close(self) -> None:
        """It holds nothing."""


def with_files(c: Core) -> Core:
    c.channel.files = {"v": b"OggS", "f": b"notes"}
    return c


def uploaded(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("uploads/*")]


def inputs(c: Core) -> list[RunInput]:
    return [start.run_input for start in c.harness.starts]


async def stored(c: Core) -> RunInput:
    (row,) = await c.store.read(lambda tx: runs.recent(tx, f"memory:{ANN}", 1))
    given: RunInput = row.input
    return given


async def test_what_is_said_is_what_the_agent_is_asked(tmp_path: Path) -> None:
    async with core(tmp_path, hearing=SpeechToText()) as c:
        await with_files(c).say("", attachments=(VOICE,))
        await c.answered()
        (asked,) = inputs(c)
        assert (asked.text, asked.words) == ("", "what is the weather")
        assert (await stored(c)).words == asked.words
        assert asked.files[0].path.read_bytes() == b"OggS"


async def test_the_chat_shows_that_somebody_listens_and_stop_ends_it(tmp_path: Path) -> None:
    async with core(tmp_path, hearing=SpeechToText(gate=asyncio.Event())) as c:
        await with_files(c).say("", attachments=(VOICE,))
        await c.clock.advance(2)
        assert c.texts() == [EN.listening]
        await c.say("/stop")
        await c.answered()
        assert c.texts()[0] == EN.stopped_by["stopped"]
        assert c.harness.starts == []


async def test_nobody_else_waits_while_somebody_is_listened_to(tmp_path: Path) -> None:
    hearing = SpeechToText(gate=asyncio.Event())
    async with core(tmp_path, hearing=hearing, concurrent=1) as c:
        await with_files(c).say("", attachments=(VOICE,))
        await c.say("hello", BOB)
        await c.clock.advance(2)
        assert c.texts(BOB) == ["echo: hello"]
        assert hearing.gate is not None
        hearing.gate.set()
        await c.answered()
        assert [asked.words for asked in inputs(c)] == ["hello", "what is the weather"]


async def test_a_spoken_command_is_text(tmp_path: Path) -> None:
    async with core(tmp_path, hearing=SpeechToText(words="/new start afresh")) as c:
        await with_files(c).say("", attachments=(VOICE,))
        await c.receive(replace(c.message("/stop"), dictated=True))
        await c.answered()
        assert [(asked.words, asked.dictated) for asked in inputs(c)] == [("/new start afresh", False), ("/stop", True)]
        assert len({start.ctx.thread_id for start in c.harness.starts}) == 1


async def test_words_and_a_voice_message_are_one_question(tmp_path: Path) -> None:
    async with core(tmp_path, hearing=SpeechToText()) as c:
        await with_files(c).say("in short, please", attachments=(VOICE,))
        await c.answered()
        assert [asked.words for asked in inputs(c)] == ["in short, please\nwhat is the weather"]


async def test_an_audio_file_stays_a_file(tmp_path: Path) -> None:
    hearing = SpeechToText()
    async with core(tmp_path, hearing=hearing) as c:
        with_files(c)
        await c.say("", attachments=(Attachment(ref="v", kind="audio", name="song.mp3", mime_type="audio/mpeg"),))
        await c.answered()
        assert hearing.heard == []
        assert inputs(c)[0].files[0].voice is None


async def test_what_joins_what_waits_is_listened_to_with_it(tmp_path: Path) -> None:
    hearing = SpeechToText()
    async with core(tmp_path, hearing=hearing, turns=TurnRules(busy=Busy.COLLECT)) as c:
        gate = with_files(c).harness.hold("first")
        for text in ("first", "second"):
            await c.say(text)
        await c.say("", attachments=(VOICE,))
        await c.clock.advance(2)
        assert hearing.heard == []
        gate.set()
        await c.answered()
        assert inputs(c)[1].words == "second\nwhat is the weather"


async def test_in_a_group_nobody_listens_to_what_is_not_for_the_bot(tmp_path: Path) -> None:
    hearing = SpeechToText()
    async with core(tmp_path, hearing=hearing) as c:
        await with_files(c).say("", chat="g", mention=False, attachments=(VOICE,))
        await c.answered()
        assert hearing.heard == []
        await c.say("", chat="g", mention=True, attachments=(VOICE,))
        await c.answered()
        assert hearing.heard == ["voice"]


async def test_who_has_used_up_a_budget_is_not_listened_to(tmp_path: Path) -> None:
    hearing = SpeechToText()
    async with core(tmp_path, hearing=hearing, budgets={"speaker_day": {"tokens": 12}}) as c:
        await with_files(c).say("an answer of 12 tokens")
        await c.answered()
        await c.say("", attachments=(VOICE,))
        await c.answered()
        assert hearing.heard == []
        assert EN.budget_of["speaker_day"] in c.texts()[-1]


# What was not understood.


async def test_the_agent_and_the_person_are_told_what_was_not_understood(tmp_path: Path) -> None:
    async with core(tmp_path, hearing=SpeechToText(problem="too_long")) as c:
        await with_files(c).say("and?", attachments=(VOICE, VOICE))
        await c.answered()
        (text,) = c.texts()
        assert text == f"echo: and?\n\n{EN.voice_problem['too_long'].format(limit='5')}"
        notes = [file.voice.note for file in inputs(c)[0].files if file.voice is not None]
        assert notes == ["it was not transcribed: it is longer than allowed"] * 2


async def test_retry_listens_again_to_what_was_not_understood_only(tmp_path: Path) -> None:
    hearing = SpeechToText(problem="busy")
    async with core(tmp_path, hearing=hearing) as c:
        await with_files(c).say("", attachments=(VOICE,))
        await c.answered()
        hearing.problem = None
        for _ in range(2):
            await c.say("/retry")
            await c.answered()
        assert len(hearing.heard) == 2
        assert [asked.words for asked in inputs(c)] == ["", "what is the weather", "what is the weather"]


async def test_without_a_service_one_sentence_is_the_answer(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await with_files(c).say("", attachments=(VOICE,))
        await c.answered()
        assert c.texts() == [EN.voice_problem["off"]]
        assert c.harness.starts == []
        assert await c.reasons() == ["not listened to"]
        assert uploaded(tmp_path) == []


async def test_without_a_service_words_are_answered_all_the_same(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await with_files(c).say("look", attachments=(VOICE,))
        await c.say("", attachments=(VOICE, FILE))
        await c.answered()
        off = EN.voice_problem["off"]
        assert c.texts() == [f"echo: look\n\n{off}", f"echo: \n\n{off}"]
        assert all("not" in (asked.files[0].voice or Voice()).note or "no " in str(asked) for asked in inputs(c))


# Crashes.


async def test_a_restart_while_somebody_listens_listens_again(tmp_path: Path) -> None:
    hearing = SpeechToText(gate=asyncio.Event())
    async with core(tmp_path, hearing=hearing) as c:
        await with_files(c).say("", attachments=(VOICE,))
        await c.restart()
        assert hearing.gate is not None
        hearing.gate.set()
        await c.answered()
        assert [asked.words for asked in inputs(c)] == ["what is the weather"]
        assert hearing.heard == ["voice", "voice"]


@pytest.mark.parametrize("step", range(1, 17))
async def test_what_was_heard_is_not_paid_for_again(tmp_path: Path, step: int) -> None:
    """Wherever the process is killed: once the words are kept, the service is not asked again."""
    hearing = SpeechToText()
    async with core(tmp_path, hearing=hearing) as c:
        with_files(c).tripwire.at = c.tripwire.passed + step
        message = c.message("", attachments=(VOICE,))
        receiving = asyncio.ensure_future(c.channel.receive(message))
        await c.clock.advance(3)
        receiving.cancel()
        await c.crash()
        known = kept(tmp_path)
        before = len(hearing.heard)
        c.tripwire = Tripwire()
        await c.start()
        await c.receive(message)
        await c.answered()
        assert c.texts() == ["echo:"]
        assert inputs(c)[-1].words == "what is the weather"
        assert len(hearing.heard) == before + (0 if known else 1)
        assert before <= 1


def kept(folder: Path) -> bool:
    """Whether the database of a process that is gone holds the words."""
    with closing(sqlite3.connect(folder / "antler.db")) as database:
        return any("what is the weather" in row for (row,) in database.execute("SELECT input FROM runs"))


async def test_what_was_not_understood_is_told_after_a_restart_too(tmp_path: Path) -> None:
    hearing = SpeechToText(problem="timeout")
    async with core(tmp_path, hearing=hearing) as c:
        gate = with_files(c).harness.hold("")
        await c.say("", attachments=(VOICE,))
        await c.clock.advance(2)
        await c.restart()
        gate.set()
        await c.answered()
        assert c.texts() == [f"The whole answer\n\n{EN.voice_problem['timeout']}"]
        assert hearing.heard == ["voice"]
