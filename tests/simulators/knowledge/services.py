"""Knowledge services and an embeddings endpoint as seen by their clients, in the formats of their documentation;
answers for tests/simulators/web/site.py. Each refuses what the real one refuses: a wrong key, an unknown dataset."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulators.web.site import Answer, Asked, write

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

KEY = "service-key-4711"
DATASET = "harbour-set"
PASSAGE = "The harbour light is painted green."
DIMENSIONS = 64
SYNONYMS = {"car": "vehicle", "automobile": "vehicle", "cars": "vehicle"}


def meaning(text: str) -> list[float]:
    """A vector that places texts with the same words, or with synonyms, near each other."""
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        vector[zlib.crc32(SYNONYMS.get(word, word).encode()) % DIMENSIONS] += 1.0
    return vector if any(vector) else [1.0] * DIMENSIONS


@dataclass
class Service:
    """A service. status: not 200 to fail. raw: answered instead of anything else. asked: the bodies of requests."""

    status: int = 200
    raw: bytes | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)

    def answers(self) -> dict[str, Answer]:
        """Its paths, for Site.own."""
        raise NotImplementedError

    def taken(self, asked: Asked, writer: asyncio.StreamWriter, key: str) -> dict[str, Any] | None:
        """The request's body; None if it has been answered already."""
        body: dict[str, Any] = json.loads(asked.body)
        self.asked.append(body)
        if self.raw is not None or self.status != 200:
            write(writer, self.raw or b"{}", "application/json", self.status)
        elif key != KEY:
            write(writer, json.dumps({"message": "unauthorized"}), "application/json", 401)
        else:
            return body
        return None


def bearer(asked: Asked) -> str:
    return asked.headers.get("authorization", "").removeprefix("Bearer ")


class Embedding(Service):
    """POST /v1/embeddings, as OpenAI documents it. longest: most characters that the model accepts. tells_usage:
    whether usage is reported, as most do; a token is a word."""

    longest: int = 100_000
    tells_usage: bool = True

    def answers(self) -> dict[str, Answer]:
        return {"/v1/embeddings": self._answer}

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        body = self.taken(asked, writer, bearer(asked))
        if body is None:
            return
        if any(len(text) > self.longest for text in body["input"]):
            return write(writer, json.dumps({"error": {"message": "too long"}}), "application/json", 400)
        data = [
            {"object": "embedding", "index": number, "embedding": meaning(text)}
            for number, text in enumerate(body["input"])
        ]
        data.reverse()  # only the index gives the order
        answer = {"object": "list", "model": body["model"], "data": data}
        if self.tells_usage:
            words = sum(len(text.split()) for text in body["input"])
            answer["usage"] = {"prompt_tokens": words, "total_tokens": words}
        write(writer, json.dumps(answer), "application/json")


class RagFlowService(Service):
    """POST /api/v1/retrieval."""

    def answers(self) -> dict[str, Answer]:
        return {"/api/v1/retrieval": self._answer}

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        body = self.taken(asked, writer, bearer(asked))
        if body is None:
            return
        if body["dataset_ids"] != [DATASET]:
            return write(writer, json.dumps({"code": 102, "message": "You don't own the dataset"}), "application/json")
        chunk = {
            "content": PASSAGE,
            "content_ltks": "harbour light",
            "document_id": "5c5999ec7be811ef9cab0242ac120005",
            "document_keyword": "harbour.pdf",
            "highlight": "<em>harbour</em>",
            "id": "d78435d142bd5cf6704da62c778795c5",
            "image_id": "",
            "important_keywords": [""],
            "kb_id": DATASET,
            "positions": [[3, 71, 540, 88, 120]],
            "similarity": 0.97,
            "term_similarity": 1.0,
            "vector_similarity": 0.9,
        }
        found = {"chunks": [chunk], "doc_aggs": [{"count": 1, "doc_id": "5c", "doc_name": "harbour.pdf"}], "total": 1}
        write(writer, json.dumps({"code": 0, "data": found}), "application/json")


class DifyService(Service):
    """POST /v1/datasets/ID/retrieve."""

    def answers(self) -> dict[str, Answer]:
        return {f"/v1/datasets/{DATASET}/retrieve": self._answer}

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        body = self.taken(asked, writer, bearer(asked))
        if body is None:
            return
        segment = {
            "id": "7fa6f24f-8679-48b3-bc9d-bdf28d73f218",
            "position": 1,
            "document_id": "a8c6c36f-9f5d-4d7a-8472-f5d7b75d71d2",
            "content": PASSAGE,
            "answer": None,
            "word_count": 6,
            "document": {"id": "a8c6", "data_source_type": "upload_file", "name": "harbour.md"},
        }
        record = {"segment": segment, "score": 0.83, "tsne_position": None}
        write(writer, json.dumps({"query": {"content": body["query"]}, "records": [record]}), "application/json")


class QdrantService(Service):
    """POST /collections/NAME/points/query, with what LangChain's store keeps along with vectors."""

    def answers(self) -> dict[str, Answer]:
        return {f"/collections/{DATASET}/points/query": self._answer}

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        body = self.taken(asked, writer, asked.headers.get("api-key", ""))
        if body is None:
            return
        if len(body["query"]) != DIMENSIONS:
            error = {"status": {"error": "Wrong input: Vector dimension error"}, "time": 0.001}
            return write(writer, json.dumps(error), "application/json", 400)
        payload = {"page_content": PASSAGE, "metadata": {"source": "https://docs.example.org/harbour", "page": 2}}
        points = [{"id": "b2f1", "version": 3, "score": 0.71, "payload": payload}]
        write(writer, json.dumps({"result": {"points": points}, "status": "ok", "time": 0.002}), "application/json")


class MilvusService(Service):
    """POST /v2/vectordb/entities/search."""

    def answers(self) -> dict[str, Answer]:
        return {"/v2/vectordb/entities/search": self._answer}

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        body = self.taken(asked, writer, bearer(asked))
        if body is None:
            return
        if body["collectionName"] != DATASET:
            return write(writer, json.dumps({"code": 100, "message": "collection not found"}), "application/json")
        entity = {"distance": 0.12, "id": 449, "text": PASSAGE, "title": "Harbour", "url": "https://docs.example.org/h"}
        write(writer, json.dumps({"code": 0, "cost": 0, "data": [entity]}), "application/json")


def texts_asked(service: Service) -> Sequence[str]:
    """All texts that an embeddings endpoint has received."""
    return [text for body in service.asked for text in body.get("input", ())]
