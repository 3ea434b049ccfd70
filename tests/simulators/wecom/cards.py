"""Template cards: their validity, and the text that a person reads."""

import re

from tests.simulators.wecom.errors import BAD_PARAM, WecomError
from tests.simulators.wecom.state import Json

TASK_ID = re.compile(r"[0-9A-Za-z_\-@]{1,128}")
TYPES = ("text_notice", "news_notice", "button_interaction", "vote_interaction", "multiple_interaction")
WITH_TASK = ("button_interaction", "vote_interaction", "multiple_interaction")
WITH_TITLE = (*WITH_TASK, "news_notice")
BUTTONS = 6
KEY_BYTES = 1024


def check(card: Json) -> None:
    """Raise WecomError for a card that the platform would refuse."""
    kind = card.get("card_type")
    if kind not in TYPES:
        raise WecomError(BAD_PARAM, f"card_type {kind}")
    task_id = card.get("task_id")
    if (kind in WITH_TASK or task_id is not None) and not TASK_ID.fullmatch(str(task_id or "")):
        raise WecomError(BAD_PARAM, f"task_id {task_id!r}")
    if kind in WITH_TITLE and not _titles(card).strip():
        raise WecomError(BAD_PARAM, f"{kind} without main_title")
    if not shown(card).strip():
        raise WecomError(BAD_PARAM, "neither a title nor a text")
    if kind in ("text_notice", "news_notice") and (card.get("card_action") or {}).get("type") not in (1, 2):
        raise WecomError(BAD_PARAM, f"{kind} without card_action")
    if kind == "button_interaction":
        _check_buttons(card.get("button_list"))


def _check_buttons(buttons: object) -> None:
    if not isinstance(buttons, list) or not 1 <= len(buttons) <= BUTTONS:
        raise WecomError(BAD_PARAM, "button_list")
    keys = [button.get("key") for button in buttons]
    for button in buttons:
        key, style = button.get("key"), button.get("style", 1)
        if not button.get("text") or not isinstance(key, str) or not 1 <= len(key.encode()) <= KEY_BYTES:
            raise WecomError(BAD_PARAM, f"button {button}")
        if style not in (1, 2, 3, 4):
            raise WecomError(BAD_PARAM, f"style {style}")
    if len(set(keys)) < len(keys):
        raise WecomError(BAD_PARAM, "two buttons with one key")


def _titles(card: Json) -> str:
    title = card.get("main_title")
    texts = (title.get("title"), title.get("desc")) if isinstance(title, dict) else ()
    return "\n".join(text for text in texts if isinstance(text, str))


def shown(card: Json) -> str:
    """The texts of a card from top to bottom, without its buttons."""
    title = card.get("main_title") or {}
    quote = card.get("quote_area") or {}
    texts = (
        title.get("title"),
        title.get("desc"),
        quote.get("title"),
        quote.get("quote_text"),
        card.get("sub_title_text"),
    )
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def buttons(card: Json | None) -> list[tuple[str, str]]:
    """(text, key) of each button."""
    return [(str(button["text"]), str(button["key"])) for button in (card or {}).get("button_list") or ()]
