"""The checks of a strict provider: requests that OpenAI, Moonshot or Anthropic answer with 400, in one place."""

from __future__ import annotations

import json
import re
from typing import Any

_TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_SPEAKER_NAME = re.compile(r"^[^\s<|\\/>]{1,64}$")
_ONLY_WITH_TOOLS = ("tool_choice", "parallel_tool_calls")
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


def problem(body: Any, raw: bytes) -> str | None:
    """The first reason to refuse the request, None if it is well formed. raw: the same body as received."""
    if not isinstance(body, dict):
        return "the body is not an object"
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "model is missing"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "messages is missing or empty"
    found = _order(messages) or _tools(body)
    if found is None:
        found = next((f"messages[{i}]: {text}" for i, m in enumerate(messages) if (text := _message(m))), None)
    return found or _pairing(messages) or _surrogates(body, raw)


def _order(messages: list[Any]) -> str | None:
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            return f"messages[{index}]: unknown role {role!r}"
        if role in ("system", "developer") and index > 0:
            return f"messages[{index}]: a system message must be the first and only one"
    return None


def _message(message: dict[str, Any]) -> str | None:
    content, role = message.get("content"), message["role"]
    if "name" in message and not _SPEAKER_NAME.match(str(message["name"])):
        return f"the name {message['name']!r} is not valid"
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        return "a tool message needs a tool_call_id"
    if "tool_calls" in message and (role != "assistant" or not _filled_list(message["tool_calls"])):
        return "tool_calls must be a list of one or more, of an assistant message"
    if _says_without_content(message):
        return None if not content else _parts(content)
    return f"empty content in a {role} message" if _empty(content) else _parts(content)


def _says_without_content(message: dict[str, Any]) -> bool:
    return message["role"] == "assistant" and bool(message.get("tool_calls") or message.get("refusal"))


def _empty(content: Any) -> bool:
    return not content.strip() if isinstance(content, str) else not _filled_list(content)


def _filled_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0


def _parts(content: Any) -> str | None:
    """The problem of content in parts: each must be an object with a type, and no text empty, even next to an image."""
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            return "a part of the content has no type"
        if part["type"] == "text" and not str(part.get("text") or "").strip():
            return "empty text in a part of the content"
    return None


def _pairing(messages: list[dict[str, Any]]) -> str | None:
    """Check that every tool call has its result right after its message, every result its call, and ids are unique."""
    open_ids: set[str] = set()
    seen: set[str] = set()
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                return f"messages[{index}]: tool result {message['tool_call_id']!r} has no preceding tool call"
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            return f"messages[{index}]: tool calls without a result: {', '.join(sorted(open_ids))}"
        for call in message.get("tool_calls") or ():
            found = _call(call, seen)
            if found:
                return f"messages[{index}]: {found}"
            seen.add(call["id"])
            open_ids.add(call["id"])
    return f"tool calls without a result: {', '.join(sorted(open_ids))}" if open_ids else None


def _call(call: dict[str, Any], seen: set[str]) -> str | None:
    if not call.get("id"):
        return "a tool call without an id"
    if call["id"] in seen:
        return f"tool call id {call['id']!r} is not unique"
    function = call.get("function") or {}
    if not _TOOL_NAME.match(str(function.get("name", ""))):
        return f"tool call name {function.get('name')!r} is not valid"
    try:
        arguments = json.loads(function.get("arguments", ""))
    except ValueError:
        return f"the arguments of {call['id']!r} are not JSON"
    return None if isinstance(arguments, dict) else f"the arguments of {call['id']!r} are not an object"


def _tools(body: dict[str, Any]) -> str | None:
    tools = body.get("tools")
    useless = next((name for name in _ONLY_WITH_TOOLS if body.get(name) is not None and not tools), None)
    if useless is not None:
        return f"{useless} without tools"
    names = [str(tool.get("function", {}).get("name", "")) for tool in tools or ()]
    if tools is not None and not names:
        return "tools must not be an empty list"
    bad = next((name for name in names if not _TOOL_NAME.match(name)), None)
    if bad is not None:
        return f"tool name {bad!r} is not valid"
    return "tool names are not unique" if len(set(names)) < len(names) else None


def _surrogates(body: dict[str, Any], raw: bytes) -> str | None:
    """Check for lone surrogates, which JSON allows as escapes but providers refuse."""
    if b"\\ud" not in raw.lower():
        return None
    try:
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return "the request holds a lone surrogate"
    return None
