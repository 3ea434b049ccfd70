"""Presses of a card's elements: the callback to the app, and the effect of its answer on the card."""

from typing import Any

from tests.simulators.control import ControlError
from tests.simulators.feishu import cards, content, events, ids
from tests.simulators.feishu.errors import FeishuError
from tests.simulators.feishu.state import App, Json, Message
from tests.simulators.feishu.world import Callback, World

ACTION = "card.action.trigger"


def press(world: World, app: App, spec: Json) -> Json:
    """A person acts on an element of a card: {event_id, token}. element: its text, name, element_id or position."""
    message = app.tenant.messages.get(spec["message_id"])
    if message is None or message.card is None or message.deleted_at is not None:
        raise ControlError(f"no card {spec['message_id']}")
    author = app.tenant.apps[message.card.app_id]
    found = _chosen(message, spec["element"])
    if found["disabled"]:
        raise ControlError(f"{spec['element']} is disabled")
    if found["url"] and found["value"] is None:
        raise ControlError(f"{spec['element']} only opens {found['url']}")
    person, token = world.person(app.tenant, spec["user"]), ids.numbered("c-")
    callback = world.callbacks[token] = Callback(author, message, world.clock.now())
    action: Json = {"tag": found["tag"], "value": found["value"]}
    action |= {
        name: spec[name] for name in ("option", "options", "input_value", "form_value", "checked") if name in spec
    }
    if found["name"]:
        action["name"] = found["name"]
    event = events.card_action(author, message, person, action, token)

    def answered(reply: Json | None) -> None:
        callback.answered = True
        _apply(world, author, message, reply)

    sent = events.deliver(
        world,
        author,
        ACTION,
        event,
        chat=message.chat,
        message_id=message.message_id,
        repeats=False,
        on_ack=answered,
    )
    return {"event_id": sent.event_id if sent else None, "token": token}


def _chosen(message: Message, wanted: str | int) -> Json:
    card = message.card
    shown = cards.buttons(card.data) if card else []
    if isinstance(wanted, int):
        if wanted < len(shown):
            return shown[wanted]
    else:
        for found in shown:
            if wanted in (found["text"], found["name"], found["element_id"]):
                return found
    raise ControlError(f"no element {wanted!r}, there are {[found['text'] for found in shown]}")


def _apply(world: World, app: App, message: Message, reply: Json | None) -> None:
    """Replace the pressed card by that of the answer, unless it is streaming. An answer may be {} or missing."""
    card: Any = (reply or {}).get("card")
    if not card or message.card is None:
        return
    if message.card.streaming(world.clock.now()):
        world.problems.add(app.app_id, "the answer to a press replaces a card that is streaming")
        return
    if card.get("type") != "raw" or not isinstance(card.get("data"), dict):
        world.problems.add(app.app_id, f"the answer to a press has a card of an unknown form: {card}")
        return
    try:
        new = content.inline_card(world, app, card["data"])
    except FeishuError as refused:
        world.problems.add(app.app_id, f"the answer to a press has a bad card: {refused}")
        return
    message.card.data = new.data
    message.edits += 1
    message.show(world.clock.now())
