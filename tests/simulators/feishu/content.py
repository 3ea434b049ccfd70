"""Checks the content of a message that an app sends or edits, and turns it into what the platform stores."""

import json
import re
from typing import Any

from tests.simulators.feishu import cards, ids
from tests.simulators.feishu.cards import Card
from tests.simulators.feishu.errors import FeishuError, card_failed, invalid_param
from tests.simulators.feishu.limits import CARD_BYTES, TEXT_BYTES
from tests.simulators.feishu.state import App, Json, Message, StoredFile
from tests.simulators.feishu.world import World

AT = re.compile(r'<at user_id="([^"]*)">(.*?)</at>')
# The fields of a message that name its resources; they also tell which of an app's stores has them.
KEYS = {"image": ("image_key",), "file": ("file_key",), "audio": ("file_key",), "media": ("file_key", "image_key")}
FILE_KINDS = {"audio": ("opus",), "media": ("mp4",)}
TYPES = ("text", "post", "image", "file", "audio", "media", "interactive", "sticker", "share_chat", "share_user")
POST_TAGS = ("text", "a", "at", "img", "media", "emotion", "hr", "code_block", "md")


def check(world: World, app: App, message: Message, raw: str) -> None:
    """Fill a message from its content before it is stored; raises FeishuError if the platform would refuse it."""
    if message.msg_type not in TYPES:
        raise invalid_param(f"invalid msg_type {message.msg_type}")
    longest = TEXT_BYTES if message.msg_type == "text" else CARD_BYTES
    if len(raw.encode("utf-8", "surrogatepass")) > longest:
        raise FeishuError(230025, "The length of the message content reaches its limit.")
    content = _object(raw, message.msg_type)
    if message.msg_type == "text":
        _text(app, message, content)
    elif message.msg_type == "post":
        _post(app, message, content)
    elif message.msg_type == "interactive":
        _interactive(world, app, message, content)
    else:
        _keys(app, message, content)


def _object(raw: str, msg_type: str) -> Json:
    try:
        content = json.loads(raw)
    except ValueError:
        raise invalid_param("content is not a string in json format") from None
    if not isinstance(content, dict):
        raise invalid_param(f"content is no object for {msg_type}")
    return content


def _text(app: App, message: Message, content: Json) -> None:
    text = content.get("text")
    if not isinstance(text, str) or not text:
        raise invalid_param("text is empty")
    message.mentions = []

    def key(found: re.Match[str]) -> str:
        if found[1] == "all":
            return "@_all"
        who = next((person for person in app.tenant.people if ids.open_id(app.app_id, person) == found[1]), None)
        if who is None:
            raise FeishuError(230001, f"invalid at user id: {found[1]}")
        message.mentions.append(who)
        return f"@_user_{len(message.mentions)}"

    message.content = {"text": AT.sub(key, text)}


def _post(app: App, message: Message, content: Json) -> None:
    locales = [value for value in content.values() if isinstance(value, dict)]
    if not locales:
        raise invalid_param("a post needs a locale such as zh_cn")
    body = locales[0]
    rows = body.get("content")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) for row in rows):
        raise invalid_param("the content of a post is a list of lists")
    nodes = [node for row in rows for node in row]
    for node in nodes:
        if not isinstance(node, dict) or node.get("tag") not in POST_TAGS:
            raise invalid_param(f"unknown tag in a post: {node}")
        if node["tag"] == "img" and node.get("image_key") not in app.tenant.images:
            raise invalid_param(f"invalid image key {node.get('image_key')}")
    message.content = {"title": str(body.get("title", "")), "content": rows}


def _interactive(world: World, app: App, message: Message, content: Json) -> None:
    if content.get("type") == "card":
        message.card = _entity(world, app, message, str((content.get("data") or {}).get("card_id", "")))
        message.content = {}
        return
    if content.get("type") == "template":
        raise card_failed(200621, "the simulator has no card templates")
    message.content = {}
    message.card = inline_card(world, app, content)
    message.card.message = message


def inline_card(world: World, app: App, content: Json) -> Card:
    """The card of one message; raises FeishuError 230099 and others."""
    if cards.is_v2(content) and (content.get("config") or {}).get("update_multi") is False:
        raise card_failed(300302, "update_multi property is false")
    try:
        cards.check_elements(content, FeishuError(200621, "parse card json err"))
    except FeishuError as refused:
        raise card_failed(refused.code, refused.msg) from None
    if not cards.body(content) and not content.get("header"):
        raise card_failed(200621, "the card is empty")
    cards.check_content(content, image_check(app))
    return Card(app.app_id, content, world.clock.now(), streaming_since=world.clock.now())


def _entity(world: World, app: App, message: Message, card_id: str) -> Card:
    card = app.tenant.cards.get(card_id)
    if card is None:
        raise card_failed(200740, "The card entity does not exist")
    if card.app_id != app.app_id:
        raise card_failed(300311, "The current application does not have permission to update/use this card")
    if card.message is not None:
        raise card_failed(200780, "The card entity has been sent, it can be sent only once")
    card.message = message
    return card


def image_check(app: App) -> Any:
    """A function that tells whether an image key can be shown in a card."""
    return lambda key: key in app.tenant.images


def _keys(app: App, message: Message, content: Json) -> None:
    for name in KEYS.get(message.msg_type, ()):
        key = content.get(name)
        stored = _stored(app, name, key)
        if stored is None:
            if name == "image_key" and message.msg_type == "media" and key is None:
                continue  # a video may have no cover
            raise invalid_param(f"invalid {name} {key}")
        allowed = FILE_KINDS.get(message.msg_type)
        if name == "file_key" and allowed is not None and stored.kind not in allowed:
            raise FeishuError(230055, "The type of file upload does not match the type of message being sent.")
        message.resources[str(key)] = stored
        content.setdefault("file_name", stored.name) if name == "file_key" else None
    message.content = content


def _stored(app: App, name: str, key: Any) -> StoredFile | None:
    store = app.tenant.images if name == "image_key" else app.tenant.files
    return store.get(str(key))
