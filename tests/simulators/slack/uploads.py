"""files.*: the three steps of an upload and files.info. server.py serves the bytes."""

from typing import Any

from tests.simulators.slack.calls import Call
from tests.simulators.slack.errors import SlackError, invalid_arguments
from tests.simulators.slack.files import StoredFile
from tests.simulators.slack.posting import post, remove, thread_root, writable
from tests.simulators.slack.state import Channel, Installation, Json
from tests.simulators.slack.world import World

MAX_UPLOAD = 1024**3


def get_upload_url(world: World, install: Installation, call: Call) -> Any:
    """files.getUploadURLExternal: announces a file and returns the address for its bytes."""
    length = call.integer("length", 0)
    if length <= 0:
        raise SlackError("missing_argument")
    if length > MAX_UPLOAD:
        raise SlackError("file_upload_size_restricted")
    stored = world.files.reserve(install.workspace.team_id, install.bot_user_id, call.required("filename"), length)
    return {"upload_url": f"{world.origin}/upload/v1/{stored.id}", "file_id": stored.id}


def complete_upload(world: World, install: Installation, call: Call) -> Any:
    """files.completeUploadExternal: shares the uploaded files as one message; the answer does not name it."""
    items = call.params.get("files")
    if not isinstance(items, list) or not items:
        raise invalid_arguments("missing required field: files")
    files = [_uploaded(world, install, item) for item in items]
    targets = [name for name in (call.text("channels") or call.text("channel_id")).split(",") if name]
    channels = [_target(world, install, name) for name in targets]
    if call.given("thread_ts") and len(channels) != 1:
        raise invalid_arguments("thread_ts needs exactly one channel")
    thread = thread_root(channels[0], call.text("thread_ts")) if call.given("thread_ts") else None
    for stored, item in zip(files, items, strict=True):
        stored.completed, stored.title = True, str(item.get("title") or stored.name)
    for channel in channels:
        _share(world, install, channel, files, call.text("initial_comment"), thread)
    return {"files": [{"id": stored.id, "title": stored.title} for stored in files]}


def _uploaded(world: World, install: Installation, item: Any) -> StoredFile:
    file_id = str(item.get("id", "")) if isinstance(item, dict) else ""
    stored = world.files.get(file_id, install.workspace.team_id)
    if stored is None or not stored.uploaded or stored.completed or stored.user != install.bot_user_id:
        raise SlackError("file_not_found")
    return stored


def _target(world: World, install: Installation, name: str) -> Channel:
    """The place to share: the id of a channel or DM. Names are refused, and so are people's ids in channel_id."""
    if not name.startswith(("C", "D", "G")):
        raise SlackError("invalid_channel")
    return writable(world, install, name)


def _share(
    world: World, install: Installation, channel: Channel, files: list[StoredFile], comment: str, thread: str | None
) -> None:
    content: Json = {"text": comment, "files": [stored.in_message(world.origin) for stored in files], "upload": True}
    message = post(world, install, channel, content, thread_ts=thread)
    for stored in files:
        stored.shares.setdefault(channel.id, []).append(message.ts)


def info(world: World, install: Installation, call: Call) -> Any:
    """files.info: the whole file object, with where it is shared."""
    stored = world.files.get(call.required("file"), install.workspace.team_id)
    if stored is None or not stored.completed:
        raise SlackError("file_not_found")
    shares: dict[str, Json] = {}
    for channel_id, timestamps in stored.shares.items():
        kind = install.workspace.channels[channel_id].kind
        side = shares.setdefault("public" if kind == "channel" else "private", {})
        side[channel_id] = [{"ts": ts} for ts in timestamps]
    return {"file": {**stored.to_json(world.origin), "shares": shares}, "comments": []}


def delete(world: World, install: Installation, call: Call) -> Any:
    """files.delete: one of the app's own files; it disappears wherever it was shared."""
    stored = world.files.get(call.required("file"), install.workspace.team_id)
    if stored is None or not stored.completed:
        raise SlackError("file_not_found")
    if stored.user != install.bot_user_id:
        raise SlackError("cant_delete_file")
    for channel_id, timestamps in stored.shares.items():
        channel = install.workspace.channels[channel_id]
        for ts in timestamps:
            if (message := channel.visible(ts)) is not None:
                remove(world, channel, message)
    del world.files.files[stored.id]
    return {}


def old_upload(world: World, install: Installation, call: Call) -> Any:
    """files.upload: no longer available."""
    raise SlackError("method_deprecated")


METHODS = {
    "files.completeUploadExternal": complete_upload,
    "files.delete": delete,
    "files.getUploadURLExternal": get_upload_url,
    "files.info": info,
    "files.upload": old_upload,
}
