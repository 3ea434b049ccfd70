"""cardkit/v1: card entities, their streaming text, settings and element operations."""

import copy
import json
from collections.abc import Callable
from typing import Any

from tests.simulators.feishu import cards, ids
from tests.simulators.feishu.calls import Call
from tests.simulators.feishu.cards import Card
from tests.simulators.feishu.content import image_check
from tests.simulators.feishu.errors import FeishuError, missing_field, request_limit
from tests.simulators.feishu.limits import CARD_UUID_CHARACTERS, ELEMENT_CHARACTERS
from tests.simulators.feishu.state import App, Json
from tests.simulators.feishu.world import World

CARD_SECONDS = 14 * 24 * 3600.0
LAST_SEQUENCE = 2_147_483_647
TEXT_TAGS = ("markdown", "plain_text")
MALFORMED = FeishuError(200220, "Failed to generate card content")

Change = Callable[[Json], None]


def create(world: World, app: App, call: Call) -> Json:
    """POST cardkit/v1/cards"""
    if call.required("type") != "card_json":
        raise FeishuError(10002, "Your request contains an invalid request parameter: type")
    data = cards.parse_card(call.required("data"), MALFORMED)
    cards.check_entity(data, image_check(app))
    card = Card(app.app_id, data, world.clock.now(), ids.card_number(), streaming_since=world.clock.now())
    app.tenant.cards[str(card.card_id)] = card
    return {"card_id": card.card_id}


def find(world: World, app: App, card_id: str) -> Card:
    """A card entity of this app; raises FeishuError."""
    card = app.tenant.cards.get(card_id)
    if card is None:
        raise FeishuError(200740, "The card entity does not exist")
    if card.app_id != app.app_id:
        raise FeishuError(300311, "The current application does not have permission to update/use this card")
    if world.clock.now() - card.made > CARD_SECONDS:
        raise FeishuError(200750, "The card entity has expired")
    return card


def stream_content(world: World, app: App, call: Call) -> Json:
    """PUT cardkit/v1/cards/:card_id/elements/:element_id/content: the full text, while the card streams."""
    text = call.required("content")
    if len(text) > ELEMENT_CHARACTERS:
        raise FeishuError(10002, "Your request contains an invalid request parameter: content")

    def change(data: Json) -> None:
        element = _element(data, call.path["element_id"])
        if element["tag"] not in TEXT_TAGS:
            raise FeishuError(300310, "Only update text")
        element["content"] = text

    return _operate(world, app, call, change, streaming=True)


def update_settings(world: World, app: App, call: Call) -> Json:
    """PATCH cardkit/v1/cards/:card_id/settings"""
    settings = _json_object(call.required("settings"))
    return _operate(world, app, call, lambda data: _apply_settings(data, settings))


def replace(world: World, app: App, call: Call) -> Json:
    """PUT cardkit/v1/cards/:card_id: replaces the whole card."""
    card = call.body.get("card")
    if not isinstance(card, dict) or card.get("type") != "card_json" or not isinstance(card.get("data"), str):
        raise missing_field("card")
    new = cards.parse_card(card["data"], MALFORMED)

    def change(data: Json) -> None:
        data.clear()
        data.update(new)

    return _operate(world, app, call, change)


def batch_update(world: World, app: App, call: Call) -> Json:
    """POST cardkit/v1/cards/:card_id/batch_update: several changes, all or none."""
    actions = _json_list(call.required("actions"))

    def change(data: Json) -> None:
        for action in actions:
            perform = ACTIONS.get(action.get("action", ""))
            if perform is None:
                raise FeishuError(10002, f"Your request contains an invalid request parameter: {action}")
            perform(data, action.get("params") or {})

    return _operate(world, app, call, change)


def add_elements(world: World, app: App, call: Call) -> Json:
    """POST cardkit/v1/cards/:card_id/elements"""
    params = {
        "type": call.required("type"),
        "target_element_id": call.text("target_element_id"),
        "elements": _json_list(call.required("elements")),
    }
    return _operate(world, app, call, lambda data: _add(data, params))


def replace_element(world: World, app: App, call: Call) -> Json:
    """PUT cardkit/v1/cards/:card_id/elements/:element_id"""
    params = {"element_id": call.path["element_id"], "element": _json_object(call.required("element"))}
    return _operate(world, app, call, lambda data: _replace(data, params))


def patch_element(world: World, app: App, call: Call) -> Json:
    """PATCH cardkit/v1/cards/:card_id/elements/:element_id"""
    params = {"element_id": call.path["element_id"], "partial_element": _json_object(call.required("partial_element"))}
    return _operate(world, app, call, lambda data: _merge(data, params))


def delete_element(world: World, app: App, call: Call) -> Json:
    """DELETE cardkit/v1/cards/:card_id/elements/:element_id"""
    params = {"element_ids": [call.path["element_id"]]}
    return _operate(world, app, call, lambda data: _delete(data, params))


def _operate(world: World, app: App, call: Call, change: Change, *, streaming: bool = False) -> Json:
    """Run a numbered operation on a card; a refused one leaves no trace."""
    card = find(world, app, call.path["card_id"])
    now = world.clock.now()
    if wait := app.meter.excess("card", str(card.card_id), app.meter.rates.card_per_second, 1.0, now):
        raise request_limit(max(1, round(wait)))
    sequence, uuid = call.number("sequence"), call.text("uuid")
    if sequence is None:
        raise missing_field("sequence")
    if len(uuid) > CARD_UUID_CHARACTERS:
        raise missing_field("uuid")
    if uuid in card.uuids:
        raise FeishuError(200770, "UUID conflict")
    if not card.sequence < sequence <= LAST_SEQUENCE:
        raise FeishuError(300317, "sequence number compare failed")
    if streaming:
        _check_streaming(card, now)
    data = copy.deepcopy(card.data)
    change(data)
    cards.check_entity(data, image_check(app))
    _keep(card, data, sequence, uuid, now)
    if card.message is not None:
        card.message.show(now)
    return {}


def _check_streaming(card: Card, now: float) -> None:
    if card.wants_streaming and not card.streaming(now) and not card.timed_out:
        card.timed_out = True
        raise FeishuError(200850, "Card streaming timeout")
    if not card.streaming(now):
        raise FeishuError(300309, "streaming mode is closed")


def _keep(card: Card, data: Json, sequence: int, uuid: str, now: float) -> None:
    """Store the card; the ten minutes count from the last operation that switched streaming on."""
    switched_on = bool((data.get("config") or {}).pop("_switched_on", False))
    was_on = card.wants_streaming
    card.data, card.sequence = data, sequence
    if card.wants_streaming and (switched_on or not was_on):
        card.streaming_since, card.timed_out = now, False
    if uuid:
        card.uuids.add(uuid)


def _apply_settings(data: Json, settings: Json) -> None:
    config = settings.get("config") or {}
    if config.get("update_multi") is False:
        raise FeishuError(300302, "update_multi property is false")
    merged = _merged(data.get("config") or {}, config)
    if config.get("streaming_mode") is True:
        merged["_switched_on"] = True
    data["config"] = merged
    if "card_link" in settings:
        data["card_link"] = settings["card_link"]


def _merged(old: Json, new: Json) -> Json:
    both = {name: _merged(old[name], new[name]) for name in new if isinstance(old.get(name), dict) and new[name]}
    return {**old, **new, **both}


def _element(data: Json, element_id: str) -> Json:
    found = cards.find(data, element_id)
    if found is None:
        raise FeishuError(300313, f"Failed to update element properties, element {element_id} not found")
    siblings, position = found
    return siblings[position]


def _add(data: Json, params: Json) -> None:
    kind, target, new = params.get("type"), params.get("target_element_id"), params.get("elements") or []
    if not target:
        cards.body(data).extend(new)
        return
    found = cards.find(data, str(target))
    if found is None or kind not in ("append", "insert_before", "insert_after"):
        raise FeishuError(300315, f"Failed to add element, target {target}")
    siblings, position = found
    if kind == "append":
        siblings[position].setdefault("elements", []).extend(new)
    else:
        at = position + (kind == "insert_after")
        siblings[at:at] = new


def _replace(data: Json, params: Json) -> None:
    found = cards.find(data, str(params.get("element_id")))
    if found is None or not isinstance(params.get("element"), dict):
        raise FeishuError(300121, "Failed to replace element")
    siblings, position = found
    siblings[position] = {"element_id": params["element_id"], **params["element"]}


def _merge(data: Json, params: Json) -> None:
    element, partial = _element(data, str(params.get("element_id"))), params.get("partial_element") or {}
    if partial.get("tag", element["tag"]) != element["tag"]:
        raise FeishuError(300312, "Unable to update element tag")
    element.update(partial)


def _delete(data: Json, params: Json) -> None:
    for element_id in params.get("element_ids") or ():
        found = cards.find(data, str(element_id))
        if found is None:
            raise FeishuError(300314, f"Failed to delete element {element_id}")
        siblings, position = found
        del siblings[position]


def _setting(data: Json, params: Json) -> None:
    _apply_settings(data, params.get("settings") or {})


ACTIONS: dict[str, Callable[[Json, Json], None]] = {
    "partial_update_setting": _setting,
    "add_elements": _add,
    "delete_elements": _delete,
    "partial_update_element": _merge,
    "update_element": _replace,
}


def _json_object(text: str) -> Json:
    return cards.parse_card(text, FeishuError(10002, "Your request contains an invalid request parameter"))


def _json_list(text: str) -> list[Json]:
    refusal = FeishuError(10002, "Your request contains an invalid request parameter")
    try:
        value: Any = json.loads(text)
    except ValueError:
        raise refusal from None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise refusal
    return value
