"""A small agent that speaks the Agent Client Protocol with the real package: `python agent.py`.

Its prompts are commands, one per line: `say WORDS`, `write FILE WORDS`, `ask WORDS` (permission; reports the answer),
`env NAME`, `wait` (until cancelled), `die CODE`, `times` (that this session was prompted), `forget` (the session).
A request with the word `always` can be allowed permanently. Its sessions are files next to its folder.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from acp import (
    PROTOCOL_VERSION,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
    RequestError,
    run_agent,
    start_tool_call,
    update_agent_message_text,
)
from acp.schema import AgentCapabilities, PermissionOption, ToolCallUpdate


class OrderedAgent:
    def __init__(self) -> None:
        self._client: Any = None
        self._folder = Path()
        self._cancelled = asyncio.Event()

    def on_connect(self, client: Any) -> None:
        self._client = client

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        can = AgentCapabilities(load_session=True)
        return InitializeResponse(protocol_version=PROTOCOL_VERSION, agent_capabilities=can)

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        self._folder = Path(cwd)
        session_id = f"session-{os.urandom(4).hex()}"
        self._kept(session_id).write_text("")
        return NewSessionResponse(session_id=session_id)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse:
        self._folder = Path(cwd)
        if not self._kept(session_id).exists():
            raise RequestError.resource_not_found(session_id)
        for line in self._kept(session_id).read_text().splitlines():
            if line == "say poison":
                os._exit(4)
            await self._say(session_id, f"before: {line}")
        return LoadSessionResponse()

    def _kept(self, session_id: str) -> Path:
        return self._folder.parent / session_id

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> PromptResponse:
        with self._kept(session_id).open("a") as kept:
            print(prompt[0].text.replace("\n", " "), file=kept)
        for line in prompt[0].text.splitlines():
            order, _, rest = line.partition(" ")
            if not await self._done(session_id, order, rest):
                return PromptResponse(stop_reason="cancelled")
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._cancelled.set()

    async def _done(self, session: str, order: str, rest: str) -> bool:
        match order:
            case "say":
                await self._say(session, rest)
            case "write":
                name, _, words = rest.partition(" ")
                await self._client.session_update(session, start_tool_call("w", f"Writing {name}", kind="edit"))
                (self._folder / name).write_text(words)
            case "ask":
                call = ToolCallUpdate(tool_call_id="a", title=rest, raw_input={"what": rest})
                options = [
                    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
                    PermissionOption(option_id="no", name="No", kind="reject_once"),
                ]
                if "always" in rest:
                    options.append(PermissionOption(option_id="ever", name=f"Always {rest}", kind="allow_always"))
                answer = await self._client.request_permission(session_id=session, tool_call=call, options=options)
                await self._say(session, f"{rest}: {getattr(answer.outcome, 'option_id', 'cancelled')}.")
            case "env":
                await self._say(session, f"{rest} is {os.environ.get(rest, 'not there')}.")
            case "times":
                told = self._kept(session).read_text().splitlines()
                await self._say(session, f"{len(told)} time(s), first: {told[0]}.")
            case "forget":
                self._kept(session).unlink()
            case "wait":
                await self._say(session, "waiting")
                await self._cancelled.wait()
                return False
            case "die":
                print("something broke", file=sys.stderr)
                sys.stderr.flush()
                os._exit(int(rest))
        return True

    async def _say(self, session: str, words: str) -> None:
        await self._client.session_update(session, update_agent_message_text(f"{words}\n"))


if __name__ == "__main__":
    agent: Any = OrderedAgent()  # only the parts of an agent that a task needs
    asyncio.run(run_agent(agent))
