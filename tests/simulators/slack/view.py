"""A channel as a person or the history shows it now."""

from collections.abc import Iterable

from tests.simulators.slack.state import Channel, Json, StoredMessage


def message_json(channel: Channel, message: StoredMessage, *, metadata: bool = True) -> Json:
    """The message object as the history gives it: a thread's root counts its replies."""
    data = dict(message.data)
    if not metadata:
        data.pop("metadata", None)
    replies = channel.replies(message.ts) if data.get("thread_ts") == message.ts else []
    if replies:
        data.update(
            reply_count=len(replies),
            reply_users=sorted({str(reply.data.get("user")) for reply in replies}),
            latest_reply=replies[-1].ts,
        )
    return data


def channel_view(channel: Channel, *, history: bool, status_seconds: float, now: float) -> Json:
    """The channel with all its messages and thread statuses; `history` adds every version of each message."""
    return {
        "revision": channel.revision,
        "channel": {"id": channel.id, "kind": channel.kind, "name": channel.name, "members": sorted(channel.members)},
        "messages": [_message_view(message, history=history) for message in _sorted(channel)],
        "threads": {
            root: {
                "status": thread.status if now - thread.status_at < status_seconds else "",
                "loading_messages": thread.loading_messages,
                "title": thread.title,
                "prompts": thread.prompts,
                "statuses": thread.statuses,
            }
            for root, thread in channel.threads.items()
        },
    }


def _sorted(channel: Channel) -> list[StoredMessage]:
    return sorted(channel.messages.values(), key=lambda message: message.ts)


def _message_view(message: StoredMessage, *, history: bool) -> Json:
    stream = message.stream
    view: Json = {
        "data": message.data,
        "author_app": message.author_app,
        "edits": len(message.versions) - 1,
        "posted_at": message.versions[0]["at"],
        "changed_at": message.versions[-1]["at"],
        "deleted_at": message.deleted_at,
        "ephemeral_to": message.ephemeral_to,
        "stream": None if stream is None else {"state": stream.state, "mode": stream.mode, "appends": stream.appends},
    }
    if history:
        view["versions"] = message.versions
    return view


def shown_text(data: Json) -> str:
    """The text that a person reads: that of the blocks, or without blocks the text."""
    parts = [_block_text(block) for block in data.get("blocks") or ()]
    return "\n".join(part for part in parts if part) or str(data.get("text", ""))


def _block_text(block: Json) -> str:
    kind = block.get("type")
    if kind == "markdown":
        return str(block["text"])
    if kind in ("section", "header"):
        texts = [block["text"]] if "text" in block else block.get("fields", [])
        return "\n".join(str(text["text"]) for text in texts)
    if kind == "context":
        return " ".join(str(element["text"]) for element in block["elements"] if "text" in element)
    if kind == "rich_text":
        return "".join(_rich_text(part) for part in block["elements"])
    if kind == "plan":
        return "\n".join([str(block["title"]), *map(_task_text, block["tasks"])])
    return _task_text(block) if kind == "task_card" else ""


def _task_text(task: Json) -> str:
    return f"[{task.get('status', 'pending')}] {task['title']}"


def _rich_text(part: Json) -> str:
    if "elements" in part:
        return "".join(map(_rich_text, part["elements"]))
    marks = {"user": ("<@", "user_id"), "channel": ("<#", "channel_id"), "broadcast": ("<!", "range")}
    if part["type"] in marks:
        opening, name = marks[part["type"]]
        return f"{opening}{part[name]}>"
    return str(part.get("text") or part.get("url") or part.get("name") or "")


def count_showing(channels: Iterable[Channel], text: str) -> int:
    """Number of messages of apps that show exactly this text now, ignoring surrounding white space."""
    return sum(
        message.author_app is not None and message.deleted_at is None and shown_text(message.data).strip() == text
        for channel in channels
        for message in channel.messages.values()
    )
