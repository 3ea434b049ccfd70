"""Checks inline keyboards of outgoing messages and finds the button that a person presses."""

from typing import Any

from tests.simulators.telegram.errors import bad_request

MAX_CALLBACK_DATA = 64
MAX_BUTTONS = 100
BUTTON_ACTIONS = frozenset(
    {"callback_data", "url", "web_app", "login_url", "switch_inline_query", "switch_inline_query_current_chat"}
    | {"switch_inline_query_chosen_chat", "copy_text", "pay"}
)


def inline_keyboard(markup: dict[str, Any] | None) -> dict[str, Any] | None:
    """The keyboard as shown, None for none; raises ApiError 400 for invalid buttons."""
    rows = (markup or {}).get("inline_keyboard")
    if not rows:
        return None
    buttons = [button for row in rows for button in row]
    if len(buttons) > MAX_BUTTONS:
        raise bad_request("REPLY_MARKUP_TOO_LONG")
    for button in buttons:
        _check(button)
    return {"inline_keyboard": rows} if buttons else None


def _check(button: dict[str, Any]) -> None:
    if not button.get("text"):
        raise bad_request('can\'t parse inline keyboard button: field "text" is empty')
    if len(BUTTON_ACTIONS & button.keys()) != 1:
        raise bad_request("can't parse inline keyboard button: text buttons are unallowed in the inline keyboard")
    if "callback_data" in button and not 1 <= len(str(button["callback_data"]).encode()) <= MAX_CALLBACK_DATA:
        raise bad_request("BUTTON_DATA_INVALID")


def find_button(markup: dict[str, Any] | None, wanted: str) -> dict[str, Any] | None:
    """The callback button with this data, or else with this label, or None."""
    rows = (markup or {}).get("inline_keyboard", [])
    buttons: list[dict[str, Any]] = [button for row in rows for button in row if "callback_data" in button]
    for name in ("callback_data", "text"):
        for button in buttons:
            if button[name] == wanted:
                return button
    return None
