"""Existing installations, searched over their HTTP APIs: RAGFlow, Dify, Qdrant, Milvus."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import quote

from harness.errors import ToolSetupError
from harness.knowledge.config import SERVICES
from harness.knowledge.embeddings import Embeddings
from harness.knowledge.port import Hit, KnowledgeFailed
from harness.web.search.port import ApiClient, SearchFailed, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import httpx

    from harness.knowledge.config import KnowledgeSettings, ServiceSettings
    from harness.knowledge.port import Asker, Bill
    from harness.web.guard import Route

_KEY_REFUSED = frozenset({401, 403})
_DATASET_MISSING = frozenset({404})
LONGEST_TEXT = 4000
"""Characters kept of a passage."""


class Service(Protocol):
    """One installation. name: of its collection. Its classes are instantiated with (settings, route, embeddings)."""

    name: str

    async def search(self, query: str, most: int, asker: Asker) -> list[Hit]:
        """The best passages, best first. Raises KnowledgeFailed."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


def make_services(settings: KnowledgeSettings, route: Callable[[str], Route], bill: Bill) -> tuple[Service, ...]:
    """Create all services of the settings. Raises ToolSetupError, whose text names the key, for an unknown class."""
    return tuple(_made(number, each, settings, route, bill) for number, each in enumerate(settings.services))


def _made(
    number: int, each: ServiceSettings, settings: KnowledgeSettings, route: Callable[[str], Route], bill: Bill
) -> Service:
    module, _, name = SERVICES.get(each.use, each.use).partition(":")
    try:
        kind = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ToolSetupError(f"knowledge.services[{number}].use: {each.use} cannot be imported: {error}") from error
    chosen = each.embeddings or settings.embeddings
    place = f"knowledge.services[{number}].embeddings" if each.embeddings else "knowledge.embeddings"
    embeddings = Embeddings(chosen, route, place, bill) if chosen is not None else None
    return cast("Service", kind(each, route, embeddings))


class HttpService:
    """The common part of the four. A subclass defines how one dataset is queried, and how its response is read."""

    def __init__(self, settings: ServiceSettings, route: Callable[[str], Route], embeddings: Embeddings | None) -> None:
        self.name = settings.name
        self.settings = settings
        self.url = settings.base_url.rstrip("/")
        self.key = settings.api_key.get_secret_value() if settings.api_key is not None else ""
        self.embeddings = embeddings
        self.api = ApiClient(route(self.url), settings.timeout)

    async def search(self, query: str, most: int, asker: Asker) -> list[Hit]:
        vector = await self.vector(query, asker)
        requests = self.requests(query, vector, most)
        lists = await asyncio.gather(*(self._asked(request, asker.whose) for request in requests))
        scored = sorted((each for found in lists for each in found), key=lambda each: -each[0])
        return [hit for _, hit in scored[:most]]

    async def vector(self, query: str, asker: Asker) -> Sequence[float]:
        """The question's vector, for services that are queried by vector."""
        return ()

    def requests(self, query: str, vector: Sequence[float], most: int) -> list[httpx.Request]:
        """The requests to send: one, or one for each dataset."""
        raise NotImplementedError

    def found(self, answer: Any) -> list[tuple[float, Hit]]:
        """Passages with their scores, higher being nearer. Raises KnowledgeFailed for an invalid response."""
        raise NotImplementedError

    def post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> httpx.Request:
        return self.api.build("POST", f"{self.url}{path}", json=body, headers=headers)

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def hit(self, known: object, text: object, *, title: object = "", name: object = "", page: object = None) -> Hit:
        """A passage. known: its id in the service; if there is none, it is made from the text."""
        body, url = text_of(text)[:LONGEST_TEXT], ""
        if text_of(name).startswith(("https://", "http://")):
            url = text_of(name)
        own = (
            str(known) if known not in (None, "") else hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()[:16]
        )
        return Hit(
            key=f"{self.name}:{own}",
            collection=self.name,
            name=text_of(name) or text_of(title) or own,
            title=text_of(title),
            text=body,
            page=page if isinstance(page, int) and page > 0 else None,
            url=url,
        )

    async def _asked(self, request: httpx.Request, whose: str) -> list[tuple[float, Hit]]:
        try:
            answer = await self.api.ask(request, whose)
        except SearchFailed as failure:
            raise KnowledgeFailed(f"{self.name} {failure.reason}") from None
        if answer.status in _KEY_REFUSED:
            raise KnowledgeFailed(f"{self.name} rejects the key: check api_key of this service")
        if answer.status in _DATASET_MISSING:
            raise KnowledgeFailed(f"{self.name} has no such dataset, or base_url is wrong")
        if answer.status != 200:
            raise KnowledgeFailed(f"{self.name} answered {answer.status}")
        return [each for each in self.found(answer.parsed()) if each[1].text.strip()]

    def confused(self, why: str = "returned an unreadable response") -> KnowledgeFailed:
        return KnowledgeFailed(f"{self.name} {why}")

    async def close(self) -> None:
        await self.api.close()
        if self.embeddings is not None:
            await self.embeddings.close()


class RagFlow(HttpService):
    """RAGFlow's POST /api/v1/retrieval (docs: HTTP API reference, "Retrieve chunks")."""

    def requests(self, query: str, vector: Sequence[float], most: int) -> list[httpx.Request]:
        body = {"question": query, "dataset_ids": list(self.settings.datasets), "page": 1, "page_size": most}
        return [self.post("/api/v1/retrieval", body, self.bearer)]

    def found(self, answer: Any) -> list[tuple[float, Hit]]:
        if isinstance(answer, dict) and answer.get("code") not in (0, None):
            raise self.confused(f"refused: code {answer.get('code')}")  # its message may contain the question
        return [
            (
                _number(each.get("similarity")),
                self.hit(
                    each.get("id"),
                    each.get("content"),
                    title=each.get("document_keyword") or each.get("docnm_kwd"),
                    page=_first_page(each.get("positions")),
                ),
            )
            for each in _entries(self, answer, "data", "chunks")
        ]


class Dify(HttpService):
    """Dify's POST /datasets/ID/retrieve (docs: Knowledge API); base_url ends in /v1."""

    def requests(self, query: str, vector: Sequence[float], most: int) -> list[httpx.Request]:
        retrieval = {
            "search_method": "hybrid_search",
            "reranking_enable": False,
            "top_k": most,
            "score_threshold_enabled": False,
        }
        body = {"query": query[:250], "retrieval_model": retrieval}
        return [
            self.post(f"/datasets/{quote(each, safe='')}/retrieve", body, self.bearer)
            for each in self.settings.datasets
        ]

    def found(self, answer: Any) -> list[tuple[float, Hit]]:
        made = []
        for each in _entries(self, answer, "records"):
            segment = _object(each.get("segment"))
            document = _object(segment.get("document"))
            hit = self.hit(segment.get("id"), segment.get("content"), title=document.get("name"))
            made.append((_number(each.get("score")), hit))
        return made


class _ByVector(HttpService):
    """A vector store: queried by vector, it returns what was stored with each match."""

    async def vector(self, query: str, asker: Asker) -> Sequence[float]:
        if self.embeddings is None:
            raise KnowledgeFailed(f"{self.name} needs embeddings, and knowledge.embeddings is not set")
        (made,) = await self.embeddings.vectors([query], asker)
        return made.tolist()

    def kept(self, known: object, fields: dict[str, Any]) -> Hit:
        settings = self.settings
        where = fields.get(settings.url_field) or fields.get("source")
        page = fields.get("page")
        return self.hit(
            known, fields.get(settings.text_field), title=fields.get(settings.title_field), name=where, page=page
        )


class Qdrant(_ByVector):
    """Qdrant's POST /collections/NAME/points/query (1.10 and later)."""

    def requests(self, query: str, vector: Sequence[float], most: int) -> list[httpx.Request]:
        body = {"query": list(vector), "limit": most, "with_payload": True}
        headers = {"api-key": self.key} if self.key else {}
        return [
            self.post(f"/collections/{quote(each, safe='')}/points/query", body, headers)
            for each in self.settings.datasets
        ]

    def found(self, answer: Any) -> list[tuple[float, Hit]]:
        return [
            (_number(each.get("score")), self.kept(each.get("id"), _flat(each.get("payload"))))
            for each in _entries(self, answer, "result", "points")
        ]


class Milvus(_ByVector):
    """Milvus's POST /v2/vectordb/entities/search; for a metric where less is nearer (L2), the order is its own."""

    def requests(self, query: str, vector: Sequence[float], most: int) -> list[httpx.Request]:
        return [
            self.post(
                "/v2/vectordb/entities/search",
                {"collectionName": each, "data": [list(vector)], "limit": most, "outputFields": ["*"]},
                self.bearer,
            )
            for each in self.settings.datasets
        ]

    def found(self, answer: Any) -> list[tuple[float, Hit]]:
        if isinstance(answer, dict) and answer.get("code") not in (0, 200, None):
            raise self.confused(f"refused: code {answer.get('code')}")
        entries = list(_entries(self, answer, "data"))
        # The nearest come first, for any metric; a distance alone does not say which direction is nearer.
        return [(-place, self.kept(each.get("id"), _flat(each))) for place, each in enumerate(entries)]


def _entries(service: HttpService, answer: Any, *path: str) -> list[dict[str, Any]]:
    for key in path:
        answer = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(answer, list):
        raise service.confused()
    return [each for each in answer if isinstance(each, dict)]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _flat(value: Any) -> dict[str, Any]:
    """The fields stored with a vector; LangChain's stores put part of them into `metadata`, and the text into
    page_content."""
    fields = _object(value)
    flat = {**_object(fields.get("metadata")), **fields}
    return flat if "text" in flat else {**flat, "text": flat.get("page_content", flat.get("content"))}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _first_page(positions: Any) -> int | None:
    """The first page, from RAGFlow's places in a PDF: [[page, left, right, top, bottom], …]."""
    first = positions[0] if isinstance(positions, list) and positions else None
    page = first[0] if isinstance(first, list) and first else None
    return page if isinstance(page, int) else None
