"""A skill followed in a chat: a person asks, the scripted model works through the skill's own commands in the real
sandbox, and what it made arrives. `follow` plays it; the gateway is conftest.py's.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulators.model.scripts import Call, Say, ToolUse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.flow.gateway import World
    from tests.simulators.model.records import Record
    from tests.simulators.model.scripts import Step
    from tests.simulators.telegram.seen import FileSpec, Person, SeenMessage

SECONDS = 90.0
"""Of a whole conversation; it takes a few."""
MARKUP = re.compile(r"[*_`\[\n]")
PRESENT = "present_files"
SCRIPT = re.compile(r"/mnt/skills/public/[\w./-]+\.(?:py|sh)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """answer: the message that the person reads at the end. links: where it leads. files: what they got, by name.
    results: what each call told the model, SKILL.md first. transcript: the whole chat."""

    answer: str
    links: tuple[str, ...]
    files: dict[str, bytes]
    results: tuple[str, ...]
    transcript: str


def tool(name: str, **arguments: object) -> ToolUse:
    """A call of any tool."""
    return ToolUse(name=name, arguments=json.dumps(arguments))


def run(command: str) -> ToolUse:
    """A command in the sandbox."""
    return tool("bash", command=command)


def write(path: str, content: object) -> ToolUse:
    """A file in the sandbox; what is no text is written as JSON."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return tool("write_file", path=path, content=text)


def present(*names: str) -> ToolUse:
    """Files of the outputs."""
    return tool(PRESENT, paths=[f"/mnt/user-data/outputs/{name}" for name in names])


async def follow(
    gateway: World,
    person: Person,
    skill: str,
    *,
    says: str,
    does: Sequence[ToolUse],
    answers: str,
    files: Sequence[FileSpec] = (),
) -> Outcome:
    """says: the request, not used by any other test. does: the model's calls in order, one a round, after it has read
    the skill. answers: what it says at the end, beginning
    with plain words. Scripts that it runs have to stand in the skill's SKILL.md."""
    read = tool("read_file", path=f"/mnt/skills/public/{skill}/SKILL.md")
    steps: list[Step] = [*(Call(calls=(use,)) for use in (read, *does)), Say(text=answers)]
    await gateway.model.script(says, steps, match="contains")
    if len(files) > 1:
        await gateway.telegram.album(list(files), caption=says, user=person)
    else:
        await gateway.telegram.user_says(says, user=person, file=files[0] if files else None)
    record = await gateway.model.wait_for_request(lambda seen: _results_of(seen, says) == len(steps) - 1, SECONDS)
    await gateway.telegram.wait_for_text(person, MARKUP.split(answers)[0], SECONDS)
    for name in _presented(does):
        await gateway.telegram.wait_for_message(person, partial(_has_file, name), SECONDS)
    await gateway.telegram.wait_idle(person, timeout=SECONDS)
    results = tuple(str(message["content"]) for message in _this_turn(record, says) if message["role"] == "tool")
    _only_prescribed(skill, does, results[0])
    messages = await gateway.telegram.bot_messages(person)
    return Outcome(
        answer=messages[0].text,
        links=tuple(entity["url"] for entity in messages[0].entities if "url" in entity),
        files=await asyncio.to_thread(_delivered, gateway.data_dir, messages),
        results=results,
        transcript=await gateway.telegram.transcript(person),
    )


def _presented(does: Sequence[ToolUse]) -> list[str]:
    """Names of the files that the calls send into the chat."""
    calls = (json.loads(use.arguments) for use in does if use.name == PRESENT)
    return [path.rpartition("/")[2] for call in calls for path in call["paths"]]


def _has_file(name: str, message: SeenMessage) -> bool:
    return any(file["name"] == name for file in message.files)


def _this_turn(record: Record, says: str) -> list[dict[str, Any]]:
    """The messages from the request on."""
    messages: list[dict[str, Any]] = record.body["messages"]
    asked = (at for at, each in enumerate(messages) if each["role"] == "user" and says in str(each["content"]))
    return messages[next(asked, len(messages)) :]


def _results_of(record: Record, says: str) -> int:
    """How many results a request brings in the turn."""
    return sum(message["role"] == "tool" for message in _this_turn(record, says))


def _only_prescribed(skill: str, does: Sequence[ToolUse], text: str) -> None:
    """The conversation proves the workflow only if the workflow says the same."""
    assert f"name: {skill}" in text
    for use in does:
        for path in SCRIPT.findall(use.arguments):
            assert path in text, f"the SKILL.md of {skill} does not say to run {path}"


def _delivered(data_dir: Path, messages: Sequence[SeenMessage]) -> dict[str, bytes]:
    """The bytes of what was sent: the chat has their digests, the thread's outputs the files."""
    made = {hashlib.sha256(data := file.read_bytes()).hexdigest(): data for file in _outputs(data_dir)}
    sent = [file for message in messages for file in message.files]
    return {file["name"]: made[file["sha256"]] for file in sent}


def _outputs(data_dir: Path) -> list[Path]:
    return [file for file in data_dir.glob("threads/*/user-data/outputs/**/*") if file.is_file()]
