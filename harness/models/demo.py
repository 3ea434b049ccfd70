"""The `demo` model: scripted, no key, no network. For trying Antler out and for tests; never a silent fallback."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from harness.graph.messages import SCHEDULED, is_users, users_text
from sandbox.base import OUTPUTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.messages import ToolCall

HOW_TO = "For a real model add it to `models:` in config.yaml (config.yaml.example shows how) and start again."
I_AM = "I am the demo model: my answers are scripted, no language model is connected."

MARKDOWN = f"""# What an answer can look like

{I_AM} This one shows what your chat renders:

- **bold**, *italic*, `code` and [a link](https://example.org)
- a list
  1. with a list inside

> A quotation.

```python
def greet(name: str) -> str:
    return f"Hello, {{name}}!"
```

| dish | price |
|---|---|
| soup | 4.50 |
| bread | 1.20 |

{HOW_TO}"""

LONG = "\n\n".join(
    f"Paragraph {number}. " + "The demo model has little to say, but says it at length. " * 6 for number in range(1, 25)
)

TRY = (
    f"{I_AM} Try `markdown`, `long`, `run ls`, `write a file`, `delegate run ls; hello` "
    f"or `remind me in 1 minute to stretch`. {HOW_TO}"
)

ANSWERS: tuple[tuple[str, str], ...] = (
    (r"hello|hi|hey|hallo|moin|hola|bonjour|你好|您好", f"Hello! {I_AM} {HOW_TO}"),
    (r"who are you|what are you|what can you do|help|你是谁|你会什么|你能做什么|帮助", TRY),
    (r"thanks|thank you|danke|谢谢", f"You are welcome. {I_AM}"),
    (r"markdown", MARKDOWN),
    (r"long", f"{I_AM} {HOW_TO}\n\n{LONG}"),
)
"""Words -> what is said to them, the first that is found."""

LONGEST_SHOWN = 3000
NO_SANDBOX = (
    "I would use a tool for that, but there is no sandbox here: `sandbox.use` in config.yaml says where commands run "
    "and files live, and Antler's start says what it lacks."
)
NO_COMMANDS = (
    "I would run a command for that, but this machine's sandbox holds none: Antler's start says why. Files I can show: "
    "try `list files` or `write a file`."
)
NO_SUBAGENTS = "I would delegate that, but subagents are switched off here (`subagents.enabled` in config.yaml)."
MOST_DELEGATED = 3
ASIDE = r"^(?:please |bitte )?"
DELEGATE = re.compile(ASIDE + r"delegate[: ]+(?P<tasks>.+)$", re.IGNORECASE | re.DOTALL)
NO_SCHEDULES = "I would put that off, but that is switched off here (`schedules.enabled` in config.yaml)."
REMIND = re.compile(
    ASIDE + r"remind me in (?P<count>\d{1,4}) ?(?P<unit>second|minute|hour)s? (?:to |of |about )?(?P<what>.+)$",
    re.IGNORECASE | re.DOTALL,
)
MINUTES = {"second": 1 / 60, "minute": 1.0, "hour": 60.0}
REQUESTS: tuple[tuple[str, str, dict[str, str]], ...] = (
    (ASIDE + r"(?:show )?uname\b", "bash", {"command": "uname -a"}),
    (ASIDE + r"(?:run|execute|\$) +`*(?P<command>.+?)`*$", "bash", {}),
    (ASIDE + r"(?:list|show)(?: me)?(?: the| my| all)* files\b", "ls", {"path": "/mnt/user-data"}),
    (ASIDE + r"(?:write|make|create)(?: me)? (?:a|some) (?:\w+ )?file\b", "write_file", {}),
)
"""What a request looks like, the tool for it, and its arguments besides those that the request names."""


class DemoModel(BaseChatModel):
    """pause: seconds between two words. tools: names of those that it was given."""

    pause: float = 0.015
    tools: frozenset[str] = frozenset()

    @property
    def _llm_type(self) -> str:
        return "antler-demo"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """It uses a few of them, by name."""
        return self.model_copy(update={"tools": frozenset(getattr(tool, "name", "") for tool in tools)})

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        move = self._move(messages)
        message = AIMessage(move.text, tool_calls=list(move.calls), usage_metadata=_usage(messages, move.text))
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        move = self._move(messages)
        for word in _words(move.text):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word))
            if run_manager is not None:
                await run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk
            await asyncio.sleep(self.pause)
        last = AIMessageChunk(content="", tool_calls=list(move.calls), usage_metadata=_usage(messages, move.text))
        yield ChatGenerationChunk(message=last)

    def _move(self, messages: list[BaseMessage]) -> Move:
        newest = max((place for place, message in enumerate(messages) if is_users(message)), default=-1)
        said = users_text(messages[newest]).strip() if newest >= 0 else ""
        move = next_move(said, messages[newest + 1 :], self.tools, number=len(messages))
        if move is None:
            return Move(answer_to(messages))
        return move if move.calls else Move(f"{move.text}\n\n{I_AM} {HOW_TO}")


def answer_to(messages: list[BaseMessage]) -> str:
    """The scripted answer to the newest thing that a person wrote; a summary prompt gets an honest one too."""
    newest = next((message for message in reversed(messages) if is_users(message)), None)
    said = users_text(newest).strip() if newest is not None else ""
    if newest is not None and SCHEDULED in str(newest.content):
        return f"It is time: {said}\n\n{I_AM} {HOW_TO}"
    for pattern, answer in ANSWERS:
        if re.search(rf"(?<!\w)(?:{pattern})(?!\w)", said[:200].lower()):
            return answer
    if said in ("?", "？"):
        return TRY
    heard = said if len(said) <= 200 else said[:199] + "…"
    return f"You wrote: “{heard}”. {I_AM} {HOW_TO}" if heard else f"{I_AM} {HOW_TO}"


def _words(text: str) -> Iterator[str]:
    return (match.group() for match in re.finditer(r"\s*\S+\s*?(?=\s|$)|\s+$", text))


def _usage(messages: list[BaseMessage], text: str) -> Any:
    read, written = sum(len(str(message.content).split()) for message in messages), len(text.split())
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


class Move(NamedTuple):
    """What the model says now, and the tools that it calls."""

    text: str
    calls: tuple[ToolCall, ...] = ()


def next_move(said: str, since: Sequence[BaseMessage], tools: frozenset[str], *, number: int) -> Move | None:
    """The next step for a request; None when it asks for no tool. since: what happened after it was said.

    number: makes the names of files differ.
    """
    results = [message for message in since if isinstance(message, ToolMessage)]
    if results:
        return _after(results, tools)
    if (match := DELEGATE.search(said.strip())) is not None:
        return _delegate(match["tasks"]) if "task" in tools else Move(NO_SUBAGENTS)
    if (match := REMIND.search(said.strip())) is not None:
        return _remind(match) if "schedule" in tools else Move(NO_SCHEDULES)
    for pattern, tool, arguments in REQUESTS:
        match = re.search(pattern, said.strip(), re.IGNORECASE | re.DOTALL)
        if match is None:
            continue
        if tool not in tools:
            return Move(NO_COMMANDS if "ls" in tools else NO_SANDBOX)
        if tool == "write_file":
            arguments = {"path": f"{OUTPUTS}/hello-{number}.txt", "content": "Hello from Antler's demo model.\n"}
        return _call(tool, {**arguments, **match.groupdict()})
    return None


def _call(tool: str, arguments: dict[str, Any]) -> Move:
    salient = arguments.get("command") or arguments.get("path") or ", ".join(arguments.get("paths", []))
    call = tool_call(name=tool, args=arguments, id=f"demo-{tool}")
    return Move(f"I use the tool `{tool}`: `{salient}`", (call,))


def _delegate(tasks: str) -> Move:
    """Each part of the request to a subagent of its own, which is a demo model too."""
    parts = [part.strip() for part in re.split(r"[;\n]|,? and ", tasks) if part.strip()][:MOST_DELEGATED]
    calls = tuple(
        tool_call(
            name="task",
            args={"description": part, "prompt": part, "subagent_type": "general-purpose"},
            id=f"demo-task-{number}",
        )
        for number, part in enumerate(parts)
    )
    return Move(f"I delegate {len(parts)} part{'s' if len(parts) > 1 else ''} of this to subagents.", calls)


def _remind(asked: re.Match[str]) -> Move:
    minutes = int(asked["count"]) * MINUTES[asked["unit"].lower()]
    arguments = {"action": "create", "text": asked["what"].strip(), "in_minutes": minutes}
    return Move("I use the tool `schedule`.", (tool_call(name="schedule", args=arguments, id="demo-schedule"),))


def _after(results: list[ToolMessage], tools: frozenset[str]) -> Move:
    """Present what was written; tell what subagents reported; else show what came out."""
    newest = results[-1]
    if newest.name == "task":
        reports = [str(result.content)[:LONGEST_SHOWN].replace("\n", "\n> ") for result in results]
        return Move("My subagents reported:\n\n" + "\n\n".join(f"> {report}" for report in reports))
    written = re.search(rf"{OUTPUTS}/hello-\d+\.txt", str(newest.content))
    if newest.name == "write_file" and newest.status != "error" and written and "present_files" in tools:
        return _call("present_files", {"paths": [written.group()]})
    text = str(newest.content)
    shown = text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "\n…"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", shown)), default=0))
    begin = "This did not work" if newest.status == "error" else "Done"
    return Move(f"{begin}. What `{newest.name}` answered:\n\n{fence}\n{shown}\n{fence}")
