"""Block Kit's interactive elements and text objects: their limits, collected as errors with JSON pointers."""

from collections.abc import Callable, Sequence
from typing import Any

Json = dict[str, Any]

MAX_TEXT = 3000
MAX_ACTION_ID = 255
MAX_BUTTON_TEXT = 75
MAX_BUTTON_VALUE = 2000
MAX_OPTION_VALUE = 150
MAX_OPTIONS = 100


class Checker:
    """Collects errors in the platform's wording: "must be less than 76 characters [json-pointer:/blocks/0/text]"."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def fail(self, problem: str, pointer: str) -> None:
        """Note an error."""
        self.errors.append(f"{problem} [json-pointer:{pointer}]")

    def string(self, holder: Json, name: str, pointer: str, longest: int, *, required: bool = True) -> str:
        """A string member within its length; "" when it is absent or wrong."""
        value = holder.get(name)
        at = f"{pointer}/{name}"
        if value is None:
            if required:
                self.fail(f"missing required field: {name}", pointer)
            return ""
        if not isinstance(value, str):
            self.fail("must be a string", at)
            return ""
        if required and not value:
            self.fail("must be more than 0 characters", at)
        if len(value) > longest:
            self.fail(f"must be less than {longest + 1} characters", at)
        return value

    def items(self, holder: Json, name: str, pointer: str, most: int, *, least: int = 1) -> list[Any]:
        """An array member within its size; empty when it is absent or wrong."""
        value = holder.get(name)
        at = f"{pointer}/{name}"
        if not isinstance(value, list):
            self.fail(f"missing required field: {name}" if value is None else "must be an array", pointer)
            return []
        if len(value) < least:
            self.fail(f"no less than {least} items required", at)
        if len(value) > most:
            self.fail(f"no more than {most} items allowed", at)
        return value

    def text_object(
        self, holder: Json, name: str, pointer: str, longest: int = MAX_TEXT, *, plain: bool = False
    ) -> None:
        """A text object member: plain_text, or also mrkdwn."""
        value = holder.get(name)
        at = f"{pointer}/{name}"
        if value is None:
            self.fail(f"missing required field: {name}", pointer)
            return
        if not isinstance(value, dict):
            self.fail("must be an object", at)
            return
        allowed = ("plain_text",) if plain else ("plain_text", "mrkdwn")
        if value.get("type") not in allowed:
            self.fail(f"must be one of: {', '.join(allowed)}", f"{at}/type")
        if value.get("type") == "mrkdwn" and "emoji" in value:
            self.fail("invalid additional property: emoji", at)
        self.string(value, "text", at, longest)


def check_element(checker: Checker, element: Any, pointer: str, seen_actions: set[str]) -> None:
    """Check one interactive element (of an actions block, an accessory or an input)."""
    if not isinstance(element, dict):
        checker.fail("must be an object", pointer)
        return
    check = ELEMENTS.get(str(element.get("type")))
    if check is None:
        checker.fail(f"unsupported type: {element.get('type')}", f"{pointer}/type")
        return
    action_id = checker.string(element, "action_id", pointer, MAX_ACTION_ID, required=False)
    if action_id and action_id in seen_actions:
        checker.fail(f"action_id {action_id!r} already exists", pointer)
    seen_actions.add(action_id)
    check(checker, element, pointer)
    if "confirm" in element:
        _confirm(checker, element["confirm"], f"{pointer}/confirm")


def _button(checker: Checker, element: Json, pointer: str) -> None:
    checker.text_object(element, "text", pointer, MAX_BUTTON_TEXT, plain=True)
    checker.string(element, "value", pointer, MAX_BUTTON_VALUE, required=False)
    checker.string(element, "url", pointer, MAX_TEXT, required=False)
    if element.get("style", "primary") not in ("primary", "danger"):
        checker.fail("must be one of: primary, danger", f"{pointer}/style")


def _options(checker: Checker, options: Sequence[Any], pointer: str) -> None:
    for number, option in enumerate(options):
        at = f"{pointer}/{number}"
        if isinstance(option, dict):
            checker.text_object(option, "text", at, MAX_BUTTON_TEXT)
            checker.string(option, "value", at, MAX_OPTION_VALUE)
        else:
            checker.fail("must be an object", at)


def _choice(most: int) -> Callable[[Checker, Json, str], None]:
    def check(checker: Checker, element: Json, pointer: str) -> None:
        if "placeholder" in element:
            checker.text_object(element, "placeholder", pointer, 150, plain=True)
        if "option_groups" in element:
            groups = checker.items(element, "option_groups", pointer, MAX_OPTIONS)
            for number, group in enumerate(groups):
                _options(checker, group.get("options", []), f"{pointer}/option_groups/{number}/options")
            return
        _options(checker, checker.items(element, "options", pointer, most), f"{pointer}/options")

    return check


def _placeholder_only(checker: Checker, element: Json, pointer: str) -> None:
    if "placeholder" in element:
        checker.text_object(element, "placeholder", pointer, 150, plain=True)


def _feedback(checker: Checker, element: Json, pointer: str) -> None:
    for name in ("positive_button", "negative_button"):
        button = element.get(name)
        if not isinstance(button, dict):
            checker.fail(f"missing required field: {name}", pointer)
            continue
        checker.text_object(button, "text", f"{pointer}/{name}", MAX_BUTTON_TEXT, plain=True)
        checker.string(button, "value", f"{pointer}/{name}", MAX_BUTTON_VALUE)


def _icon_button(checker: Checker, element: Json, pointer: str) -> None:
    checker.text_object(element, "text", pointer, MAX_BUTTON_TEXT, plain=True)
    if element.get("icon") != "trash":
        checker.fail("must be one of: trash", f"{pointer}/icon")


def _image(checker: Checker, element: Json, pointer: str) -> None:
    checker.string(element, "alt_text", pointer, 2000)
    if "image_url" in element or "slack_file" not in element:
        checker.string(element, "image_url", pointer, MAX_TEXT)


def _confirm(checker: Checker, confirm: Any, pointer: str) -> None:
    if not isinstance(confirm, dict):
        checker.fail("must be an object", pointer)
        return
    checker.text_object(confirm, "title", pointer, 100, plain=True)
    checker.text_object(confirm, "text", pointer, 300)
    checker.text_object(confirm, "confirm", pointer, 30, plain=True)
    checker.text_object(confirm, "deny", pointer, 30, plain=True)


ELEMENTS: dict[str, Callable[[Checker, Json, str], None]] = {
    "button": _button,
    "checkboxes": _choice(10),
    "conversations_select": _placeholder_only,
    "channels_select": _placeholder_only,
    "datepicker": _placeholder_only,
    "feedback_buttons": _feedback,
    "icon_button": _icon_button,
    "image": _image,
    "multi_static_select": _choice(MAX_OPTIONS),
    "overflow": _choice(5),
    "plain_text_input": _placeholder_only,
    "radio_buttons": _choice(10),
    "static_select": _choice(MAX_OPTIONS),
    "users_select": _placeholder_only,
}
