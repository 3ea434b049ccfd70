"""What all pages of the panel share: access to them, the display of times and amounts, submitted forms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from fastapi import Depends, Request

from bot.http.auth import CSRF_HEADER, MaybeSignedIn
from bot.http.errors import PageRefused
from bot.http.page.view import language_of
from bot.store.identity import OWN_ACCOUNTS
from bot.texts import texts_for
from bot.texts.page import words
from bot.usage.report import short

if TYPE_CHECKING:
    from fastapi import Response

    from bot.http.auth import Caller
    from bot.http.page.view import Pages
    from bot.http.resources.transcripts import Cost
    from bot.texts.catalogue import Texts
    from bot.texts.page import Words

MOST_FIELDS = 20


class Room:
    """Renders the panel's templates, with the values that each of them needs."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    def opens(self, scope: str = "read") -> Any:
        """A dependency of a page: callers who are not signed in are sent to do so, and those without the scope are
        refused."""

        async def check(request: Request, caller: MaybeSignedIn) -> None:
            if caller is None:
                raise PageRefused(self._pages.sign_in(request))
            if not caller.may(scope):
                raise PageRefused(self._pages.problem(request, caller, 403))

        return Depends(check)

    def show(self, request: Request, template: str, caller: Caller | None, active: str = "", **values: Any) -> Response:
        """A page or a piece of one. Besides the values, templates have: span (seconds in words), age, short (numbers),
        price, place (an account or a conversation)."""
        texts = texts_for(language_of(request))
        more: dict[str, Any] = {
            "span": partial(span, texts),
            "age": texts.age,
            "short": short,
            "price": price,
            "place": partial(place, self.words(request)),
        }
        return self._pages.html(request, f"panel/{template}.html", caller, active=active, **more, **values)

    def done(
        self, request: Request, key: str, to: str, *, part: str = "panel", anew: bool = False, **values: object
    ) -> Response:
        """The answer to an accepted form. key: of the text to show, in a part of the texts. to: the page of the form,
        to which browsers without scripts go; anew: others reload it too, as no region of it updates itself."""
        stays = CSRF_HEADER.lower() in request.headers and not anew
        return self._pages.done(request, toast=self.words(request)(f"{part}.{key}", **values), to="" if stays else to)

    def words(self, request: Request) -> Words:
        """The panel's texts in the reader's language."""
        return words(language_of(request))

    def language(self, request: Request) -> str:
        return language_of(request)


def span(texts: Texts, seconds: float | None) -> str:
    """A length of time: short ones with one decimal, "–" where it is unknown."""
    if seconds is None:
        return "–"
    return texts.second.format(n=f"{seconds:.1f}") if seconds < 10 else texts.duration(seconds)


def place(t: Words, key: str) -> str:
    """The displayed name of an account, or of a conversation by its key: those of the page and the API have no
    meaningful names of their own."""
    account = key.partition(":")[0]
    return t(f"panel.place_{account}") if account in OWN_ACCOUNTS else key


def price(cost: Cost) -> str:
    """Money as people write it, "" where nothing had a price."""
    return " + ".join(f"{_amount(amount)} {currency}" for currency, amount in sorted(cost.money.items()))


def _amount(amount: float) -> str:
    if 0 < amount < 0.0001:
        return "< 0.0001"
    return f"{amount:.{2 if amount >= 1 or amount == 0 else 4}f}"


async def fields(request: Request) -> dict[str, str]:
    """The fields of a form, each once."""
    body = (await request.body()).decode("utf-8", "replace")
    given = parse_qs(body, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    return {name: values[0].replace("\r\n", "\n") for name, values in given.items()}
