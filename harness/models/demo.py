"""The `demo` model: scripted, no key, no network. For trying Antler out and for tests; never a silent fallback.

What it says is in here, what it does in the sandbox in demo_tools.py.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from harness.graph.messages import SCHEDULED, is_users, users_text
from harness.models.demo_tools import Move, next_move

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun

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
