"""One task of one agent: its process in the sandbox, its output, and the permissions it requests.

The process runs in the thread's sandbox like a command, with the same limits and network, and ends with it. Messages to
the process are numbered files, which a shell loop in front of it reads; messages from it are its standard output. So
every sandbox provider can run agents, and the gateway's own environment never reaches them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import secrets
import shlex
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import acp
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

    from acp.schema import AgentCapabilities, PermissionOption, ToolCallUpdate

    from harness.acp.config import AcpAgentSettings
    from sandbox.base import Sandbox
    from sandbox.providers import SharedProvider


MOST_HELD, MOST_MESSAGES = 20_000_000, 100_000
"""Characters and lines that an agent may be ahead of their handling."""
PACE = 0.001
"""Seconds between two lines: whatever runs in the sandbox can flood us with them, and others must be answered."""
MOST_PERMISSIONS = 50
"""Requests for permission that may wait; further ones are denied."""
LONGEST_TEXT = 100_000
"""Characters kept of an agent's output: the last ones."""
CANCEL_SECONDS = 3.0
"""Grace period in which an agent can stop by itself."""
AT = "@antler "
_SCRIPT = """
io="$PWD/.acp/{mark}"; mkdir -p "acp/{name}" "$io"; cd "acp/{name}" || exit 1
printf '{at}%s\\n' "$PWD"
{variables}
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


_VARIABLES = """
pad=$(cat "$io/pad"); rm -f "$io/pad"; text={text}; plain=""
for ((i=0; i<${{#text}}; i+=2)); do printf -v byte '\\\\x%02x' $((0x${{text:i:2}} ^ 0x${{pad:i:2}})); plain+=$byte; done
eval "$(printf %b "$plain")"; unset pad text plain byte i
"""
_SESSION_ID = re.compile(r"[ -~]{1,200}")
_SDK = str(Path(acp.__file__).parent)
# The SDK logs a traceback for each message that it does not understand.
logging.getLogger().addFilter(lambda record: not record.pathname.startswith(_SDK))
Answer = Literal["deny", "once", "always"]
OPTIONS: dict[Answer, tuple[str, ...]] = {
    "deny": ("reject_once", "reject_always"),
    "once": ("allow_once",),
    "always": ("allow_always",),
}
"""Option kinds that express a person's answer; the first one that the agent offers is used."""


class AgentFailed(Exception):
    """The agent did not complete its task. The text says why, for the model."""


@dataclass(slots=True)
class Permission:
    """A permission that the agent requests. number: counted from 1, in the order of the requests. shown: the text for
    the person. always: it can be granted permanently, as far as `shown` says."""

    number: int
    shown: str
    always: bool
    answer: asyncio.Future[Answer]


@dataclass(slots=True)
class Ended:
    """How a task ended. reason: the protocol's stop reason (end_turn, refusal, max_tokens ...), "" for a failure."""

    reason: str = ""
    failure: str = ""


@dataclass(eq=False)
class Session:
    """A task given to an agent. goes_on: continue the session of the thread's last call of this agent, if the agent
    keeps sessions. progress: called with the title of each step."""

    settings: AcpAgentSettings
    name: str
    thread_id: str
    prompt: str
    provider: SharedProvider
    goes_on: bool = True
    progress: Callable[[str], None] = lambda text: None
    ended: Ended | None = None
    _said: str = ""
    _waiting: list[Permission] = field(default_factory=list)
    _asked: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _work: asyncio.Task[None] | None = None
    _agent: Any = None
    _session_id: str = ""
    _listening: bool = False

    def start(self) -> None:
        self._work = asyncio.create_task(self._run(), name=f"acp agent {self.name}")

    @property
    def said(self) -> str:
        """The agent's output so far; only the end of it if it is long."""
        return self._said.strip()

    async def next(self) -> Permission | None:
        """Wait for the oldest unanswered permission; None when the task has ended."""
        while True:
            if self._waiting:
                return self._waiting[0]
            if self.ended is not None:
                return None
            self._changed.clear()
            await self._changed.wait()

    def decide(self, permission: Permission, answer: Answer) -> None:
        self._waiting.remove(permission)
        if not permission.answer.done():
            permission.answer.set_result(answer)

    async def cancel(self) -> None:
        """Ask the agent to stop, then end it and everything that it started."""
        if self._work is None or self._work.done():
            return
        if self._agent is not None and self._session_id:
            with contextlib.suppress(Exception):  # whatever the client raises: the agent is ended anyway
                await self._agent.cancel(self._session_id)
                await asyncio.wait({self._work}, timeout=CANCEL_SECONDS)
        self._work.cancel()
        await asyncio.wait({self._work})

    # The client's side of the protocol.

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        if len(self._waiting) >= MOST_PERMISSIONS:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        self._asked += 1
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        lasting = next((option.name for option in options if option.kind == "allow_always"), "")
        permission = Permission(self._asked, _shown(self.name, tool_call, lasting), bool(lasting), answer)
        self._waiting.append(permission)
        self._changed.set()
        try:
            given = await answer
        finally:
            if permission in self._waiting:
                self._waiting.remove(permission)
        chosen = next((option for kind in OPTIONS[given] for option in options if option.kind == kind), None)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id))

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if not self._listening:
            return  # an agent that loads a session replays everything that was said in it
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            self._said = (self._said + update.content.text)[-LONGEST_TEXT:]
            self.progress(update.content.text)
        elif isinstance(update, ToolCallStart | ToolCallProgress) and update.title:
            self.progress(f"\n{update.title}\n")

    # The agent's process.

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
                self.ended = Ended(failure="it was stopped before it finished")
            self._changed.set()

    async def _worked(self, sandbox: Sandbox) -> str:
        """Start the agent and give it the task; returns the stop reason. Raises AgentFailed, SandboxError."""
        pipe = _Pipe(sandbox, f"{WORKSPACE}/.acp/{secrets.token_hex(6)}")
        process = asyncio.create_task(pipe.run(self.name, self.settings), name=f"process of acp agent {self.name}")
        client: Any = self  # it offers neither files nor terminals, and announces neither
        connection = connect_to_agent(client, pipe)
        asking = asyncio.create_task(self._asked_for(connection, pipe), name=f"task of acp agent {self.name}")
        try:
            await asyncio.wait({process, asking}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done() and isinstance(asking.exception(), AgentFailed):
                # If the process has died, its exit tells more than the failed message exchange.
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
                initialized = await connection.initialize(
                    PROTOCOL_VERSION,
                    client_capabilities=ClientCapabilities(),
                    client_info=Implementation(name="antler", version=version("antler")),
                )
                self._session_id = await self._opened(connection, pipe, folder, initialized.agent_capabilities)
            self._agent, self._listening = connection, True
            answer = await connection.prompt(self._session_id, [text_block(self.prompt)])
        except TimeoutError:
            raise AgentFailed(f"it did not start within {self.settings.start_timeout:g} seconds") from None
        except RequestError as error:
            needs = " (it is not signed in: an operator must provide a key through env)" if error.code == -32000 else ""
            raise AgentFailed(f"it answered with an error: {str(error)[:300]}{needs}") from None
        except (ConnectionError, ValueError) as error:
            raise AgentFailed(f"it does not speak the protocol: {str(error)[:300]}") from None
        return str(answer.stop_reason)

    async def _opened(self, connection: Any, pipe: _Pipe, folder: str, can: AgentCapabilities | None) -> str:
        """The id of the thread's last session of this agent if that can be continued, else of a new one."""
        keeps = self.goes_on and can is not None and bool(can.load_session)
        known = await pipe.last_session(self.name) if keeps else ""
        if known:
            await pipe.keep_session(self.name, "")  # a session that fails to load must not fail the next call too
            with contextlib.suppress(RequestError):  # the agent's files were deleted, or it is a different agent
                await connection.load_session(folder, known, [])
                await pipe.keep_session(self.name, known)
                return known
        session_id = str((await connection.new_session(folder)).session_id)
        if keeps and _SESSION_ID.fullmatch(session_id):
            await pipe.keep_session(self.name, session_id)
        return session_id


class _Pipe:
    """The protocol's transport to a process in the sandbox. folder: its working directory, as the process sees it."""

    def __init__(self, sandbox: Sandbox, path: str) -> None:
        self._sandbox = sandbox
        self._path = path
        self._sent = 0
        self._line: list[str] = []
        self._held = 0
        self._received: asyncio.Queue[str | None] = asyncio.Queue()
        self._is_deaf = False
        self._last_words = ""
        self._one = asyncio.Lock()
        self.folder: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def _variables(self, settings: AcpAgentSettings) -> str:
        """The shell lines that set the process's environment variables. They are secrets, and the remains of a crash
        must not reveal them: the command holds them XORed with random bytes, which are only in a file."""
        values = ((name, value.get_secret_value()) for name, value in settings.env.items())
        text = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values).encode()
        if not text:
            return ""
        pad = secrets.token_bytes(len(text))
        await self._write("pad", pad.hex())
        return _VARIABLES.format(text=bytes(one ^ other for one, other in zip(text, pad, strict=True)).hex())

    async def last_session(self, name: str) -> str:
        """The id of the agent's last session in this thread, if it was kept; "" for none."""
        kept = await self._sandbox.read_file(_session_file(name))
        known = "" if isinstance(kept, Problem) else kept.text.strip()
        return known if _SESSION_ID.fullmatch(known) else ""

    async def keep_session(self, name: str, session_id: str) -> None:
        """Remember the session for the thread's next call. If that fails, the next call begins a new one."""
        await self._sandbox.write_file(_session_file(name), session_id)

    async def run(self, name: str, settings: AcpAgentSettings) -> str:
        """Run the process to its end; returns a description of how it ended."""
        try:
            variables = await self._variables(settings)
        except ConnectionError as error:
            return str(error)
        script = _SCRIPT.format(
            variables=variables,
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
            return f"it was stopped at its time limit of {settings.timeout:g} seconds"
        if result.ending is not Ending.EXITED:
            return f"it was stopped: {result.ending}"
        words = f": {self._last_words}" if self._last_words else ""
        return f"it exited with code {result.exit_code}{words}"

    async def end(self) -> None:
        """Close the process's input: no more messages follow."""
        await self._write("end", "")

    async def send(self, message: dict[str, Any]) -> None:
        async with self._one:
            self._sent += 1
            await self._write(str(self._sent), json.dumps(message, ensure_ascii=False) + "\n")

    async def receive(self) -> dict[str, Any] | None:
        """The next message, once earlier ones are answered; None at the end. Other lines (banners) are skipped."""
        while (line := await self._received.get()) is not None and not self._is_deaf:
            self._held -= len(line) + 1
            await asyncio.sleep(PACE)
            async with self._one:  # an answer is being written
                pass
            with contextlib.suppress(ValueError, RecursionError):
                if isinstance(message := json.loads(line), dict):
                    return message
        return None

    async def close(self) -> None:
        self._received.put_nowait(None)

    async def _write(self, name: str, text: str) -> None:
        written = await self._sandbox.write_file(f"{self._path}/{name}", text)
        if isinstance(written, Problem):
            raise ConnectionError(f"a message to it could not be written: {written.code}")

    def _heard(self, text: str) -> None:
        if self._is_deaf:
            return
        first, *others = text.split("\n")
        self._line.append(first)
        self._held += len(text)
        if self._held > MOST_HELD or self._received.qsize() > MOST_MESSAGES:
            self._is_deaf, self._line = True, []  # no agent says so much: treated as the end of the stream
            self._received.put_nowait(None)
            return
        if not others:
            return
        *lines, rest = ["".join(self._line), *others]
        self._line = [rest]
        for line in lines:
            if line.startswith(f"{AT}ended "):
                self._last_words = line.removeprefix(f"{AT}ended ").strip()
            elif line.startswith(AT) and not self.folder.done():
                self.folder.set_result(line.removeprefix(AT))
            elif line.strip():
                self._received.put_nowait(line)
                continue
            self._held -= len(line) + 1


def _session_file(name: str) -> str:
    return f"{WORKSPACE}/.acp/{name}.session"


def _shown(name: str, call: ToolCallUpdate, lasting: str) -> str:
    """A permission as a person reads it: its subject, its arguments, the places. lasting: the agent's name for a
    permanent grant, "" if it offers none."""
    lines = [f"{name}: {call.title or call.kind or 'an unnamed step'}"]
    if call.raw_input is not None:
        lines.append(json.dumps(call.raw_input, ensure_ascii=False, indent=1, default=str))
    lines += [f"{place.path}" for place in call.locations or ()]
    lines += [f"∞ {' '.join(lasting.split())[:200]}"] if lasting else []
    return "\n".join(lines)
