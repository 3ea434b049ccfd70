"""What is believed of what servers say: names, descriptions, schemas, results, settings."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp import types
from pydantic import SecretStr, ValidationError

from harness.graph.calls import OWN_TOOLS
from harness.graph.state import MOST_PROMOTED, reduce_promoted
from harness.mcp.config import McpServerSettings, OAuthSettings, ToolSearchSettings
from harness.mcp.definitions import Offer, RemoteTool, checked, fitted, given_back
from harness.mcp.errors import CallFailed
from harness.mcp.offering import servers_section, shown_names
from harness.mcp.tools import mcp_tools, result_of
from harness.text.frames import described, harmless
from tests.tables import table

VALID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SETTINGS = McpServerSettings(transport="stdio", command="x")


def remote(name: str, server: str = "s") -> RemoteTool:
    return RemoteTool(
        server=server, name=name, description="", schema="{}", read_only=False, destructive=True, idempotent=False
    )


def test_a_hint_that_a_server_changes_makes_it_another_tool() -> None:
    def digest(**hints: bool) -> str:
        (only,) = checked("s", SETTINGS, [Offer(name="t", description="", schema={}, **hints)]).tools
        return only.digest

    assert len({digest(), digest(read_only=True), digest(idempotent=True)}) == 3


@given(st.lists(st.tuples(st.text(min_size=1, max_size=130), st.sampled_from("abc")), max_size=20, unique=True))
def test_every_tool_has_a_valid_name_of_its_own(named: list[tuple[str, str]]) -> None:
    tools = [remote(name, server) for name, server in named]
    shown = shown_names(tools, ["mine"])
    assert sorted(shown.values(), key=str) == sorted(tools, key=str)
    assert all(VALID.fullmatch(name) for name in shown)
    assert not set(shown) & (OWN_TOOLS | {"mine"})
    assert shown_names(list(reversed(tools)), ["mine"]) == shown


def test_only_what_clashes_gets_its_servers_name() -> None:
    tools = [remote("find", "a"), remote("find", "b"), remote("bash", "a"), remote("mine", "a"), remote("other", "b")]
    assert list(shown_names(tools, ["mine"])) == ["a_bash", "a_find", "a_mine", "b_find", "other"]


@table(
    ("name", "schema", "why"),
    [
        ("", {}, "its name does not have 1 to"),
        ("n" * 129, {}, "its name does not have 1 to"),
        ("a\u202eb", {}, "its name has invisible or invalid"),
        ("a\nb", {}, "its name has invisible or invalid"),
        ("t", None, "have no schema"),
        ("t", {"type": "string"}, "are not an object"),
        ("t", {"properties": []}, "properties is not an object"),
        ("t", {"properties": {"a": "text"}}, "is broken"),
        ("t", {"properties": {"a\u200b": {}}}, "has a name that cannot be used"),
        ("t", {"description": "d" * 40_000}, "at most 32000"),
        ("t", {"properties": {str(n): {} for n in range(201)}}, "more than 200 arguments"),
        ("t", {"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "refers to another document"),
        ("t", {"properties": {"a": {"description": 5}}}, "description is not a string"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(name: str, schema: Any, why: str) -> None:
    found = checked("s", SETTINGS, [Offer(name=name, description="", schema=schema)])
    assert found.tools == ()
    assert why in found.refused[0]
    assert found.refused[0].isprintable()


def test_an_ordinary_schema_stays_as_it_is_and_a_second_tool_of_a_name_is_refused() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "enum": ["x", "y"], "description": "One of two"},
            "b": {"$ref": "#/$defs/B"},
        },
        "$defs": {"B": {"type": "integer", "minimum": 0}},
        "required": ["a"],
        "additionalProperties": False,
    }
    offer = Offer(name="t", description="Does it.", schema=schema)
    found = checked("s", SETTINGS, [offer, offer])
    assert json.loads(found.tools[0].schema) == schema
    assert found.refused == ("t: the server lists it twice",)
    assert (
        found.tools[0].digest
        != checked("s", SETTINGS, [Offer(name="t", description="!", schema=schema)]).tools[0].digest
    )


def test_arguments_whose_names_a_provider_would_refuse_get_others() -> None:
    schema = {
        "type": "object",
        "properties": {
            "$filter": {"type": "string", "description": "OData"},
            "filter": {"type": "string"},
            "a b": {},
            "a/b": {"type": "object", "properties": {"x y": {}}},
            "名": {"type": "integer"},
        },
        "required": ["$filter", "filter"],
    }
    (tool,) = checked("s", SETTINGS, [Offer(name="t", description="", schema=schema)]).tools
    told = json.loads(tool.schema)
    assert set(told["properties"]) == {"filter_2", "filter", "a_b", "a_b_2", "argument"}
    assert told["required"] == ["filter_2", "filter"]
    assert told["properties"]["filter_2"]["description"] == "$filter: OData"
    assert told["properties"]["argument"]["description"] == "名"
    assert told["properties"]["a_b_2"]["properties"] == {"x y": {}}
    called = given_back({"filter_2": "x", "filter": "y", "argument": 1, "more": 2}, tool.renamed)
    assert called == {"$filter": "x", "filter": "y", "名": 1, "more": 2}


async def test_the_server_is_called_by_its_own_names() -> None:
    class Servers:
        async def call(self, tool: RemoteTool, arguments: dict[str, Any]) -> types.CallToolResult:
            raise CallFailed("it failed", happened=True, said=json.dumps(arguments))

    offer = Offer(name="t", description="", schema={"properties": {"$filter": {"type": "string"}}})
    (remote_tool,) = checked("s", SETTINGS, [offer]).tools
    (made,) = mcp_tools(Servers(), {"t": remote_tool}, sees_images=False)  # type: ignore[arg-type]
    told = await made.ainvoke({"type": "tool_call", "name": "t", "args": {"filter": "x"}, "id": "c1"})
    assert '{"$filter": "x"}' in told.content


@pytest.mark.parametrize(
    "more",
    [
        {"dependentRequired": {"$filter": ["b"]}},
        {"if": {"required": ["$filter"]}, "then": {"required": ["b"]}},
        {"$defs": {"A": {"$ref": "#/properties/b"}}},
    ],
)
def test_where_others_speak_of_such_an_argument_the_tool_is_left_out_and_named(more: dict[str, Any]) -> None:
    schema = {"properties": {"$filter": {}, "b": {}}} | more
    found = checked("s", SETTINGS, [Offer(name="t", description="", schema=schema)])
    assert found.tools == ()
    assert found.refused[0].startswith("t: the argument '$filter' has a name that some model providers reject")


@table(
    ("more", "named"),
    [
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a"}),
        ({"oneOf": [{"properties": {"b": {}}}, {"$ref": "#/$defs/C"}]}, {"a", "b", "c"}),
        ({"allOf": [{"anyOf": [{"properties": {"$d": {}}}, True]}]}, {"a", "d"}),
        ({"$ref": "#/$defs/C", "not": {"required": ["a"]}, "enum": [{}]}, {"a", "c"}),
        ({"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/R"}], "oneOf": 5}, {"a"}),
    ],
)
def test_alternatives_at_the_top_are_joined(more: dict[str, Any], named: set[str]) -> None:
    """OpenAI and Anthropic reject them, with the request of every run."""
    given = {"C": {"properties": {"c": {}}}, "R": {"anyOf": [{"$ref": "#/$defs/R"}]}}
    schema = {"properties": {"a": {"type": "array"}}, "required": ["a"], "$defs": given} | more
    (tool,) = checked("s", SETTINGS, [Offer(name="t", description="", schema=schema)]).tools
    told = json.loads(tool.schema)
    assert set(told["properties"]) == named
    assert set(told) == {"type", "properties", "required", "$defs"}
    assert told["properties"]["a"] == {"type": "array", "items": {}}


@given(st.lists(st.text("ab$ /.名", min_size=1, max_size=66), max_size=8, unique=True))
def test_every_argument_has_a_name_that_all_take_and_finds_back(names: list[str]) -> None:
    schema, renamed = fitted({"type": "object", "properties": {name: {"title": name} for name in names}})
    assert len(schema["properties"]) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in schema["properties"])
    back = given_back({name: value["title"] for name, value in schema["properties"].items()}, renamed)
    assert back == {name: name for name in names}


@given(st.text(max_size=300), st.integers(1, 50))
def test_descriptions_are_harmless_and_short(text: str, limit: int) -> None:
    told = described(text, limit)
    assert len(told) <= limit
    assert "<antler-" not in harmless("<antler-" + text)
    assert "<|" not in harmless(text + "<|x|>")
    assert not set(told) & {"\x1b", "\u200b", "\u202e", "\U000e0041", "\0"}


def test_results_of_every_kind() -> None:
    answer = types.CallToolResult(content=[], structuredContent={"a": 1})
    assert result_of(answer).text == '{"a": 1}'
    broken = types.ImageContent(type="image", data="not base64!", mimeType="image/png")
    assert result_of(types.CallToolResult(content=[broken])).text == "[a file (image/png) arrived damaged]"
    image = types.ImageContent(type="image", data="aGk=", mimeType="image/png\nX: y")
    found = result_of(types.CallToolResult(content=[image] * 10, isError=True))
    assert (len(found.attachments), found.failed) == (8, True)
    assert found.attachments[0].mime_type == "image/png x: y"
    long = types.TextContent(type="text", text="x" * 2_000_100)
    assert result_of(types.CallToolResult(content=[long])).text.endswith(
        "[... the last 100 characters were not kept ...]"
    )


def test_the_prompt_names_tools_and_nothing_else_of_them() -> None:
    shown = shown_names([remote("b"), remote("a", "z")], [])
    section = servers_section(shown, deferred=True)
    assert "- s: b\n- z: a\n" in section
    assert servers_section({}, deferred=True) == ""
    assert "select:" not in servers_section(shown, deferred=False)


@given(*[st.lists(st.sampled_from("abcdefgh"), max_size=12)] * 3)
def test_promotions_are_joined_associatively(state: list[str], xs: list[str], ys: list[str]) -> None:
    start = reduce_promoted([], state)
    one_by_one = reduce_promoted(reduce_promoted(start, xs), ys)
    assert one_by_one == reduce_promoted(start, reduce_promoted(xs, ys)) == reduce_promoted(start, [*xs, *ys])
    assert len(one_by_one) == len(set(one_by_one))


def test_promotions_are_bounded_and_the_newest_stay() -> None:
    names = [str(number) for number in range(MOST_PROMOTED + 5)]
    assert reduce_promoted(names, ["new"]) == [*names[6:], "new"]


def test_a_server_says_what_it_is() -> None:
    assert McpServerSettings.model_validate({"command": "npx"}).transport == "stdio"
    assert McpServerSettings.model_validate({"url": "https://host/mcp"}).transport == "http"


@table(
    ("values", "why"),
    [
        ({}, "needs a command"),
        ({"transport": "sse"}, "needs a url"),
        ({"url": "ftp://host"}, "should be http"),
        ({"command": "x", "headers": {"A": "b"}}, "does not use"),
        ({"url": "https://h/mcp", "env": {"A": "b"}}, "does not use"),
        ({"command": "x", "cwd": "here"}, "absolute path"),
        ({"command": "x", "timeout": 0}, "greater than 0"),
        ({"command": "x", "tool": {}}, "Extra inputs"),
    ],
)
def test_settings_that_do_not_fit_are_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        McpServerSettings.model_validate(values)


@pytest.mark.parametrize("missing", ["client_secret", "refresh_token"])
def test_a_grant_needs_its_secret(missing: str) -> None:
    grant = "refresh_token" if missing == "refresh_token" else "client_credentials"
    with pytest.raises(ValidationError, match=f"needs a {missing}"):
        OAuthSettings.model_validate({"grant": grant, "token_url": "https://h/token", "client_id": "c"})


def test_what_may_be_secret_is_held_as_one() -> None:
    env = {"TOKEN": "plain", "REGION": "production", "LEVEL": "3", "DIR": "/srv/data", "X": "a1b2c3d4e5"}
    settings = McpServerSettings.model_validate({"command": "x", "env": env})
    assert {name for name, value in settings.env.items() if isinstance(value, SecretStr)} == {"TOKEN", "X"}
    for url, secret in {
        "https://h/mcp": False,
        "https://h/mcp?key=1": True,
        "https://u:p@h/": True,
        "https://h/s/Xy9": True,
    }.items():
        assert isinstance(McpServerSettings.model_validate({"url": url}).url, SecretStr) is secret


def test_when_tools_are_deferred() -> None:
    auto = ToolSearchSettings(threshold=3)
    assert [auto.defers(count) for count in (0, 2, 3)] == [False, False, True]
    assert ToolSearchSettings(enabled="on").defers(1)
    assert not ToolSearchSettings(enabled="on").defers(0)
    assert not ToolSearchSettings(enabled="off").defers(1000)


def nested(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


LEVELS = {f"a{n}": nested(**{f"p{m}": {"$ref": f"#/$defs/a{n - 1}"} for m in range(8)}) for n in range(1, 7)}
CHAIN = {f"a{n}": nested(x={"$ref": f"#/$defs/a{n + 1}"}) for n in range(150)}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({**nested(x={"$ref": "#/$defs/a6"}), "$defs": {"a0": {}, **LEVELS}}, "too large"),
        ({**nested(x={"$ref": "#/$defs/a0"}), "$defs": {**CHAIN, "a150": {}}}, "too large"),
        (nested(x={"$ref": "#/$defs/nothing"}), "refers to something that it does not contain"),
        (nested(**{"$ref": {"type": "string"}}), "an invalid reference"),
        (nested(**{"$ref": True}), "an invalid reference"),
    ],
)
def test_references_that_would_break_every_request_are_refused(schema: dict[str, Any], told: str) -> None:
    found = checked("s", SETTINGS, [Offer(name="t", description="", schema=schema)])
    assert not found.tools
    assert told in found.refused[0]


@pytest.mark.parametrize(
    "schema",
    [
        {**nested(x={"$ref": "#/$defs/a"}), "$defs": {"a": nested(y={"$ref": "#/$defs/a"})}},
        nested(x={"$ref": "#/properties/y"}, y={"type": "string"}),
        nested(x={"$ref": "#"}),
    ],
)
def test_references_that_can_be_followed_are_taken(schema: dict[str, Any]) -> None:
    (tool,) = checked("s", SETTINGS, [Offer(name="t", description="", schema=schema)]).tools
    (shown,) = mcp_tools(NoServers(), {"t": tool}, sees_images=False)
    assert convert_to_openai_tool(shown)["function"]["parameters"]["properties"]


class NoServers:
    revision = 0
    tools: tuple[RemoteTool, ...] = ()

    async def call(self, tool: RemoteTool, arguments: dict[str, Any]) -> types.CallToolResult:
        raise AssertionError

    async def settled(self) -> None:
        raise AssertionError


def test_a_text_of_blanks_is_looked_at_once() -> None:
    began = time.process_time()
    harmless("<" + " " * 200_000 + "x")
    assert time.process_time() - began < 5  # it took many minutes
