"""Template cards for buttons: how many fit, what they show, what they become once pressed. Pure.

Source: "Template card types", button_interaction: main_title is required, sub_title_text is not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from channels.text import one_line

if TYPE_CHECKING:
    from channels.message import Button

BUTTONS_PER_CARD = 6
TEXT_CHARACTERS = 112
"""What a card shows as its text; a longer one goes above it as a message of its own."""
_TITLE_CHARACTERS = 26
ONLY_BUTTONS = "👇"
PRESSED_KEY = "pressed"
"""Of the button that was pressed: it says which it was, and means nothing any more."""
_PRESSED = "✓"
_REFUSED = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """text: plain, at most TEXT_CHARACTERS. buttons: (label, data), at most BUTTONS_PER_CARD."""

    text: str
    buttons: tuple[tuple[str, str], ...]

    def to_json(self, task_id: str) -> dict[str, Any]:
        """The platform's form. task_id: unique for the robot; comes back when a button is pressed."""
        title, _, below = self.text.partition("\n")
        if not 0 < len(title) <= _TITLE_CHARACTERS:
            title, below = ONLY_BUTTONS, self.text
        card: dict[str, Any] = {
            "card_type": "button_interaction",
            "main_title": {"title": title},
            "button_list": [
                {"text": label, "style": 1, "key": _key(data, label, self.text)} for label, data in self.buttons
            ],
            "task_id": task_id,
        }
        return card | {"sub_title_text": below} if below else card


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed:
    """What a pressed button's key says: its data and label, and the text of its card.

    All of it travels in the key, so that a card can be changed that an earlier process has sent.
    """

    data: str
    label: str = _REFUSED
    text: str = ""

    @classmethod
    def read(cls, key: str) -> Pressed:
        """A key as `Card.to_json` wrote it; one of another form is the data itself."""
        try:
            found = json.loads(key)
        except ValueError:
            found = None
        match found:
            case [str(data), str(label), str(text)]:
                return cls(data=data, label=label, text=text)
        return cls(data=key)

    def card(self, note: str) -> Card:
        """What stands there afterwards: the one button that was pressed, and the note (what came of it)."""
        text = "\n".join(line for line in (self.text, note) if line not in ("", ONLY_BUTTONS))
        return Card(text=text or ONLY_BUTTONS, buttons=((f"{_PRESSED} {self.label}", PRESSED_KEY),))


def _key(data: str, label: str, text: str) -> str:
    """At most 1024 bytes: 64 of data, 64 characters of label, and the card's text."""
    if data == PRESSED_KEY:
        return data
    return json.dumps([data, label, text], ensure_ascii=False, separators=(",", ":"))


def cards(text: str, rows: tuple[tuple[Button, ...], ...]) -> tuple[Card, ...]:
    """One card or several with all buttons; the text is on the first."""
    buttons = [(one_line(button.label) or _REFUSED, button.data) for row in rows for button in row]
    groups = [buttons[at : at + BUTTONS_PER_CARD] for at in range(0, len(buttons), BUTTONS_PER_CARD)]
    return tuple(
        Card(text=(text if not number else "") or ONLY_BUTTONS, buttons=tuple(group))
        for number, group in enumerate(groups)
    )
