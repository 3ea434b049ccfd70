"""ask_clarification: the agent asks the person and the turn ends; the next message, or an option's button, answers.

Only the lead agent has it. A model's arguments are accepted in any form (`asked`), since the call ends the turn: the
model could not react to a rejection of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from harness.graph.calls import ASK
from harness.text.plain import clean_text, cut, short_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.messages import AnyMessage
    from langchain_core.tools import BaseTool

MOST_OPTIONS = 6
LONGEST_OPTION = 200
LONGEST_TEXT = 4000
"""Characters of a question, and of the text before it."""
WAS_ASKED = "The person was asked. Their next message is the answer, or changes the subject."


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as displayed. options: answers with a button; empty for an open question."""

    text: str
    options: tuple[str, ...] = ()


def asked(args: Mapping[str, Any]) -> Asked | None:
    """The question of a call; None if it asks nothing."""
    question, context = _text(args.get("question")), _text(args.get("context"))
    text = "\n\n".join(part for part in (context, question) if part)
    given = args.get("options")
    options = [_option(each) for each in given] if isinstance(given, list) else []
    distinct = tuple(dict.fromkeys(option for option in options if option))[:MOST_OPTIONS]
    return Asked(text, distinct) if question or (text and distinct) else None


def _text(value: object) -> str:
    return cut(clean_text(value).strip(), LONGEST_TEXT) if isinstance(value, str) else ""


def _option(value: object) -> str:
    """An option on one line, also if the model gives an object or a number."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("label", "text", "value", "title") if key in value), "")
    return short_line(clean_text(str(value)), LONGEST_OPTION) if isinstance(value, str | int | float) else ""


def ask_tool() -> BaseTool:
    """The tool, whose result is not read before the person has answered."""

    @tool(ASK, return_direct=True)
    async def ask_clarification(
        question: Annotated[str, "One short question, in the person's language."],
        options: Annotated[list[str] | None, "At most 6 short answers to choose from; leave out if open."] = None,
        context: Annotated[str, "What the person has to know to answer; leave out if nothing."] = "",
    ) -> str:
        """Ask the person and end the turn: nothing else happens until they answer. Call it alone."""
        return WAS_ASKED

    ask_clarification.metadata = {"idempotent": True}
    return ask_clarification


def question_of(message: AnyMessage) -> Asked | None:
    """The question with which a message ends its turn."""
    if not isinstance(message, AIMessage) or len(message.tool_calls) != 1 or message.tool_calls[0]["name"] != ASK:
        return None
    return asked(message.tool_calls[0]["args"])
