"""The agent at work in its sandbox, from the chat to the host's process table: commands, files in and out."""

from __future__ import annotations

import hashlib
import io
import json
import re
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from PIL import Image

from tests.flow.sandboxed import MARK, bash, call, require_bubblewrap, running, until_gone, until_running
from tests.simulators.telegram.seen import FileSpec, Person

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import SeenMessage

require_bubblewrap()
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World) -> AsyncIterator[World]:
    async with public_world:
        yield public_world


async def asked(gateway: World, person: Person, *lines: str, file: FileSpec | None = None) -> None:
    await gateway.telegram.user_says("\n".join(lines), user=person, file=file)


async def files_of(gateway: World, person: Person) -> list[tuple[str, str]]:
    """Name and SHA-256 of each file that the bot sent, once it is done."""
    await gateway.telegram.wait_idle(person)
    messages: list[SeenMessage] = await gateway.telegram.bot_messages(person)
    return [(file["name"], file["sha256"]) for message in messages for file in message.files]


async def test_commands_run_isolated_in_folders_that_stay(gateway: World, person: Person) -> None:
    await asked(gateway, person, bash("id -un; echo kept > note; ls /mnt/user-data; ls /home /root; echo $MODEL_KEY."))
    answer = await gateway.telegram.wait_for_text(person, "Tool result")
    assert "sandbox\noutputs\nuploads\nworkspace\n" in answer.text
    assert gateway.model.api_key not in answer.text
    await asked(gateway, person, bash("cat note"))
    await gateway.telegram.wait_for_text(person, "kept")


async def test_an_uploaded_table_is_read_by_the_agent(gateway: World, person: Person) -> None:
    table = FileSpec(name="sales.csv", mime="text/csv", content=b"month,sum\nmay,41\njune,1\n")
    count = "awk -F, 'NR>1 {s+=$2} END {print \"sum is \" s}' *-sales.csv"
    count = bash(f"cd /mnt/user-data/uploads; {count}; touch -c * && chmod +x * && echo mine")
    await asked(gateway, person, count, file=table)
    answer = await gateway.telegram.wait_for_text(person, "sum is 42")
    assert "mine" in answer.text, "the file is the agent's own"


async def test_a_file_that_is_presented_arrives_byte_for_byte(gateway: World, person: Person) -> None:
    content = bytes(range(256)) * 400
    make = "python3 -c \"open('/mnt/user-data/outputs/all.bin','wb').write(bytes(range(256))*400)\""
    await asked(
        gateway, person, bash(make), call("present_files", paths=["/mnt/user-data/outputs/all.bin"]), "!say here it is"
    )
    await gateway.telegram.wait_for_message(person, lambda message: bool(message.files))
    assert await files_of(gateway, person) == [("all.bin", hashlib.sha256(content).hexdigest())]
    text, file = await gateway.telegram.bot_messages(person)
    assert (text.text, file.text) == ("here it is", "")
    await gateway.telegram.wait_idle(person)
    spool = gateway.data_dir / "spool"
    assert list(spool.iterdir()) == [], "the copy is gone once it was delivered"


async def test_a_picture_arrives_as_a_picture(gateway: World, person: Person) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (30, 20), "red").save(buffer, "PNG")
    picture = FileSpec(name="red.png", mime="image/png", content=buffer.getvalue())
    copy = bash("cp /mnt/user-data/uploads/*-red.png /mnt/user-data/outputs/plot.png")
    await asked(gateway, person, copy, call("present_files", paths=["/mnt/user-data/outputs/plot.png"]), file=picture)
    await gateway.telegram.wait_for_message(person, lambda message: bool(message.files))
    (call_,) = await gateway.telegram.records("sendPhoto", chat=person)
    assert call_.files[0]["sha256"] == hashlib.sha256(buffer.getvalue()).hexdigest()


async def test_a_file_that_the_platform_refuses_is_named_in_the_chat(gateway: World, person: Person) -> None:
    make = bash("cd /mnt/user-data/outputs && : > empty.txt && echo full > full.txt")
    paths = [f"/mnt/user-data/outputs/{name}.txt" for name in ("empty", "full")]
    await asked(gateway, person, make, call("present_files", paths=paths), "!say two files")
    await gateway.telegram.wait_for_message(person, lambda message: bool(message.files))
    assert [name for name, _ in await files_of(gateway, person)] == ["full.txt"]
    text = (await gateway.telegram.bot_messages(person))[0].text
    assert text == "two files\n\n⚠️ empty.txt was not sent: it is empty, or too small for this platform."


async def test_stop_ends_the_command_within_a_second(gateway: World, person: Person, mark: str) -> None:
    await asked(gateway, person, "/verbose full")
    await asked(gateway, person, bash(f"echo begun; (sleep {mark} & setsid sleep {mark} & wait)"))
    await until_running(mark)
    shown = re.compile(rf"sleep {re.escape(mark)} & wait\) \([1-9]\d* s\)")  # how long it has run, whenever we look
    await gateway.telegram.wait_for_message(person, lambda message: bool(shown.search(message.text)))
    await asked(gateway, person, "/stop")
    await until_gone(mark, 1.5)
    await gateway.telegram.wait_for_text(person, "Stopped.")


async def test_every_command_is_in_the_audit_log(gateway: World, person: Person) -> None:
    await asked(gateway, person, bash("exit 3"))
    await gateway.telegram.wait_for_text(person, "exit code 3")
    path = gateway.data_dir / "audit.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    asked_, ended = (entry for entry in entries if entry["command"] == "exit 3")
    assert (asked_["event"], asked_["verdict"], asked_["speaker"]) == ("asked", "pass", f"telegram:{person.id}")
    assert (ended["event"], ended["ending"], ended["exit_code"]) == ("ended", "exited", 3)


async def test_the_sandbox_is_named_in_the_chat_the_log_and_on_the_machine(gateway: World, person: Person) -> None:
    await asked(gateway, person, "/status")
    await gateway.telegram.wait_for_text(person, "Sandbox: bubblewrap, commands run isolated")
    assert "sandbox bubblewrap: commands run isolated" in gateway.log
    code, output = await gateway.command("status")
    assert code == 0
    assert "sandbox bubblewrap: commands run isolated" in output
    code, output = await gateway.command("check-config")
    assert code == 0
    assert "sandbox   bubblewrap: commands run isolated" in output


async def test_nothing_runs_on_after_all_that(gateway: World) -> None:
    assert running(MARK) == []
