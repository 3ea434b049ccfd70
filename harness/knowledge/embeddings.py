"""Vectors of texts, from any OpenAI-compatible endpoint."""

from __future__ import annotations

import logging
import math
from array import array
from typing import TYPE_CHECKING, Any

from harness.graph.messages import believed
from harness.knowledge.port import KnowledgeFailed
from harness.text.plain import tokens
from harness.web.search.port import ApiClient, SearchFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.knowledge.config import EmbeddingSettings
    from harness.knowledge.port import Asker, Bill
    from harness.web.guard import Route

log = logging.getLogger(__name__)
LONGEST_TEXT = 8000
"""Characters of a text that are sent: models accept at most about that many tokens."""
LONGEST_VECTOR = 16_000 * 26
"""Bytes of one vector in a response: the most dimensions that the settings allow, each as long as JSON writes it."""
ENVELOPE = 100_000
"""Bytes of a response apart from its vectors."""
REFUSED = frozenset({400, 413, 422})
"""Statuses for rejected texts."""
_MEANING = {
    401: "rejects the key",
    403: "rejects the key",
    404: "has no such model, or base_url is not the address before /embeddings",
    400: "rejects the texts: they may be too long for the model",
    413: "does not accept this much at once: lower at_once",
}


class Embeddings:
    """route: URL -> (proxy, CA file). name: under which vectors are stored, so that those of different models are never
    compared. place: the settings key, for errors. bill: checked before each request, charged after it."""

    def __init__(self, settings: EmbeddingSettings, route: Callable[[str], Route], place: str, bill: Bill) -> None:
        self._settings = settings
        self._place = place
        self._bill = bill
        self._url = f"{settings.base_url.rstrip('/')}/embeddings"
        self._api = ApiClient(route(self._url), settings.timeout)
        self.name = settings.model if settings.dimensions is None else f"{settings.model}@{settings.dimensions}"
        self.estimates = False
        """Whether the endpoint has reported no usage, so that tokens are estimated."""

    @property
    def at_once(self) -> int:
        """Number of texts in one request."""
        return self._settings.at_once

    async def vectors(self, texts: Sequence[str], asker: Asker) -> list[array[float]]:
        """A unit vector for each text. Raises KnowledgeFailed."""
        made: list[array[float]] = []
        for start in range(0, len(texts), self.at_once):
            made += await self._asked(texts[start : start + self.at_once], asker)
        if len({len(each) for each in made}) > 1:
            raise self._failed("returned vectors of different lengths")
        return made

    async def _asked(self, texts: Sequence[str], asker: Asker) -> list[array[float]]:
        if budget := await self._bill.overdraft(asker):
            raise KnowledgeFailed(f"{self._place}: the budget {budget} is used up", budget=budget)
        key, sent = self._settings.api_key, [text[:LONGEST_TEXT] or " " for text in texts]
        body: dict[str, Any] = {"model": self._settings.model, "input": sent, "encoding_format": "float"}
        if self._settings.dimensions is not None:
            body["dimensions"] = self._settings.dimensions
        headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key is not None else {}
        request = self._api.build("POST", self._url, json=body, headers=headers)
        try:
            answer = await self._api.ask(request, asker.whose, ENVELOPE + len(texts) * LONGEST_VECTOR)
        except SearchFailed as failure:
            raise self._failed(failure.reason) from None
        if answer.status != 200:
            why = _MEANING.get(answer.status, f"answered {answer.status}")
            raise self._failed(why, refused=answer.status in REFUSED)
        parsed = answer.parsed()
        vectors = _read(parsed, len(texts))
        if vectors is None:
            raise self._failed("did not return an embeddings response")
        await self._bill.charge(asker, self._settings.name, self._taken(parsed, sent))
        return vectors

    def _taken(self, answer: Any, sent: Sequence[str]) -> int:
        """The tokens that the response reports, else an estimate."""
        usage = answer.get("usage")
        told = usage.get("prompt_tokens") or usage.get("total_tokens") if isinstance(usage, dict) else None
        if isinstance(told, int) and told > 0:
            return believed(told)
        if not self.estimates:
            log.warning("%s: the endpoint reports no usage, so tokens are estimated", self._place)
        self.estimates = True
        return sum(map(tokens, sent))

    def _failed(self, reason: str, *, refused: bool = False) -> KnowledgeFailed:
        return KnowledgeFailed(f"{self._place}: the embeddings endpoint {reason}", refused=refused)

    async def close(self) -> None:
        await self._api.close()


def _read(answer: Any, count: int) -> list[array[float]] | None:
    """The vectors in the order of the texts; None unless there is exactly one for each."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or len(data) != count:
        return None
    found: dict[int, array[float]] = {}
    for number, each in enumerate(data):
        values = each.get("embedding") if isinstance(each, dict) else None
        index = each.get("index", number) if isinstance(each, dict) else None
        if not isinstance(values, list) or not values or not isinstance(index, int):
            return None
        try:
            found[index] = unit(values)
        except (TypeError, ValueError, OverflowError):
            return None
    return [found[number] for number in range(count)] if found.keys() == set(range(count)) else None


def unit(values: Sequence[float]) -> array[float]:
    """The vector scaled to length 1, as 32-bit floats: the cosine of two is then their dot product. Raises TypeError
    and ValueError for anything that is not a vector."""
    length = math.sqrt(math.fsum(value * value for value in values))
    if not math.isfinite(length) or length == 0:
        raise ValueError("no direction")
    return array("f", (value / length for value in values))
