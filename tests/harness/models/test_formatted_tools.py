"""Tools in the API's form: made once, and never those of another tool or of an earlier state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI

from harness.config import ModelSettings
from harness.models.build import build_model
from harness.models.chat_openai import CompatibleChatOpenAI, FormattedTools

if TYPE_CHECKING:
    from collections.abc import Sequence

WEB_SEARCH = {"type": "web_search_preview"}
FUNCTION = {"type": "function", "function": {"name": "given", "description": "As it is", "parameters": {}}}
QUESTION = [("system", "Be brief."), ("human", "Hello")]


def make_tool(name: str, description: str = "Does it", extras: dict[str, Any] | None = None) -> BaseTool:
    @tool(name, description=description, extras=extras)
    async def do(path: str, lines: int = 10) -> str:
        return f"{path} {lines}"

    return do


@pytest.fixture
def chat() -> CompatibleChatOpenAI:
    built = build_model(ModelSettings(name="main", model="gpt", base_url="http://127.0.0.1:9/v1"), (None, None)).chat
    assert isinstance(built, CompatibleChatOpenAI)
    return built


def payload(chat: ChatOpenAI, bound: Any) -> dict[str, Any]:
    """What is sent when the bound model is asked."""
    sent: dict[str, Any] = chat._get_request_payload(QUESTION, **bound.kwargs)
    return sent


def both(chat: CompatibleChatOpenAI, tools: Sequence[Any], **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The payload as ours binds the tools, and as ChatOpenAI does."""
    return payload(chat, chat.bind_tools(tools, **more)), payload(chat, ChatOpenAI.bind_tools(chat, tools, **more))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"tool_choice": "one"},
        {"tool_choice": "any"},
        {"parallel_tool_calls": False},
        {"strict": None},
        {"strict": True},
        {"strict": False},
        {"response_format": {"title": "Answer", "type": "object", "properties": {}}},
    ],
)
def test_the_payload_is_what_it_is_without(chat: CompatibleChatOpenAI, more: dict[str, Any]) -> None:
    tools = [make_tool("one"), WEB_SEARCH, make_tool("two", extras={"defer_loading": True}), FUNCTION]
    for _ in range(2):
        ours, theirs = both(chat, tools, **more)
        assert ours == theirs


def test_a_tool_is_formatted_once(chat: CompatibleChatOpenAI) -> None:
    one, two = make_tool("one"), make_tool("two")
    first, second = (payload(chat, chat.bind_tools(tools))["tools"] for tools in ([one, two], [two, one]))
    assert [form["function"]["name"] for form in second] == ["two", "one"]
    assert (second[1] is first[0], second[0] is first[1]) == (True, True)


def test_tools_of_one_name_keep_their_own_form(chat: CompatibleChatOpenAI) -> None:
    for tools in ([make_tool("same", "Reads")], [make_tool("same", "Writes")]):
        ours, theirs = both(chat, tools)
        assert ours == theirs


def test_a_tool_that_changed_is_formatted_anew(chat: CompatibleChatOpenAI) -> None:
    changing = make_tool("one", "Reads")
    chat.bind_tools([changing])
    changing.description = "Writes"
    changing.args_schema = make_tool("other").args_schema
    changing.extras = {"defer_loading": True}
    ours, theirs = both(chat, [changing])
    assert ours == theirs
    assert ours["tools"][0]["function"]["description"] == "Writes"
    assert ours["tools"][0]["defer_loading"] is True


def test_what_is_kept_is_bounded() -> None:
    kept, made = FormattedTools(), []

    def formatted(tool: BaseTool) -> dict[str, Any]:
        made.append(tool.name)
        return {"name": tool.name}

    one = make_tool("one")
    others = [one.model_copy(update={"name": str(number)}) for number in range(FormattedTools.MOST)]
    for each in (one, one, *others, one):
        assert kept.get(each, formatted) == {"name": each.name}
    assert made == ["one", *(other.name for other in others), "one"]
    assert len(kept._kept) <= FormattedTools.MOST
