"""The settings section `knowledge:`; bot/ puts it into the one config tree. Light to import."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from harness.config import OptionalSecret, PriceSettings, Section
from harness.text.plain import skeleton

_ROOM = "harness.knowledge.services"
SERVICES = {
    "ragflow": f"{_ROOM}:RagFlow",
    "dify": f"{_ROOM}:Dify",
    "qdrant": f"{_ROOM}:Qdrant",
    "milvus": f"{_ROOM}:Milvus",
}
"""Name -> module:Class of the built-in services; imported on use."""
BY_VECTOR = frozenset({"qdrant", "milvus"})
_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)
LONGEST_NAME = 40
"""Characters of a collection's name, a single word in any script."""
COLLECTION = re.compile(rf"[\w-]{{1,{LONGEST_NAME}}}")
"""Matches the whole of such a name."""

CollectionName = Annotated[str, StringConstraints(pattern=r"^[\w-]+$", max_length=LONGEST_NAME)]


class EmbeddingPrice(Section):
    """Price of embeddings. input: per million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False)
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$", description="ISO 4217")


class EmbeddingSettings(Section):
    """An OpenAI-compatible endpoint for embeddings. Without one, passages are found only by their words."""

    base_url: str = Field(pattern=r"^https?://[^\s]+$", description="The server's address, usually ending in /v1")
    model: str = Field(min_length=1, max_length=200)
    api_key: OptionalSecret = None
    dimensions: int | None = Field(default=None, ge=1, le=16_000, description="Size of vectors, if adjustable")
    at_once: int = Field(default=16, ge=1, le=64, description="Passages in one request")
    timeout: float = Field(default=60.0, gt=0, le=600)
    price: EmbeddingPrice | None = None

    @property
    def name(self) -> str:
        """Name under which its usage is recorded; no model has this name."""
        return f"embeddings/{self.model}"

    @property
    def token_price(self) -> PriceSettings | None:
        """The price as model prices are given."""
        price = self.price
        return None if price is None else PriceSettings(input=price.input, output=0, currency=price.currency)


class FolderSettings(Section):
    """A local folder, with everything below it, as a collection that everyone can search."""

    name: CollectionName
    path: Path
    url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s]+$",
        description="Where people open the same files: citations are this plus the file's path",
    )

    @field_validator("path")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()


class ServiceSettings(Section):
    """An existing installation, as a collection that everyone can search."""

    name: CollectionName
    use: str = Field(max_length=300, description="ragflow, dify, qdrant, milvus, or module:Class of your own")
    base_url: str = Field(pattern=r"^https?://[^\s]+$")
    api_key: OptionalSecret = None
    datasets: tuple[str, ...] = Field(
        min_length=1,
        max_length=20,
        description="Ids of datasets (ragflow, dify), names of collections (qdrant, milvus)",
    )
    text_field: str = Field(default="text", description="For qdrant and milvus: the field with a passage's text")
    title_field: str = Field(default="title", description="For qdrant and milvus: field with its document's title")
    url_field: str = Field(default="url", description="For qdrant and milvus: the field with its address")
    embeddings: EmbeddingSettings | None = Field(
        default=None, description="For qdrant and milvus: the model of their vectors; default: knowledge.embeddings"
    )
    timeout: float = Field(default=15.0, gt=0, le=120)

    @field_validator("use")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in SERVICES and not _PATH.fullmatch(value):
            raise ValueError(f"should be one of {', '.join(SERVICES)}, or module:Class of your own service")
        return value


class KnowledgeSettings(Section):
    """The section `knowledge`. max_file_mb: of one file. The limits on documents and passages apply to each owner: a
    person, a group, the installation."""

    enabled: bool = Field(default=False, description="Whether the agent has knowledge_search, and people /knowledge")
    groups: bool = Field(default=True, description="Whether groups have collections of their own")
    folders: tuple[FolderSettings, ...] = Field(default=(), max_length=50)
    scan_minutes: float = Field(default=30.0, gt=0, description="Time between checks of folders and addresses")
    refresh_hours: float = Field(default=24.0, gt=0, description="Age at which an address is read again")
    embeddings: EmbeddingSettings | None = None
    services: tuple[ServiceSettings, ...] = Field(default=(), max_length=20)
    results: int = Field(default=8, ge=1, le=30, description="Passages that one search returns")
    passage_characters: int = Field(default=1200, ge=200, le=8000)
    readers: int = Field(default=4, ge=1, le=32, description="Documents that are read at once; half for one owner")
    max_waiting: int = Field(default=20, ge=1, le=1000, description="Additions of a person or group at once")
    max_file_mb: float = Field(default=20.0, gt=0, le=200)
    max_documents: int = Field(default=2000, ge=1)
    max_passages: int = Field(default=50_000, ge=1)

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> Self:
        names: dict[str, str] = {}
        for name in self.names:
            other = names.setdefault(skeleton(name), name)
            if other is not name:
                raise ValueError(f"folders and services: {name} is used twice, or looks like {other}; change one")
        for number, service in enumerate(self.services):
            if service.use in BY_VECTOR and service.embeddings is None and self.embeddings is None:
                raise ValueError(f"services[{number}]: {service.use} also needs embeddings")
        return self

    @model_validator(mode="after")
    def _have_one_price(self) -> Self:
        prices: dict[str, EmbeddingPrice | None] = {}
        for each in self.endpoints.values():
            if prices.setdefault(each.name, each.price) != each.price:
                raise ValueError(f"embeddings: {each.model} has two prices; usage is counted by the model's name")
        return self

    @property
    def names(self) -> list[str]:
        """The names of the collections that the settings define."""
        return [*(folder.name for folder in self.folders), *(service.name for service in self.services)]

    @property
    def endpoints(self) -> dict[str, EmbeddingSettings]:
        """All embedding endpoints, by their place in this section."""
        made = {f"services[{number}].embeddings": each.embeddings for number, each in enumerate(self.services)}
        return {place: each for place, each in {"embeddings": self.embeddings, **made}.items() if each is not None}
