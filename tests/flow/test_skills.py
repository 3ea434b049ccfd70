"""Skills from the chat to the sandbox: listed, read, their scripts run, turned off, called by name."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.flow.sandboxed import bash, call, require_bubblewrap
from tests.harness.skills.writing import put_skill

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import Person

require_bubblewrap()
pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "count-words"
BODY = "1. Run `scripts/count.sh FILE`.\n2. Say the number."
SCRIPT = f"/mnt/skills/custom/{NAME}/scripts/count.sh"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World) -> AsyncIterator[World]:
    public_world.settings["skills"] = {"public": False}
    async with public_world:
        # After the start: nothing has to be restarted for it.
        write_skill(public_world.data_dir / "skills" / "custom")
        yield public_world


def write_skill(folder: Path) -> None:
    file = put_skill(folder, NAME, "Counts words.", body=BODY, allowed_tools="[bash, read_file]")
    script = file.parent / "scripts" / "count.sh"
    script.parent.mkdir()
    script.write_text('wc -w < "$1"\n')


async def newest_prompt(gateway: World) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = (await gateway.model.completions())[-1].body["messages"]
    return messages


async def test_it_is_listed_read_and_its_script_run(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says("/skills", user=person)
    listed = await gateway.telegram.wait_for_text(person, "Skills (1 on)")
    assert "count-words — Counts words. · this installation" in listed.text
    count = f"echo 'one two three' > a.txt; echo there are $(sh {SCRIPT} a.txt) words; touch {SCRIPT} || echo kept"
    lines = [call("read_file", path=f"/mnt/skills/custom/{NAME}/SKILL.md"), bash(count)]
    forbidden = call("write_file", path="b.txt", content="x")
    await gateway.telegram.user_says("\n".join([*lines, forbidden]), user=person)
    await gateway.telegram.wait_for_text(person, "Tool result")
    await gateway.telegram.wait_idle(person)
    system, *said = await newest_prompt(gateway)
    assert f"/mnt/skills/custom/NAME/SKILL.md:\n- {NAME}: Counts words.\n" in system["content"]
    read, ran, refused = [message["content"] for message in said if message["role"] == "tool"]
    assert "Run `scripts/count.sh FILE`" in read
    assert "there are 3 words" in ran
    assert "kept" in ran, "a skill is read-only"
    assert f"write_file is not among the allowed-tools of the skill {NAME}" in refused
    assert str(gateway.data_dir) not in json.dumps(said)


async def test_one_of_a_folder_of_folders_is_listed_read_and_its_script_run(gateway: World, person: Person) -> None:
    custom = gateway.data_dir / "skills" / "custom"
    file = put_skill(custom / "team" / "reporting", "weekly", "Weekly reports.", body="1. Run `scripts/week.sh`.")
    (file.parent / "scripts").mkdir()
    (file.parent / "scripts" / "week.sh").write_text("echo the week is 42\n")
    put_skill(file.parent / "references", "no-skill", "An example in a reference.")
    try:
        place = "/mnt/skills/custom/team/reporting/weekly"
        await gateway.telegram.user_says("/skills", user=person)
        listed = await gateway.telegram.wait_for_text(person, "Skills (2 on)")
        assert "weekly — Weekly reports. · this installation" in listed.text
        lines = [call("read_file", path=f"{place}/SKILL.md"), bash(f"sh {place}/scripts/week.sh")]
        await gateway.telegram.user_says("\n".join(lines), user=person)
        await gateway.telegram.wait_for_text(person, "the week is 42")
        await gateway.telegram.wait_idle(person)
        system = (await newest_prompt(gateway))[0]
        assert "/mnt/skills/custom/team/reporting/NAME/SKILL.md:\n- weekly: Weekly reports.\n" in system["content"]
        assert "no-skill" not in system["content"]
        await gateway.telegram.user_says("/weekly !say done for May.", user=person)
        await gateway.telegram.wait_for_text(person, "done for May.")
        assert f"folder: {place}\n" in (await newest_prompt(gateway))[-1]["content"]
        code, told = await gateway.command("skills", "list")
        assert (code, "custom/team/reporting" in told) == (0, True)
    finally:
        shutil.rmtree(custom / "team")


async def test_it_is_turned_off_and_on(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says(f"/skills off {NAME}", user=person)
    await gateway.telegram.wait_for_text(person, f"Off in this conversation: {NAME}.")
    await gateway.telegram.user_says("!say one", user=person)
    await gateway.telegram.wait_for_text(person, "one")
    assert "<skills>" not in (await newest_prompt(gateway))[0]["content"]
    await gateway.telegram.user_says(f"/skills on {NAME}", user=person)
    await gateway.telegram.wait_for_text(person, f"On again in this conversation: {NAME}.")


async def test_its_name_gives_it_to_the_agent_at_once(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says(f"/{NAME} !say I count.", user=person)
    await gateway.telegram.wait_for_text(person, "I count.")
    asked = (await newest_prompt(gateway))[-1]["content"]
    assert asked.startswith("!say I count.\n\n<antler-context>")
    assert f"<antler-skill>\nskill: {NAME}\nfolder: /mnt/skills/custom/{NAME}\n" in asked
    assert BODY in asked
    await gateway.telegram.user_says("/count-everything x", user=person)
    await gateway.telegram.wait_for_text(person, "I do not know the command")
