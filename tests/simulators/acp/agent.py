"""A small agent that speaks the Agent Client Protocol with the real package: `python agent.py`.

Its prompts are orders, a line each: `say WORDS`, `write FILE WORDS`, `ask WORDS` (permission, and tells the answer),
`env NAME`, `wait` (until it is cancelled), `die CODE`.
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
    NewSessionResponse,
    PromptResponse,
    run_agent,
    start_tool_call,
    update_agent_message_text,
)
from acp.schema import PermissionOption, ToolCallUpdate


class OrderedAgent:
    def __init__(self) -> None:
        self._client: Any = None
        self._folder = Path()
        self._cancelled = asyncio.Event()

    def on_connect(self, client: Any) -> None:
        self._client = client

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=PROTOCOL_VERSION)

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        self._folder = Path(cwd)
        return NewSessionResponse(session_id="one")

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> PromptResponse:
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
                answer = await self._client.request_permission(session_id=session, tool_call=call, options=options)
                await self._say(session, f"{rest}: {getattr(answer.outcome, 'option_id', 'cancelled')}.")
            case "env":
                await self._say(session, f"{rest} is {os.environ.get(rest, 'not there')}.")
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
    agent: Any = OrderedAgent()  # only what a task needs of an agent
    asyncio.run(run_agent(agent))
