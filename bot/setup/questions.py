"""Questions on a terminal: Enter accepts the default, Esc goes back, Ctrl-C ends everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import questionary
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from prompt_toolkit.key_binding import KeyPressEvent

_BACK = object()


class Back(Exception):
    """The person wants to answer the previous question again."""


class Questions:
    """Asks questions on the terminal. say: the texts of the wizard, in the person's language."""

    def __init__(self, say: Mapping[str, str]) -> None:
        self.say = say

    async def choose(self, text: str, choices: Mapping[str, str], default: str | None = None) -> str:
        """One of the choices, value -> label."""
        asked = questionary.select(text, _choices(choices), default=default, instruction=self.say["keys_choose"])
        return str(await _answer(asked))

    async def several(self, text: str, choices: Mapping[str, str], default: Collection[str] = ()) -> list[str]:
        """Several of the choices, at least one."""
        asked = questionary.checkbox(
            text,
            _choices(choices, default),
            instruction=self.say["keys_several"],
            validate=lambda chosen: True if chosen else self.say["choose_one"],
        )
        return list(await _answer(asked))

    async def yes(self, text: str, *, default: bool) -> bool:
        labels = {"yes": self.say["yes"], "no": self.say["no"]}
        return await self.choose(text, labels, "yes" if default else "no") == "yes"

    async def text(self, text: str, default: str = "") -> str:
        """The typed text, without surrounding white space."""
        asked = questionary.text(text, default=default, key_bindings=_with_back(KeyBindings()))
        return str(await _answer(asked)).strip()

    async def secret(self, text: str) -> str:
        """The typed text, shown as stars."""
        asked = questionary.password(text, key_bindings=_with_back(KeyBindings()))
        return str(await _answer(asked)).strip()


def _choices(choices: Mapping[str, str], chosen: Collection[str] = ()) -> list[questionary.Choice]:
    return [questionary.Choice(label, value, checked=value in chosen) for value, label in choices.items()]


async def _answer(asked: questionary.Question) -> Any:
    bindings = asked.application.key_bindings
    if isinstance(bindings, KeyBindings):  # of a list; a line of text was given its own
        _with_back(bindings)
    answer = await asked.unsafe_ask_async()
    if answer is _BACK:
        raise Back
    return answer


def _with_back(bindings: KeyBindings) -> KeyBindings:
    @bindings.add(Keys.Escape, eager=True)
    def _back(event: KeyPressEvent) -> None:
        event.app.exit(result=_BACK)

    return bindings
