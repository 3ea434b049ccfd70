"""One task of one agent: its process in the sandbox, what it says, and what it asks permission for.

The process lives in the thread's sandbox as a command does, with its limits, network and end. Messages to it are files,
numbered, which a loop in front of it reads; what it prints are messages from it. So every provider of sandboxes can run
agents, and the gateway's own environment never reaches one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import shlex
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from acp import PROTOCOL_VERSION, connect_to_agent, text_block
from acp.exceptions import RequestError
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    Implementation,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
)

from sandbox.base import WORKSPACE, Ending, Problem, SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable

    from acp.schema import PermissionOption, ToolCallUpdate

    from harness.acp.config import AcpAgentSettings
    from sandbox.base import Sandbox
    from sandbox.providers import SharedProvider

log = logging.getLogger(__name__)

LONGEST_LINE = 20_000_000
LONGEST_TEXT = 100_000
"""Characters of what an agent says that are kept; the end of it."""
CANCEL_SECONDS = 3.0
"""That an agent has to stop by itself."""
AT = "@antler "
_SCRIPT = """
io="$PWD/.acp/{mark}"; mkdir -p "acp/{name}" "$io"; cd "acp/{name}" || exit 1
printf '{at}%s\\n' "$PWD"
if [ -f "$io/env" ]; then set -a; . "$io/env"; set +a; rm -f "$io/env"; fi
n=1
while :; do
  if [ -f "$io/$n" ]; then cat "$io/$n"; rm -f "$io/$n"; n=$((n+1))
  elif [ -f "$io/end" ]; then break
  else sleep 0.05; fi
done | {{ {command} 2>"$io/stderr"; echo $? >"$io/code"; : >"$io/end"; }}
code=$(cat "$io/code")
tail -c 500 "$io/stderr" | tr '\\n' ' ' | sed 's/^/\\n{at}ended /'
echo
rm -rf "$io"
exit "$code"
"""


class AgentFailed(Exception):
    """The agent did not do its task. The text says why, for the model."""


@dataclass(slots=True)
class Permission:
    """What the agent asks for. number: from 1 on, in the order in which it asks. shown: for the person."""

    number: int
    shown: str
    options: list[PermissionOption]
    answer: asyncio.Future[bool]


@dataclass(slots=True)
class Ended:
    """How a task ended. reason: as the protocol has it (end_turn, refusal, max_tokens ...), "" for a failure."""

    reason: str = ""
    failure: str = ""


@dataclass(eq=False)
class Session:
    """progress: told of the title of each thing that it does."""

    settings: AcpAgentSettings
    name: str
    thread_id: str
    prompt: str
    provider: SharedProvider
    progress: Callable[[str], None] = lambda text: None
    ended: Ended | None = None
    _said: str = ""
    _waiting: list[Permission] = field(default_factory=list)
    _asked: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _work: asyncio.Task[None] | None = None
    _agent: Any = None
    _session_id: str = ""

    def start(self) -> None:
        self._work = asyncio.create_task(self._run(), name=f"acp agent {self.name}")

    @property
    def said(self) -> str:
        """The end of what it has said."""
        return self._said.strip()

    async def next(self) -> Permission | None:
        """The oldest permission that waits for an answer; None: the task has ended."""
        while True:
            if self._waiting:
                return self._waiting[0]
            if self.ended is not None:
                return None
            self._changed.clear()
            await self._changed.wait()

    def decide(self, permission: Permission, allowed: bool) -> None:
        """Answer what was asked."""
        self._waiting.remove(permission)
        if not permission.answer.done():
            permission.answer.set_result(allowed)

    async def cancel(self) -> None:
        """Ask it to stop, then end it with all that it started."""
        if self._work is None or self._work.done():
            return
        if self._agent is not None and self._session_id:
            with contextlib.suppress(Exception):  # whatever the protocol's client raises: it is ended anyway
                await self._agent.cancel(self._session_id)
                await asyncio.wait({self._work}, timeout=CANCEL_SECONDS)
        self._work.cancel()
        await asyncio.wait({self._work})

    # The protocol's client.

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        self._asked += 1
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        permission = Permission(self._asked, _shown(self.name, tool_call), options, answer)
        self._waiting.append(permission)
        self._changed.set()
        try:
            allowed = await answer
        finally:
            if permission in self._waiting:
                self._waiting.remove(permission)
        wanted = ("allow_once",) if allowed else ("reject_once", "reject_always")
        chosen = next((option for kind in wanted for option in options if option.kind == kind), None)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id))

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            self._said = (self._said + update.content.text)[-LONGEST_TEXT:]
            self.progress(update.content.text)
        elif isinstance(update, ToolCallStart | ToolCallProgress) and update.title:
            self.progress(f"\n{update.title}\n")

    # Its process.

    async def _run(self) -> None:
        try:
            async with self.provider.borrow(self.thread_id) as sandbox:
                self.ended = Ended(reason=await self._worked(sandbox))
        except AgentFailed as failure:
            self.ended = Ended(failure=str(failure))
        except SandboxError as error:
            self.ended = Ended(failure=f"the sandbox does not work: {error}")
        finally:
            if self.ended is None:
                self.ended = Ended(failure="it was ended before it was done")
            self._changed.set()

    async def _worked(self, sandbox: Sandbox) -> str:
        """Run it and give it the task; returns why it stopped. Raises AgentFailed, SandboxError."""
        pipe = _Pipe(sandbox, f"{WORKSPACE}/.acp/{secrets.token_hex(6)}")
        await pipe.prepare({name: value.get_secret_value() for name, value in self.settings.env.items()})
        process = asyncio.create_task(pipe.run(self.name, self.settings), name=f"process of acp agent {self.name}")
        client: Any = self  # without files and terminals, which it does not say that it has
        connection = connect_to_agent(client, pipe)
        asking = asyncio.create_task(self._asked_for(connection, pipe), name=f"task of acp agent {self.name}")
        try:
            await asyncio.wait({process, asking}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done() and isinstance(asking.exception(), AgentFailed):
                # Where it has died, its end says more than what became of the messages.
                await asyncio.wait({process}, timeout=0.5)
            if asking.done() and not (asking.exception() and process.done()):
                return asking.result()
            raise AgentFailed(process.result())
        finally:
            asking.cancel()
            if not process.done():
                with contextlib.suppress(SandboxError):
                    await pipe.end()
                await asyncio.wait({process}, timeout=CANCEL_SECONDS)
            process.cancel()
            await asyncio.wait({process, asking})
            await connection.close()

    async def _asked_for(self, connection: Any, pipe: _Pipe) -> str:
        try:
            async with asyncio.timeout(self.settings.start_timeout):
                folder = await pipe.folder
                await connection.initialize(
                    PROTOCOL_VERSION,
                    client_capabilities=ClientCapabilities(),
                    client_info=Implementation(name="antler", version=version("antler")),
                )
                session = await connection.new_session(folder)
            self._agent, self._session_id = connection, session.session_id
            answer = await connection.prompt(session.session_id, [text_block(self.prompt)])
        except TimeoutError:
            raise AgentFailed(f"it has not begun within {self.settings.start_timeout:g} seconds") from None
        except RequestError as error:
            needs = (
                " (it wants to be signed in: an operator has to give it a key by env)" if error.code == -32000 else ""
            )
            raise AgentFailed(f"it answered with an error: {str(error)[:300]}{needs}") from None
        except (ConnectionError, ValueError) as error:
            raise AgentFailed(f"it does not speak the protocol: {str(error)[:300]}") from None
        return str(answer.stop_reason)


class _Pipe:
    """The protocol's transport to a process in the sandbox. folder: where it works, as the process sees it."""

    def __init__(self, sandbox: Sandbox, path: str) -> None:
        self._sandbox = sandbox
        self._path = path
        self._sent = 0
        self._line: list[str] = []
        self._held = 0
        self._received: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._last_words = ""
        self._one = asyncio.Lock()
        self.folder: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def prepare(self, env: dict[str, str]) -> None:
        """Leave the variables where the process takes them from, once."""
        if env:
            await self._write("env", "".join(f"{name}={shlex.quote(value)}\n" for name, value in env.items()))

    async def run(self, name: str, settings: AcpAgentSettings) -> str:
        """Run it to its end; returns how that was."""
        script = _SCRIPT.format(
            mark=self._path.rpartition("/")[2],
            name=name,
            at=AT,
            command=" ".join(map(shlex.quote, (settings.command, *settings.args))),
        )
        try:
            result = await self._sandbox.execute_command(script, timeout=settings.timeout, on_output=self._heard)
        finally:
            self._received.put_nowait(None)
        if result.ending is Ending.TIMED_OUT:
            return f"it was ended after {settings.timeout:g} seconds, its time limit"
        if result.ending is not Ending.EXITED:
            return f"it was ended: {result.ending}"
        words = f": {self._last_words}" if self._last_words else ""
        return f"it ended by itself with exit code {result.exit_code}{words}"

    async def end(self) -> None:
        """No more messages: its input ends."""
        await self._write("end", "")

    async def send(self, message: dict[str, Any]) -> None:
        async with self._one:
            self._sent += 1
            await self._write(str(self._sent), json.dumps(message, ensure_ascii=False) + "\n")

    async def receive(self) -> dict[str, Any] | None:
        return await self._received.get()

    async def close(self) -> None:
        self._received.put_nowait(None)

    async def _write(self, name: str, text: str) -> None:
        written = await self._sandbox.write_file(f"{self._path}/{name}", text)
        if isinstance(written, Problem):
            raise ConnectionError(f"a message to it cannot be kept: {written.code}")

    def _heard(self, text: str) -> None:
        first, *others = text.split("\n")
        self._line.append(first)
        self._held += len(first)
        if self._held > LONGEST_LINE:  # no message is so long: for the protocol this is its end
            self._line, self._held = [], 0
            self._received.put_nowait(None)
        if not others:
            return
        *lines, rest = ["".join(self._line), *others]
        self._line, self._held = [rest], len(rest)
        for line in lines:
            if line.startswith(f"{AT}ended "):
                self._last_words = line.removeprefix(f"{AT}ended ").strip()
            elif line.startswith(AT) and not self.folder.done():
                self.folder.set_result(line.removeprefix(AT))
            elif line.strip():
                self._take(line)

    def _take(self, line: str) -> None:
        """What is no message, such as a banner, is left out."""
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(line)
            if isinstance(message, dict):
                self._received.put_nowait(message)


def _shown(name: str, call: ToolCallUpdate) -> str:
    """A permission as a person reads it: what it is about, its arguments, the places."""
    lines = [f"{name}: {call.title or call.kind or 'a step of its own'}"]
    if call.raw_input is not None:
        lines.append(json.dumps(call.raw_input, ensure_ascii=False, indent=1, default=str))
    lines += [f"{place.path}" for place in call.locations or ()]
    return "\n".join(lines)
