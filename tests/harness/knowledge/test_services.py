"""Knowledge services and the embeddings endpoint over their own wires: what they are asked, how they are read, how they
fail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from harness.knowledge.config import EmbeddingSettings, KnowledgeSettings
from harness.knowledge.embeddings import Embeddings
from harness.knowledge.port import Asker, KnowledgeFailed, Unbilled
from harness.knowledge.services import make_services
from tests.simulators.knowledge.services import (
    DATASET,
    DIMENSIONS,
    KEY,
    PASSAGE,
    DifyService,
    Embedding,
    MilvusService,
    QdrantService,
    RagFlowService,
)
from tests.simulators.web.site import Site

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from harness.knowledge.services import Service
    from tests.simulators.knowledge.services import Service as Simulator

SERVICES: dict[str, type[Simulator]] = {
    "ragflow": RagFlowService,
    "dify": DifyService,
    "qdrant": QdrantService,
    "milvus": MilvusService,
}
ADDRESSES = {
    "ragflow": "knowledge:wiki/harbour.pdf#page=3",
    "dify": "knowledge:wiki/harbour.md",
    "qdrant": "https://docs.example.org/harbour#page=2",
    "milvus": "https://docs.example.org/h#:~:text=The%20harbour%20light%20is%20painted%20green.",
}


ANN = Asker(speaker="ann")
COPY = "\u0441\u043e\u0440\u0443"


def direct(url: str) -> tuple[str | None, Path | None]:
    return None, None


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site().serve() as site:
        yield site


def service(site: Site, use: str, simulator: Simulator, **more: Any) -> Service:
    site.own |= simulator.answers() | Embedding().answers()
    base = site.url("/v1" if use == "dify" else "")
    each = {"name": "wiki", "use": use, "base_url": base, "api_key": KEY, "datasets": [DATASET], **more}
    embeddings = {"base_url": site.url("/v1"), "model": "small", "api_key": KEY}
    settings = KnowledgeSettings.model_validate({"services": [each], "embeddings": embeddings})
    (made,) = make_services(settings, direct, Unbilled())
    return made


@pytest.mark.parametrize("use", SERVICES)
async def test_a_service_is_asked_and_read(site: Site, use: str) -> None:
    simulator = SERVICES[use]()
    made = service(site, use, simulator)
    (hit,) = await made.search("green light", 5, ANN)
    await made.close()
    assert hit.text == PASSAGE
    assert hit.collection == "wiki"
    assert hit.address == ADDRESSES[use]
    (asked,) = simulator.asked
    assert "green light" in str(asked) or len(asked.get("query") or asked["data"][0]) == DIMENSIONS


@pytest.mark.parametrize("use", SERVICES)
@pytest.mark.parametrize(
    ("status", "raw", "why"),
    [
        (401, None, "rejects the key"),
        (404, None, "no such dataset"),
        (500, None, "answered 500"),
        (200, b"[]", "unreadable"),
    ],
)
async def test_failures_are_told_without_secrets(
    site: Site, use: str, status: int, raw: bytes | None, why: str
) -> None:
    made = service(site, use, SERVICES[use](status=status, raw=raw))
    with pytest.raises(KnowledgeFailed, match=why) as failure:
        await made.search("green light", 5, ANN)
    await made.close()
    assert KEY not in str(failure.value)


@pytest.mark.parametrize("use", ["ragflow", "milvus"])
async def test_a_refusal_that_stands_in_the_body_is_one(site: Site, use: str) -> None:
    made = service(site, use, SERVICES[use](), datasets=["other"])
    with pytest.raises(KnowledgeFailed, match="refused: code 10"):
        await made.search("green light", 5, ANN)
    await made.close()


async def test_vectors_are_of_length_one_and_in_order(site: Site) -> None:
    simulator = Embedding()
    site.own |= simulator.answers()
    settings = KnowledgeSettings.model_validate(
        {"embeddings": {"base_url": site.url("/v1"), "model": "small", "api_key": KEY, "at_once": 2, "dimensions": 64}}
    ).embeddings
    assert settings is not None
    endpoint = Embeddings(settings, direct, "knowledge.embeddings", Unbilled())
    assert endpoint.name == "small@64"
    vectors = await endpoint.vectors(["a car", "a boat", "an automobile"], ANN)
    await endpoint.close()
    assert [len(body["input"]) for body in simulator.asked] == [2, 1]
    assert all(abs(sum(value * value for value in vector) - 1) < 1e-5 for vector in vectors)
    near = sum(map(float.__mul__, vectors[0].tolist(), vectors[2].tolist()))
    far = sum(map(float.__mul__, vectors[1].tolist(), vectors[2].tolist()))
    assert near > far


async def test_an_answer_may_be_as_long_as_what_was_asked_makes_it(site: Site) -> None:
    """64 vectors of 3072 numbers are 4 MB; one vector that long is none."""
    vector = [0.01234567890123456] * 3072
    settings = EmbeddingSettings.model_validate({"base_url": site.url("/v1"), "model": "large", "at_once": 64})
    endpoint = Embeddings(settings, direct, "knowledge.embeddings", Unbilled())
    data = [{"embedding": vector, "index": number} for number in range(64)]
    site.own |= Embedding(raw=json.dumps({"data": data}).encode()).answers()
    made = await endpoint.vectors(["a"] * 64, ANN)
    assert [len(each) for each in made] == [3072] * 64
    with pytest.raises(KnowledgeFailed, match=r"returned a response that is too long \(more than 0.516 MB\)"):
        await endpoint.vectors(["a"], ANN)
    await endpoint.close()


@pytest.mark.parametrize(
    ("raw", "status", "why"),
    [
        (None, 401, "knowledge.embeddings: the embeddings endpoint rejects the key"),
        (None, 404, "no such model"),
        (b'{"data": [{"embedding": "AAAA", "index": 0}]}', 200, "did not return an embeddings response"),
        (b'{"data": []}', 200, "did not return an embeddings response"),
        (b'{"data": [{"embedding": [0, 0], "index": 0}]}', 200, "did not return an embeddings response"),
    ],
)
async def test_an_endpoint_that_fails_says_why(site: Site, raw: bytes | None, status: int, why: str) -> None:
    site.own |= Embedding(status=status, raw=raw).answers()
    settings = KnowledgeSettings.model_validate(
        {"embeddings": {"base_url": site.url("/v1"), "model": "small"}}
    ).embeddings
    assert settings is not None
    endpoint = Embeddings(settings, direct, "knowledge.embeddings", Unbilled())
    with pytest.raises(KnowledgeFailed, match=why):
        await endpoint.vectors(["a"], ANN)
    await endpoint.close()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"services": [{"name": "w", "use": "solr", "base_url": "http://x", "datasets": ["a"]}]}, "should be one of"),
        ({"services": [{"name": "w", "use": "qdrant", "base_url": "http://x", "datasets": ["a"]}]}, "needs embeddings"),
        ({"folders": [{"name": "w", "path": "/a"}, {"name": "W", "path": "/b"}]}, "is used twice"),
        (
            {"folders": [{"name": "copy", "path": "/a"}, {"name": "\u0441\u043e\u0440\u0443", "path": "/b"}]},
            "looks like copy",
        ),
        (
            {
                "embeddings": {"base_url": "http://x", "model": "m", "price": {"input": 1}},
                "services": [
                    {
                        "name": "w",
                        "use": "dify",
                        "base_url": "http://x",
                        "datasets": ["a"],
                        "embeddings": {"base_url": "http://y", "model": "m"},
                    }
                ],
            },
            "m has two prices",
        ),
        ({"folders": [{"name": "two words", "path": "/a"}]}, "pattern"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        KnowledgeSettings.model_validate(settings)
