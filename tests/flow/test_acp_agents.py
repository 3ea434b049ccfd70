"""Agents of others work in the thread's sandbox, ask people in the chat, and end with the run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import acp
import pytest
import pytest_asyncio

from bot.texts.en import EN
from tests.flow.sandboxed import MARK, call, require_bubblewrap, running, until_gone, until_running
from tests.simulators.process import REPO_ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import Person

require_bubblewrap()
pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = 'a-key-of-the-agent\'s "own" %s $(1) ü'
PACKAGES = Path(acp.__file__).parents[1]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    folder = tmp_path_factory.mktemp("agent")
    folder.chmod(0o755)
    for parent in folder.parents:
        if parent.stat().st_uid == folder.stat().st_uid and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    shutil.copy(REPO_ROOT / "tests/simulators/acp/agent.py", folder / "agent.py")
    mounts = [
        {"path": "/mnt/agent", "host": str(folder), "read_only": True},
        {"path": "/mnt/packages", "host": str(PACKAGES), "read_only": True},
    ]
    python = f"/usr/bin/python3.{sys.version_info.minor}"
    ordered = {
        "command": "env",
        "args": ["PYTHONPATH=/mnt/packages", "PYTHONDONTWRITEBYTECODE=1", python, "/mnt/agent/agent.py", f"mark{MARK}"],
        "description": "Does as it is told",
        "env": {"AGENT_KEY": "$AGENT_SECRET"},
        "start_timeout": 120,
    }
    broken = {"command": "no-such-agent"}
    public_world.settings |= {
        "sandbox": {"use": "bubblewrap", "mounts": mounts},
        "acp_agents": {"ordered": ordered, "broken": broken},
    }
    public_world.environment = {"AGENT_SECRET": KEY}
    async with public_world:
        yield public_world


def orders(*lines: str, agent: str = "ordered") -> str:
    return f"{call('invoke_acp_agent', agent=agent, prompt=chr(10).join(lines))}\n!say I am back."


async def told(gateway: World) -> str:
    """What the tool answered last."""
    return str((await gateway.model.completions())[-1].body["messages"][-1]["content"])


def told_by(files: Iterable[Path]) -> tuple[list[Path], bool]:
    """The files that hold the agent's key, and whether there are any files."""
    contents = {path: path.read_bytes() for path in files}
    return [path for path, content in contents.items() if KEY.encode() in content], bool(contents)


async def test_it_works_in_a_folder_of_the_thread_without_our_secrets(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says(
        orders("write deer.txt antlers", "env AGENT_KEY", "env MODEL_KEY", "say done"), user=person
    )
    await gateway.telegram.wait_for_text(person, "I am back.")
    answer = await told(gateway)
    assert "It says that it is done." in answer
    assert f"AGENT_KEY is {KEY}." in answer or "AGENT_KEY is ***" in answer
    assert "MODEL_KEY is not there." in answer
    (written,) = gateway.data_dir.glob("threads/*/user-data/workspace/acp/ordered/deer.txt")
    assert written.read_text() == "antlers"
    assert not list(gateway.data_dir.glob("threads/*/user-data/workspace/.acp/*/"))


async def test_what_it_wants_permitted_is_asked_in_the_chat(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says(orders("ask delete the deer", "ask feed the deer"), user=person)
    card = await gateway.telegram.wait_for_text(person, "delete the deer")
    await gateway.telegram.press(card.message_id, EN.approval_buttons["once"], user=person, chat=person.id)
    card = await gateway.telegram.wait_for_text(person, "feed the deer")
    await gateway.telegram.press(card.message_id, EN.approval_buttons["deny"], user=person, chat=person.id)
    await gateway.telegram.wait_for_text(person, "I am back.")
    answer = await told(gateway)
    assert "delete the deer: yes." in answer
    assert "feed the deer: no." in answer


async def test_a_stop_ends_it(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says(orders("wait"), user=person)
    await until_running(f"mark{MARK}", 60)
    await gateway.telegram.user_says("/stop", user=person)
    await until_gone(f"mark{MARK}", 30)


async def test_a_stop_while_it_waits_for_a_permission_ends_it_too(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says(orders("ask burn the forest"), user=person)
    await gateway.telegram.wait_for_text(person, "burn the forest")
    await until_running(f"mark{MARK}", 60)
    await gateway.telegram.user_says("/stop", user=person)
    await gateway.telegram.wait_for_text(person, EN.stopped_by["stopped"])
    await until_gone(f"mark{MARK}", 30)


async def test_a_crash_leaves_no_key_behind(gateway: World, person: Person) -> None:
    """Neither in a file nor on a command line, at any time: what holds its second half is gone with the process."""
    await gateway.telegram.user_says(orders("env AGENT_KEY", "wait"), user=person)
    await until_running(f"mark{MARK}", 60)
    told, there = told_by(Path(f"/proc/{pid}/cmdline") for pid in running(f"mark{MARK}"))
    assert there
    assert not told
    await gateway.kill()
    await until_gone(f"mark{MARK}", 30)
    told, there = told_by(path for path in gateway.data_dir.glob("threads/**/*") if path.is_file())
    assert there
    assert not told
    await gateway.start()
    await gateway.telegram.wait_for_text(person, "I am back.")


async def test_a_second_call_goes_on_in_the_session_of_the_first(gateway: World, person: Person) -> None:
    for number, text in enumerate(("say One", "say Two\ntimes", "forget", "times"), 1):
        await gateway.telegram.user_says(orders(text).replace("back", f"at {number}"), user=person)
        await gateway.telegram.wait_for_text(person, f"I am at {number}.")
        answer = await told(gateway)
        assert "before:" not in answer, "what it tells of before is not said now"
        if number == 2:
            assert "2 time(s), first: say One." in answer
    assert "1 time(s), first: times." in answer, "one that is gone is begun anew"


async def test_a_session_that_kills_its_agent_is_tried_once(gateway: World, person: Person) -> None:
    for number, expected in enumerate(("It says that it is done.", "exited with code 4", "It says that it is done.")):
        await gateway.telegram.user_says(orders("say poison").replace("back", f"at {number}"), user=person)
        await gateway.telegram.wait_for_text(person, f"I am at {number}.")
        assert expected in await told(gateway)


async def test_what_is_allowed_for_good_is_not_asked_again_in_the_thread(gateway: World, person: Person) -> None:
    for number in (1, 2):
        await gateway.telegram.user_says(orders("ask always mow").replace("back", f"at {number}"), user=person)
        if number == 1:
            card = await gateway.telegram.wait_for_text(person, "Always always mow")
            await gateway.telegram.press(card.message_id, EN.approval_buttons["chat"], user=person, chat=person.id)
        await gateway.telegram.wait_for_text(person, f"I am at {number}.")
        assert "always mow: ever." in await told(gateway)
    await gateway.telegram.user_says("/new", user=person)
    await gateway.telegram.user_says(orders("ask always mow"), user=person)
    card = await gateway.telegram.wait_for_message(
        person, lambda seen: "Always always mow" in seen.text and bool(seen.buttons)
    )
    await gateway.telegram.press(card.message_id, EN.approval_buttons["once"], user=person, chat=person.id)
    await gateway.telegram.wait_for_text(person, "I am back.")
    assert "always mow: yes." in await told(gateway)


async def test_one_that_fails_is_told(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says(orders("die 3"), user=person)
    await gateway.telegram.wait_for_text(person, "I am back.")
    assert "it exited with code 3: something broke" in await told(gateway)
    await gateway.telegram.user_says(orders("say x", agent="broken").replace("back", "here"), user=person)
    await gateway.telegram.wait_for_text(person, "I am here.")
    assert "exited with code 127" in await told(gateway)
