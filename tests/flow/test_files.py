"""Files that people send: fetched to the thread's uploads or refused with one honest sentence, never half."""

from __future__ import annotations

import io
import os
import sqlite3
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from PIL import Image

from bot.store.identity import thread_folder
from tests.flow.gateway import merged
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import TEAM, FileSpec, Person

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

GIGABYTE = 1024**3
REPORT = FileSpec(name="report.txt", mime="text/plain", content=b"figures")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World) -> AsyncIterator[World]:
    server = {"base_url": public_world.model.base_url, "api_key": "$MODEL_KEY"}
    models = [
        {"name": "main", "model": "sim", **server},
        {"name": "seeing", "model": "sim-vision", "supports_vision": True, **server},
    ]
    public_world.settings = merged(public_world.settings, {"models": models})
    async with public_world:
        yield public_world


def uploads(gateway: World, conversation: str) -> list[Path]:
    """The files of the conversation's present thread, oldest first."""
    with sqlite3.connect(gateway.data_dir / "antler.db") as database:
        (thread,) = database.execute("SELECT thread_id FROM conversations WHERE key = ?", [conversation]).fetchone()
    database.close()
    folder = thread_folder(gateway.data_dir, thread) / "uploads"
    return sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns) if folder.is_dir() else []


def of(person: Person) -> str:
    return f"telegram:{person.id}"


def picture(width: int, height: int) -> bytes:
    """A PNG that does not compress."""
    buffer = io.BytesIO()
    Image.frombytes("RGB", (width, height), os.urandom(width * height * 3)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("file", "ending"),
    [
        (REPORT, "-report.txt"),
        (FileSpec("photo", content=picture(40, 30), mime="image/jpeg"), "-image.png"),
        (FileSpec("voice", content=b"OggS" + bytes(200), mime="audio/ogg"), "-voice"),
        (FileSpec("video", name="clip.mp4", content=bytes(300), mime="video/mp4"), "-clip.mp4"),
        (FileSpec(name="../../etc/passwd", content=b"x"), "-passwd"),
        (FileSpec(name="..\\..\\boot.ini", content=b"x"), "-boot.ini"),
        (FileSpec(name="a\0b\n;curl x|sh;.png", content=b"x"), ".png"),
        (FileSpec(name=".bashrc", content=b"x"), "-bashrc"),
        (FileSpec(name="-rf", content=b"x"), "-rf"),
        (FileSpec(name="日本語の長い名前" * 40 + ".txt", content=b"x"), ".txt"),
    ],
)
async def test_a_file_lands_under_the_uploads_of_its_thread(
    gateway: World, person: Person, file: FileSpec, ending: str
) -> None:
    await gateway.telegram.user_says("look at this", user=person, file=file)
    await gateway.telegram.wait_for_text(person, "look at this")
    (path,) = uploads(gateway, of(person))
    assert path.read_bytes() == file.content
    assert path.name.endswith(ending)
    assert path.name.isprintable()
    assert not set(path.name) & set("/\\;|\n\0")
    assert path.stat().st_mode & 0o077 == 0
    assert str(path.parent) not in await gateway.telegram.transcript(person)


async def test_a_file_without_a_word_is_answered_too(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says(user=person, file=REPORT)
    answer = await gateway.telegram.wait_for_text(person, "You said")
    (request,) = [r for r in await gateway.model.completions() if person.first_name in str(r.body["messages"])]
    assert "report.txt" in request.last_user_text
    assert "report.txt" not in answer.text, "what the gateway adds for the model is not shown, even if it repeats it"


async def test_an_album_with_a_caption_is_one_turn(gateway: World, person: Person) -> None:
    files = [FileSpec("photo", content=picture(20 + n, 20), mime="image/jpeg") for n in range(3)]
    await gateway.telegram.album(files, caption="our holiday", user=person)
    await gateway.telegram.wait_for_text(person, "our holiday")
    await gateway.telegram.wait_idle(person, quiet=1.0)
    assert len(await gateway.telegram.bot_messages(person)) == 1
    assert sorted(path.read_bytes() for path in uploads(gateway, of(person))) == sorted(f.content or b"" for f in files)


async def test_a_caption_with_a_mention_speaks_to_the_bot_in_a_group(gateway: World, person: Person) -> None:
    await gateway.telegram.group_says("only between us", user=person, file=REPORT)
    await gateway.telegram.group_says("@antler_bot and this?", user=person, file=FileSpec(name="b.txt", content=b"b"))
    await gateway.telegram.wait_for_text(TEAM, "and this?")
    assert [path.read_bytes() for path in uploads(gateway, f"telegram:{TEAM.id}")] == [b"b"]


async def test_a_question_that_replies_to_a_file_is_about_that_file(gateway: World, person: Person) -> None:
    sent = await gateway.telegram.group_says("only between us", user=person, file=REPORT)
    asker = Person(person.id + 1_000_000, "Asker")
    question = f"what is in the file of {person.id}?"
    await gateway.telegram.group_says(f"@antler_bot {question}", user=asker, reply_to=sent.message_id)
    await gateway.telegram.wait_for_text(TEAM, question)
    request = next(r for r in await gateway.model.completions() if question in r.last_user_text)
    assert "[file report.txt (" in request.last_user_text


async def test_a_reply_to_a_file_of_the_bot_does_not_fetch_it(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says("first", user=person)
    answer = await gateway.telegram.wait_for_text(person, "You said: first")
    document = {"file_id": "bots-own", "file_unique_id": "bots-own", "file_name": "chart.csv"}
    reply = {"reply_to_message": {**answer.data, "document": document}}
    await gateway.telegram.user_says("and the next year?", user=person, extra=reply)
    await gateway.telegram.wait_for_text(person, "and the next year?")
    await gateway.telegram.wait_idle(person)
    assert not any("chart.csv" in message.text for message in await gateway.telegram.bot_messages(person))


async def test_a_paste_that_telegram_cut_is_one_turn(gateway: World, person: Person) -> None:
    words = " ".join(f"word{number}" for number in range(1000))
    first, rest = words[:4096], words[4096:]
    await gateway.telegram.user_says(first, user=person)
    await gateway.telegram.user_says(rest, user=person)
    await gateway.telegram.wait_for_text(person, "word999")
    await gateway.telegram.wait_idle(person, quiet=1.0)
    (request,) = [r for r in await gateway.model.completions() if person.first_name in str(r.body["messages"])]
    assert "word0 " in request.last_user_text
    assert "word999" in request.last_user_text


async def test_a_file_that_lies_about_its_size_is_dropped_in_mid_stream(gateway: World, person: Person) -> None:
    bomb = FileSpec(name="small.txt", declared_size=1024, stream_size=5 * GIGABYTE)
    said = await gateway.telegram.user_says("a tiny file", user=person, file=bomb)
    refused = await gateway.telegram.wait_for_text(person, "small.txt")
    assert "larger than 20 MB" in refused.text
    await gateway.telegram.wait_idle(person)
    assert uploads(gateway, of(person)) == []
    sent = (await gateway.telegram.file(said.message["document"]["file_id"]))["sent"]
    assert sent < 64 * 1024**2
    assert gateway.peak_memory() < 350 * 1024**2


async def test_a_file_that_says_it_is_too_large_is_not_asked_for(gateway: World, person: Person) -> None:
    said = await gateway.telegram.user_says(
        "my film", user=person, file=FileSpec(name="film.mkv", stream_size=3 * GIGABYTE)
    )
    await gateway.telegram.wait_for_text(person, "film.mkv was not accepted: it is larger than 20 MB")
    assert (await gateway.telegram.file(said.message["document"]["file_id"]))["downloads"] == 0
    assert uploads(gateway, of(person)) == []


async def test_a_file_that_is_gone_is_named(gateway: World, person: Person) -> None:
    await gateway.telegram.fail("file", faults.not_found())
    await gateway.telegram.user_says("too late", user=person, file=REPORT)
    answer = await gateway.telegram.wait_for_text(person, "no longer there")
    assert answer.text.count("⚠️") == 1
    assert uploads(gateway, of(person)) == []


async def test_a_download_that_breaks_off_is_tried_again(gateway: World, person: Person) -> None:
    await gateway.telegram.fail("file", faults.bad_gateway())
    await gateway.telegram.user_says("second try", user=person, file=REPORT)
    await gateway.telegram.wait_for_text(person, "second try")
    (path,) = uploads(gateway, of(person))
    assert path.read_bytes() == REPORT.content


async def test_a_model_that_sees_gets_the_picture_made_small(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says("/models seeing", user=person)
    await gateway.telegram.wait_for_text(person, "now uses")
    big = FileSpec("document", name="big.png", mime="image/png", content=picture(2600, 1500))
    assert len(big.content or b"") > 10_000_000
    await gateway.telegram.user_says("what is this?", user=person, file=big)
    await gateway.telegram.wait_for_text(person, "Image: 2048x1182", timeout=20)
    (image,) = (await gateway.model.completions())[-1].images
    assert image.size < 2_000_000
    assert "cannot see" not in await gateway.telegram.transcript(person)


async def test_a_model_that_cannot_see_says_so_once(gateway: World, person: Person) -> None:
    photo = FileSpec("photo", content=picture(30, 30), mime="image/jpeg")
    for number in range(2):
        await gateway.telegram.user_says(f"photo {number}", user=person, file=photo)
        await gateway.telegram.wait_for_text(person, f"photo {number}")
    transcript = await gateway.telegram.transcript(person)
    assert "The model main cannot see images" in transcript
    assert (await gateway.model.completions())[-1].images == []
