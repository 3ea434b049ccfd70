"""openapi.yaml says what the server does: the same routes, the same bodies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from sandbox import base
from sandbox.remote import wire
from sandbox.remote.server.app import STATUS, Api
from sandbox.remote.server.config import ServerLimits
from sandbox.remote.server.rooms import Rooms
from sandbox.remote.server.skills import SkillStore
from tests.simulators.sandbox.provider import MemoryProvider
from tests.tables import table

DOCUMENT: dict[str, Any] = yaml.safe_load(Path(wire.__file__).with_name("openapi.yaml").read_text())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
BODIES = {
    "execute": wire.CommandBody,
    "read": wire.ReadBody,
    "fetch": wire.FetchBody,
    "write": wire.WriteBody,
    "update": wire.UpdateBody,
    "list": wire.ListBody,
    "glob": wire.GlobBody,
    "grep": wire.GrepBody,
    "show_skills": wire.SkillsBody,
    "keep_skills": wire.SkillFilesBody,
}
OF_THE_SERVER_ONLY = {"Open", "Opened", "Found", "Refused"}


async def _nothing(_sandbox: str) -> None:
    return None


def routes() -> set[tuple[str, str]]:
    rooms = Rooms(MemoryProvider(), _nothing, Path("sandboxes"), sandboxes=1, commands=1)
    report = base.Report(provider="memory", isolation=base.Isolation.FULL, bash=True)
    app = Api(rooms, SkillStore(Path("skills"), {}), report, "token", ServerLimits()).app()
    return {(route.method.lower(), route.resource.canonical) for route in app.router.routes() if route.resource}


def test_every_route_is_documented_and_there_are_no_others() -> None:
    documented = {
        (method, path) for path, item in DOCUMENT["paths"].items() for method in item if method != "parameters"
    }
    assert documented == routes()


def test_the_schemas_are_those_of_the_code() -> None:
    kinds: list[Any] = [
        *BODIES.values(),
        *(wire.Welcome, wire.Failed, wire.Event, wire.Wanted, wire.Keeps, wire.Kept),
        *(base.CommandResult, base.FileText, base.FileInfo, base.Updated, base.Entries, base.Hits, base.Problem),
    ]
    inputs = [(kind.__name__, "validation", TypeAdapter(kind)) for kind in kinds]
    _, generated = TypeAdapter.json_schemas(inputs, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    expected = {name: _plain(schema) for name, schema in generated["$defs"].items()}
    assert {name: _plain(SCHEMAS[name]) for name in SCHEMAS.keys() - OF_THE_SERVER_ONLY} == expected


def _plain(schema: Any, *, of_properties: bool = False) -> Any:
    """Without what is for people."""
    if isinstance(schema, dict):
        kept = schema if of_properties else {k: v for k, v in schema.items() if k not in ("title", "description")}
        return {name: _plain(value, of_properties=name == "properties") for name, value in kept.items()}
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


@table("operation", BODIES)
def test_every_body_is_named_where_it_is_asked_for(operation: str) -> None:
    operations = {
        each["operationId"]: each
        for path in DOCUMENT["paths"].values()
        for method, each in path.items()
        if method != "parameters" and "requestBody" in each
    }
    schema = operations[operation]["requestBody"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": f"#/components/schemas/{BODIES[operation].__name__}"}


def test_every_reference_leads_somewhere() -> None:
    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [found for each in value.values() for found in references(each)]
        return [found for each in value for found in references(each)] if isinstance(value, list) else []

    for reference in references(DOCUMENT):
        place: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]


def test_every_code_of_an_error_is_named_with_its_status() -> None:
    text = DOCUMENT["components"]["responses"]["Failed"]["description"]
    for code, status in STATUS.items():
        assert code in text
        assert str(status) in text
