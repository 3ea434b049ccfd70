"""The `demo` model: scripted, without key or network. For trying Antler out and for tests; never a silent fallback."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.runtime import get_runtime

from harness.graph.calls import ASK
from harness.graph.messages import HOOKED, MEANWHILE, SCHEDULED, is_users, users_text
from harness.graph.signals import scope_of
from harness.models.tour import SHOPS, Move, Turn, fenced, tour_move
from harness.models.tour_texts import abilities, texts_in
from harness.text.plain import cut
from sandbox.base import OUTPUTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun

    from harness.models.tour_texts import TourTexts

GREETING = r"hello|hi|hey|hallo|moin|hola|bonjour|你好|您好"
ABILITIES = r"who are you|what are you|what can you do|help|你是谁|你会什么|你能做什么|帮助"
THANKS = r"thanks|thank you|danke|谢谢"
ANSWERS: tuple[tuple[str, Callable[[TourTexts], str]], ...] = (
    (GREETING, lambda texts: texts.hello),
    (ABILITIES, abilities),
    (THANKS, lambda texts: texts.thanks),
    (r"markdown", lambda texts: texts.markdown),
    (r"long", lambda texts: texts.long),
)
"""Pattern -> answer; the first match is used."""

_HAN = re.compile("[\u4e00-\u9fff]")
_WORD = re.compile(r"[^\W\d_]{2}")
LONGEST_SHOWN = 3000
MOST_DELEGATED = 3
REPORT = "Its report:\n"
"""Prefix of a subagent's report in the result of its task (harness/subagents/tool.py)."""
ASIDE = r"^(?:please |bitte )?"
DELEGATE = re.compile(ASIDE + r"delegate[: ]+(?P<tasks>.+)$", re.IGNORECASE | re.DOTALL)
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
"""Pattern of a request, the tool for it, and its arguments besides those that the request names."""


class DemoModel(BaseChatModel):
    """The demo model. pause: seconds between two words. tools: names of the bound ones."""

    pause: float = 0.015
    tools: frozenset[str] = frozenset()

    @property
    def _llm_type(self) -> str:
        return "antler-demo"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Bind tools; it uses a few of them, by name."""
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
            await asyncio.sleep(self.pause * move.slowly)
        last = AIMessageChunk(content="", tool_calls=list(move.calls), usage_metadata=_usage(messages, move.text))
        yield ChatGenerationChunk(message=last)

    def _move(self, messages: list[BaseMessage]) -> Move:
        texts = texts_in(_language(messages))
        turn = _turn(messages, self.tools, texts)
        move = tour_move(turn)
        if move is not None:
            return move
        newest = max((place for place, message in enumerate(messages) if is_users(message)), default=-1)
        said = users_text(messages[newest]).strip() if newest >= 0 else ""
        latest = Turn(said, messages[newest + 1 :], self.tools, texts, "")
        return next_move(latest, number=len(messages)) or Move(answer_to(messages, texts))


def _turn(messages: Sequence[BaseMessage], tools: frozenset[str], texts: TourTexts) -> Turn:
    """The newest turn from its beginning: messages that arrived during a turn begin none."""
    begun = [
        place for place, message in enumerate(messages) if is_users(message) and MEANWHILE not in str(message.content)
    ]
    place = begun[-1] if begun else -1
    said = users_text(messages[place]).strip() if begun else ""
    before = messages[place - 1] if place > 0 else None
    if isinstance(before, ToolMessage) and place > 1:
        before = messages[place - 2]  # the question's own result
    calls = before.tool_calls if isinstance(before, AIMessage) else []
    asked = next((str(call["args"].get("question", "")) for call in calls if call["name"] == ASK), "")
    return Turn(said, messages[place + 1 :], tools, texts, asked)


def _language(messages: Sequence[BaseMessage]) -> str:
    """The language of a person's newest words; the run's if none is recognizable, as in a number."""
    for message in reversed(messages):
        said = users_text(message).strip() if is_users(message) else ""
        if said in SHOPS or _is_order(said):
            continue  # chosen, or words that the demo model knows only in English
        if _HAN.search(said):
            return "zh"
        if _WORD.search(said):
            return "en"
    try:
        return scope_of(get_runtime()).ctx.locale
    except (RuntimeError, TypeError):  # called outside a graph, as for a title
        return "en"


def _is_order(said: str) -> bool:
    """Whether it is a request as listed by the demo model, which says nothing about the person's language."""
    if said.lower() in ("markdown", "long"):
        return True
    forms = (DELEGATE, REMIND, *(re.compile(form, re.IGNORECASE | re.DOTALL) for form, _, _ in REQUESTS))
    return any(form.search(said) for form in forms)


def answer_to(messages: list[BaseMessage], texts: TourTexts) -> str:
    """The scripted answer to a person's newest message; a summary prompt gets an honest one too."""
    newest = next((message for message in reversed(messages) if is_users(message)), None)
    said = users_text(newest).strip() if newest is not None else ""
    if newest is not None and SCHEDULED in str(newest.content):
        return texts.due.format(text=said)
    if newest is not None and HOOKED in str(newest.content):
        return texts.hooked.format(text=said)
    for pattern, answer in ANSWERS:
        if re.search(rf"(?<!\w)(?:{pattern})(?!\w)", said[:200].lower()):
            return answer(texts)
    if said in ("?", "？"):
        return abilities(texts)
    heard = cut(said, 200)
    return texts.unknown.format(said=heard) if heard else texts.hello


def _words(text: str) -> Iterator[str]:
    return (match.group() for match in re.finditer(r"\s*\S+\s*?(?=\s|$)|\s+$", text))


def _usage(messages: list[BaseMessage], text: str) -> Any:
    read, written = sum(len(str(message.content).split()) for message in messages), len(text.split())
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


def next_move(turn: Turn, *, number: int) -> Move | None:
    """The next step for a request in words; None if it calls for no tool. number: makes file names differ."""
    said, tools, texts = turn.said.strip(), turn.tools, turn.texts
    if turn.results:
        return _after(turn)
    if (match := DELEGATE.search(said)) is not None:
        missing = Move(texts.switched_off.format(key="subagents.enabled"))
        return _delegate(match["tasks"], texts) if "task" in tools else missing
    if (match := REMIND.search(said)) is not None:
        missing = Move(texts.switched_off.format(key="schedules.enabled"))
        return _remind(match, texts) if "schedule" in tools else missing
    for pattern, tool, arguments in REQUESTS:
        match = re.search(pattern, said, re.IGNORECASE | re.DOTALL)
        if match is None:
            continue
        if tool not in tools:
            return Move(texts.no_commands if "ls" in tools else texts.no_sandbox)
        if tool == "write_file":
            arguments = {"path": f"{OUTPUTS}/hello-{number}.txt", "content": texts.written}
        return _call(tool, {**arguments, **match.groupdict()}, texts)
    return None


def _call(tool: str, arguments: dict[str, Any], texts: TourTexts) -> Move:
    salient = arguments.get("command") or arguments.get("path") or ", ".join(arguments.get("paths", []))
    call = tool_call(name=tool, args=arguments, id=f"demo-{tool}")
    return Move(texts.tool_about.format(tool=tool, about=salient), (call,))


def _delegate(tasks: str, texts: TourTexts) -> Move:
    """Delegate each part of the request to a separate subagent, which is a demo model too."""
    parts = [part.strip() for part in re.split(r"[;\n]|,? and ", tasks) if part.strip()][:MOST_DELEGATED]
    calls = tuple(
        tool_call(
            name="task",
            args={"description": part, "prompt": part, "subagent_type": "general-purpose"},
            id=f"demo-task-{number}",
        )
        for number, part in enumerate(parts)
    )
    told = texts.delegated if len(parts) > 1 else texts.delegated_one
    return Move(told.format(count=len(parts)), calls)


def _remind(asked: re.Match[str], texts: TourTexts) -> Move:
    minutes = int(asked["count"]) * MINUTES[asked["unit"].lower()]
    arguments = {"action": "create", "text": asked["what"].strip(), "in_minutes": minutes}
    return Move(texts.tool.format(tool="schedule"), (tool_call(name="schedule", args=arguments, id="demo-schedule"),))


def _after(turn: Turn) -> Move:
    """Present the written file, or report what subagents found, or else show the result."""
    results, texts = turn.results, turn.texts
    newest = results[-1]
    if newest.name == "task":
        whole = (str(result.content) for result in results)
        reports = [(text.partition(REPORT)[2] or text)[:LONGEST_SHOWN].replace("\n", "\n> ") for text in whole]
        return Move(f"{texts.reported}\n\n" + "\n\n".join(f"> {report}" for report in reports))
    written = re.search(rf"{OUTPUTS}/hello-\d+\.txt", str(newest.content))
    if newest.name == "write_file" and newest.status != "error" and written and "present_files" in turn.tools:
        return _call("present_files", {"paths": [written.group()]}, texts)
    if newest.name == "present_files" and newest.status != "error":
        return Move(texts.sent)
    text = str(newest.content)
    shown = text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "\n…"
    told = texts.answered_error if newest.status == "error" else texts.answered
    return Move(f"{told.format(tool=newest.name)}\n\n{fenced(shown)}")
