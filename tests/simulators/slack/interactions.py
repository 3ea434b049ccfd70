"""Actions of people on an app's surfaces: press, choose, type a command, use a shortcut, send a form; response_url."""

from collections.abc import Iterator
from typing import Any

from tests.simulators.control import ControlError
from tests.simulators.slack import chat, posting
from tests.simulators.slack.blocks import check_blocks
from tests.simulators.slack.envelopes import Envelope
from tests.simulators.slack.errors import SlackError
from tests.simulators.slack.ids import numbered
from tests.simulators.slack.people import find, place, with_user
from tests.simulators.slack.state import Channel, Installation, Json, StoredMessage
from tests.simulators.slack.world import RESPONSE_URL_SECONDS, RESPONSE_URL_USES, ResponseUrl, World


def press(world: World, install: Installation, spec: Json) -> Json:
    """Press a real element of a message: `element` is its action_id, value or label; `choice` an option's value."""
    channel, message = find(world, install, spec)
    user = world.add_user(install.workspace, spec["user"])
    block, element = _element(message, spec["element"])
    action: Json = {name: element[name] for name in ("type", "action_id", "value", "text") if name in element}
    action.update(block_id=block.get("block_id", ""), action_ts=world.clock.next_ts())
    action.setdefault("action_id", numbered("a"))
    if spec.get("choice") is not None:
        action["selected_option"] = _option(element, spec["choice"])
    container = {"type": "message", "message_ts": message.ts, "channel_id": channel.id, "is_ephemeral": False}
    if message.thread_ts is not None:
        container["thread_ts"] = message.thread_ts
    payload = {
        **_common(world, install, user, "block_actions"),
        "channel": {"id": channel.id, "name": channel.name or "directmessage"},
        "message": message.data,
        "container": container,
        "response_url": _response_url(world, install, channel, user["id"], message.ts),
        "actions": [action],
        "state": {"values": {}},
    }
    return _sent(install.app.delivery.post("interactive", payload, channel=channel), payload)


def command(world: World, install: Installation, spec: Json) -> Json:
    """Type a slash command; the app must have registered it. Commands do not work in threads."""
    name, _, text = str(spec["text"]).partition(" ")
    if name not in install.app.commands or "commands" not in install.scopes:
        raise ControlError(f"the app has no command {name}; the person would read that it is not valid")
    user = world.add_user(install.workspace, spec["user"])
    channel = place(world, install, with_user(spec["channel"], user))
    payload = {
        "token": "legacy",
        "team_id": install.workspace.team_id,
        "team_domain": install.workspace.domain,
        "channel_id": channel.id,
        "channel_name": channel.name or "directmessage",
        "user_id": user["id"],
        "user_name": user["name"],
        "command": name,
        "text": text,
        "api_app_id": install.app.app_id,
        "is_enterprise_install": "false",
        "response_url": _response_url(world, install, channel, user["id"], None),
        "trigger_id": world.new_trigger(install.app.app_id, user["id"]),
    }

    def answer(ack: Json | None) -> None:
        if ack and (ack.get("text") or ack.get("blocks")):
            _respond(world, install, channel, user["id"], ack, None)

    return _sent(install.app.delivery.post("slash_commands", payload, channel=channel, on_ack=answer), payload)


def shortcut(world: World, install: Installation, spec: Json) -> Json:
    """Use a shortcut by its callback_id: a global one, or with channel and ts one on a message."""
    user = world.add_user(install.workspace, spec["user"])
    payload = _common(world, install, user, "shortcut") | {"callback_id": spec["callback_id"]}
    payload["action_ts"] = world.clock.next_ts()
    channel: Channel | None = None
    if spec.get("ts"):
        channel, message = find(world, install, spec)
        payload.update(
            type="message_action",
            message=message.data,
            message_ts=message.ts,
            channel={"id": channel.id, "name": channel.name},
            response_url=_response_url(world, install, channel, user["id"], None),
        )
    return _sent(install.app.delivery.post("interactive", payload, channel=channel), payload)


def submit_view(world: World, install: Installation, spec: Json) -> Json:
    """Send an open view with `values` (block_id -> action_id -> state), or close it (`closed`)."""
    view = world.views.get(spec["view_id"])
    if view is None:
        raise ControlError(f"no view {spec['view_id']}")
    user = install.workspace.users[view["shown_to"]]
    kind = "view_closed" if spec.get("closed") else "view_submission"
    shown = {**view, "state": {"values": spec.get("values") or {}}}
    payload = {**_common(world, install, user, kind), "view": shown, "response_urls": []}
    return _sent(install.app.delivery.post("interactive", payload), payload)


def _common(world: World, install: Installation, user: Json, kind: str) -> Json:
    team = {"id": install.workspace.team_id, "domain": install.workspace.domain}
    person = {"id": user["id"], "username": user["name"], "name": user["name"], "team_id": user["team_id"]}
    return {
        "type": kind,
        "user": person,
        "api_app_id": install.app.app_id,
        "token": "legacy",
        "team": team,
        "enterprise": None,
        "is_enterprise_install": False,
        "trigger_id": world.new_trigger(install.app.app_id, user["id"]),
    }


def _sent(envelope: Envelope, payload: Json) -> Json:
    names = ("trigger_id", "response_url")
    return {"envelope_id": envelope.envelope_id, **{name: payload[name] for name in names if name in payload}}


def elements(message: StoredMessage) -> Iterator[tuple[Json, Json]]:
    """All interactive elements of a message, each with its block."""
    for block in message.data.get("blocks") or ():
        for element in [*(block.get("elements") or ()), block.get("accessory"), block.get("element")]:
            if isinstance(element, dict) and element.get("type") not in (None, "image", "mrkdwn", "plain_text"):
                yield block, element


def _element(message: StoredMessage, wanted: str) -> tuple[Json, Json]:
    found = list(elements(message))
    for block, element in found:
        label = (element.get("text") or element.get("placeholder") or {}).get("text")
        if wanted in (element.get("action_id"), element.get("value"), label):
            return block, element
    shown = [element.get("action_id") for _, element in found]
    raise ControlError(f"no element {wanted!r} in message {message.ts}, only {shown}")


def _option(element: Json, value: str) -> Json:
    for option in element.get("options", []):
        if value in (option["value"], option["text"]["text"]):
            chosen: Json = option
            return chosen
    raise ControlError(f"no option {value!r} in {element.get('action_id')}")


def _response_url(world: World, install: Installation, channel: Channel, user: str, ts: str | None) -> str:
    return world.new_response_url(ResponseUrl(install, channel, user, world.clock.now(), ts))


def answer_response_url(world: World, key: str, body: Json) -> None:
    """Handle a POST to a response_url: five uses within half an hour. Raises SlackError."""
    url = world.response_urls.get(key)
    if url is None:
        raise SlackError("no_such_url")
    if world.clock.now() - url.made > RESPONSE_URL_SECONDS:
        raise SlackError("expired_url")
    if url.uses >= RESPONSE_URL_USES:
        raise SlackError("used_url")
    url.uses += 1
    _respond(world, url.install, url.channel, url.user, body, url.message_ts)


def _respond(
    world: World, install: Installation, channel: Channel, user: str, body: Json, message_ts: str | None
) -> None:
    original = channel.visible(message_ts) if message_ts else None
    if body.get("delete_original") and original is not None:
        posting.remove(world, channel, original)
        return
    content = _content(body)
    if body.get("replace_original") and original is not None:
        posting.change(world, channel, original, {"blocks": None, **content})
    elif body.get("response_type") == "in_channel":
        posting.post(world, install, channel, content, thread_ts=body.get("thread_ts"))
    else:
        chat.ephemeral(world, install, channel.id, user, content)


def _content(body: Json) -> Json:
    content: dict[str, Any] = {}
    if body.get("text"):
        content["text"] = str(body["text"])
    if body.get("blocks"):
        content["blocks"] = check_blocks(body["blocks"])
    if not content:
        raise SlackError("no_text")
    return content
