"""The authorization table: every route of the HTTP service, who may ask it, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GRAPH = "/api/langgraph"
THREAD, RUN = f"{GRAPH}/threads/{{thread_id}}", f"{GRAPH}/threads/{{thread_id}}/runs/{{run_id}}"
AGENT = "default"
ASK: dict[str, Any] = {"assistant_id": AGENT, "input": {"messages": [{"role": "user", "content": "!say Mine."}]}}
CHAT: dict[str, Any] = {"model": AGENT, "messages": [{"role": "user", "content": "!say Mine."}]}
OPEN, SIGNED_IN = "open", "signed in"
"""For who asks without a session or token too; for who has any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """scope: what a session or token has to be good for, or OPEN or SIGNED_IN. answer: the status for who may ask, of
    what there is not where it names something. own: the status for a person's own, None: it names nothing of a
    person's. admins: the status for an administrator who asks for what is another person's; None: as for what there is
    not. body: JSON with which it works; form: fields that take its place; place: of the path. operators: the status for
    who has that scope; None: as for the others. page: what people open, who are led to the sign-in. sessions: it is for
    sessions alone."""

    scope: str
    answer: int = 200
    own: int | None = None
    admins: int | None = None
    body: Any = None
    form: Mapping[str, str] | None = None
    place: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    operators: int | None = None
    page: bool = False
    sessions: bool = False


Table = Mapping[tuple[str, str], Route]


def _of(scope: str, answer: int = 200, own: int | None = None, body: Any = None, **more: Any) -> Route:
    return Route(scope=scope, answer=answer, own=own, body=body, **more)


def _page(scope: str, answer: int = 200, own: int | None = None, **more: Any) -> Route:
    return Route(scope=scope, answer=answer, own=own, page=True, **more)


GATEWAY: Table = {
    ("GET", "/healthz"): _of(OPEN),
    ("HEAD", "/healthz"): _of(OPEN),
    ("GET", "/readyz"): _of(OPEN),
    ("HEAD", "/readyz"): _of(OPEN),
    ("GET", "/metrics"): _of(OPEN),
    ("POST", "/hooks/{name}"): _of(OPEN, 401),
    ("GET", "/signin"): _of(OPEN),
    ("GET", "/signin/{code}"): _of(OPEN, 410),
    ("POST", "/signin"): _of(OPEN, 410, form={"code": "nosuch"}),
    ("GET", "/static/{name}"): _of(OPEN, 404),
    ("HEAD", "/static/{name}"): _of(OPEN, 404),
    ("POST", "/preferences"): _of(OPEN, 303, form={"language": "zh"}),
    ("GET", "/{path:path}"): _of(OPEN, 404),
    ("GET", "/api/me"): _of(SIGNED_IN),
    ("GET", "/api/docs"): _of(SIGNED_IN),
    ("POST", "/signout"): _of(SIGNED_IN, 204, sessions=True),
}
CONVERSATIONS: Table = {
    ("GET", "/api/conversations"): _of("read"),
    ("POST", "/api/conversations"): _of("threads", 201),
    ("GET", "/api/conversations/{chat}/messages"): _of("read", 404, 200),
    ("POST", "/api/conversations/{chat}/messages"): _of("runs", 404, 202, {"text": "Hello again", "client_id": "2"}),
    ("POST", "/api/conversations/{chat}/presses"): _of(
        "runs", 404, 202, {"message_id": "m", "data": "d", "client_id": "3"}
    ),
    ("GET", "/api/conversations/{chat}/events"): _of("read", 404, 200),
    ("GET", "/api/conversations/{chat}/files/{message_id}"): _of("read", 404, 200),
    ("GET", "/api/conversations/{chat}"): _of("read", 404, 200),
    ("PATCH", "/api/conversations/{chat}"): _of("threads", 404, 204, {"title": "Shops"}),
    ("DELETE", "/api/conversations/{chat}"): _of("threads", 404, 202),
    ("POST", "/api/uploads"): _of("threads", 422),
    ("GET", "/api/uploads"): _of("read"),
    ("GET", "/api/uploads/{upload_id}"): _of("read", 404, 200),
    ("DELETE", "/api/uploads/{upload_id}"): _of("threads", 404, 204),
    ("GET", "/"): _page("read"),
    ("GET", "/chats"): _page("read"),
    ("GET", "/c/{chat}"): _page("read", 404, 200),
    ("GET", "/c/{chat}/earlier"): _page("read", 404, 200, query="?before=2026-01-01T00:00:00%2B00:00"),
    ("GET", "/c/{chat}/events"): _page("read", 404, 200),
    ("GET", "/c/{chat}/files"): _page("read", 404, 200),
    ("GET", "/c/{chat}/files/{message_id}"): _page("read", 404, 200),
    ("POST", "/c/{chat}/title"): _of("threads", 404, 204, form={"title": "Shops"}),
    ("POST", "/c/{chat}/branch"): _of("threads", 404, 201, form={"message": "{message_id}"}),
    ("POST", "/c/{chat}/delete"): _of("threads", 404, 204, form={}),
    ("GET", "/c/{chat}/why/{message_id}"): _page("read", 404, 200),
    ("GET", "/uploads/{upload_id}"): _page("read", 404, 200),
}
RESOURCES: Table = {
    ("GET", "/api/health"): _of("read"),
    ("GET", "/api/now"): _of("operate"),
    ("GET", "/api/turns"): _of("read"),
    ("POST", "/api/turns/{run_id}/run-now"): _of("runs", 404, 200, admins=200),
    ("POST", "/api/turns/{run_id}/drop"): _of("runs", 404, 200, admins=200),
    ("POST", "/api/turns/{run_id}/stop"): _of("runs", 404, 200, admins=200),
    ("GET", "/api/approvals"): _of("read"),
    ("POST", "/api/approvals/{approval}"): _of("runs", 404, 200, {"decision": "deny"}, admins=200),
    ("GET", "/api/mcp"): _of("operate"),
    ("GET", "/api/pairings"): _of("operate"),
    ("POST", "/api/pairings/{request}"): _of("admin", 404, body={"let_in": False}),
    ("POST", "/api/pairings"): _of("admin", 404, body={"code": "ABCD-EFGH"}),
    ("GET", "/api/access"): _of("operate"),
    ("POST", "/api/access"): _of("admin", body={"subject": "{subject}"}),
    ("DELETE", "/api/access/{subject}"): _of("admin"),
    ("GET", "/api/transcripts"): _of("read"),
    ("GET", "/api/transcripts/{thread_id}"): _of("read", 404, 200),
    ("GET", "/api/usage"): _of("read"),
    ("GET", "/api/schedules"): _of("read"),
    ("DELETE", "/api/schedules/{schedule_id}"): _of("threads", 404, 200, admins=200),
    ("GET", "/api/memory"): _of("read"),
    ("POST", "/api/memory"): _of("threads", 200, body={"text": "I like tea."}),
    ("PUT", "/api/memory/{item}"): _of("threads", 404, 200, {"text": "I like coffee."}),
    ("DELETE", "/api/memory/{item}"): _of("threads", 404, 200),
    ("DELETE", "/api/memory"): _of("threads"),
    ("PUT", "/api/memory"): _of("threads", body={"on": True}),
    ("GET", "/api/memories"): _of("operate"),
    ("GET", "/api/skills"): _of("read"),
    ("POST", "/api/skills"): _of("admin", 422, body={"address": "http://127.0.0.1/x.zip"}),
    ("GET", "/api/skills/installs"): _of("admin"),
    ("PUT", "/api/skills/{name}"): _of("admin", 404, body={"on": False}),
    ("POST", "/api/skills/{name}/on"): _of("admin", 404, body={"digest": "0" * 64}),
    ("PUT", "/api/uploads/skills/{file_name}"): _of("admin", 422, body={}),
    ("DELETE", "/api/skills/{name}"): _of("admin", 404),
    ("GET", "/api/research"): _of("read"),
    ("GET", "/api/research/{thread_id}"): _of("read", 404, 200),
    ("GET", "/api/research/{thread_id}/files/{name}"): _of("read", 404, 200, place={"name": "report.md"}),
    ("POST", "/api/research/{thread_id}"): _of("runs", 404, 200, {"do": "start", "run_id": "r1"}),
    ("GET", "/api/knowledge"): _of("read"),
    ("GET", "/api/knowledge/search"): _of("read", query="?q=anything"),
    ("GET", "/api/knowledge/passages/{passage}"): _of("read", 404, 200),
    ("POST", "/api/knowledge"): _of("threads", 422, body={"address": "http://127.0.0.1/x.html"}),
    ("PUT", "/api/uploads/knowledge/{file_name}"): _of("threads", body={}, place={"file_name": "a.txt"}),
    ("DELETE", "/api/knowledge/{document}"): _of("threads", 404, 200),
    ("GET", "/api/agents"): _of("read"),
    ("GET", "/api/models"): _of("read"),
    ("GET", "/api/configuration"): _of("admin", 409),
    ("POST", "/api/configuration/check"): _of("admin", 409, body={"text": "", "base": ""}),
    ("POST", "/api/configuration/apply"): _of("admin", 403, body={"text": "", "base": ""}),
}
PANEL: Table = {
    ("GET", "/now"): _page("operate"),
    ("GET", "/now/live"): _of("operate"),
    ("POST", "/now/turns/{run_id}/{action}"): _of("runs", 404, 204, form={}, place={"action": "stop"}, admins=204),
    ("POST", "/now/approvals/{approval}"): _of("runs", 404, 204, form={"decision": "deny"}, admins=204),
    ("POST", "/now/pairings/{asked}"): _of("admin", 404, form={"let_in": "no"}),
    ("GET", "/people"): _page("operate"),
    ("GET", "/people/list"): _of("operate"),
    ("POST", "/people/requests/{asked}"): _of("admin", 404, form={"let_in": "no"}),
    ("POST", "/people/allow"): _of("admin", 204, form={"subject": "{subject}"}),
    ("POST", "/people/revoke"): _of("admin", 204, form={"subject": "{subject}"}),
    ("GET", "/mcp"): _page("operate"),
    ("GET", "/configuration"): _page("admin"),
    ("POST", "/configuration/check"): _of("admin", 409, form={"text": "", "base": ""}),
    ("POST", "/configuration/apply"): _of("admin", 409, form={"text": "", "base": ""}),
    ("GET", "/threads"): _page("read"),
    ("GET", "/threads/{thread_id}"): _page("read", 404, 200),
    ("GET", "/why/{subject}"): _page("read", 404, operators=200),
    ("GET", "/files"): _page("read"),
    ("GET", "/files/list"): _of("read"),
    ("POST", "/files/delete"): _of("threads", 404, form={"kind": "sent", "id": "{upload_id}"}),
    ("GET", "/agents"): _page("read"),
    ("GET", "/usage"): _page("read"),
    ("GET", "/memory"): _page("read"),
    ("GET", "/memory/list"): _of("read"),
    ("POST", "/memory/{action}"): _of("threads", 404, 204, form={"item": "{fact}"}, place={"action": "forget"}),
    ("GET", "/research"): _page("read"),
    ("GET", "/research/{thread_id}"): _page("read", 404, 200),
    ("GET", "/research/{thread_id}/live"): _of("read", 404, 200),
    ("GET", "/research/{thread_id}/files/{name}"): _of("read", 404, 200, place={"name": "report.md"}),
    ("POST", "/research/{thread_id}"): _of("runs", 404, 204, form={"do": "start", "run_id": "r1"}),
    ("GET", "/knowledge"): _page("read"),
    ("GET", "/knowledge/list"): _of("read"),
    ("GET", "/knowledge/passages/{passage}"): _page("read", 404, 200),
    ("POST", "/knowledge/add"): _of("threads", 422, form={"address": "http://127.0.0.1/x.html"}),
    ("POST", "/knowledge/remove"): _of("threads", 404, 204, form={"id": "{document}"}),
    ("GET", "/schedules"): _page("read"),
    ("POST", "/schedules/{schedule_id}/cancel"): _of("threads", 404, 204, form={}, admins=204),
    ("GET", "/skills"): _page("read"),
    ("GET", "/skills/list"): _of("read"),
    ("POST", "/skills/install"): _of("admin", 422, form={"address": "http://127.0.0.1/x.zip"}),
    ("POST", "/skills/{name}/switch"): _of("admin", 404, form={"on": "no"}),
    ("POST", "/skills/{name}/on"): _of("admin", 404, form={"digest": "0" * 64}),
    ("POST", "/skills/{name}/remove"): _of("admin", 404, form={}),
}
_NOTE = {"values": {"messages": [{"role": "user", "content": "Mine."}]}}
PROGRAMS: Table = {
    ("GET", f"{GRAPH}/ok"): _of(OPEN),
    ("GET", f"{GRAPH}/info"): _of("read"),
    ("POST", f"{GRAPH}/assistants/search"): _of("read", body={}),
    ("POST", f"{GRAPH}/assistants/count"): _of("read", body={}),
    ("GET", f"{GRAPH}/assistants/{{assistant_id}}"): _of("read", 404),
    ("GET", f"{GRAPH}/assistants/{{assistant_id}}/graph"): _of("read", 404),
    ("GET", f"{GRAPH}/assistants/{{assistant_id}}/schemas"): _of("read", 404),
    ("GET", f"{GRAPH}/assistants/{{assistant_id}}/subgraphs"): _of("read", 404),
    ("GET", f"{GRAPH}/assistants/{{assistant_id}}/subgraphs/{{namespace}}"): _of("read", 404),
    ("POST", f"{GRAPH}/assistants/{{assistant_id}}/versions"): _of("read", 404, body={}),
    ("POST", f"{GRAPH}/threads"): _of("threads", body={}),
    ("POST", f"{GRAPH}/threads/prune"): _of("threads", body={"thread_ids": []}),
    ("POST", f"{GRAPH}/threads/search"): _of("read", body={}),
    ("POST", f"{GRAPH}/threads/count"): _of("read", body={}),
    ("GET", THREAD): _of("read", 404, 200),
    ("PATCH", THREAD): _of("threads", 404, 200, {"metadata": {}}),
    ("POST", f"{THREAD}/copy"): _of("threads", 404, 200),
    ("GET", f"{THREAD}/state"): _of("read", 404, 200),
    ("POST", f"{THREAD}/state"): _of("threads", 404, 200, _NOTE),
    ("GET", f"{THREAD}/state/{{checkpoint_id}}"): _of("read", 404, 200),
    ("POST", f"{THREAD}/state/checkpoint"): _of("read", 404, 200, {"checkpoint": {"checkpoint_id": "{checkpoint_id}"}}),
    ("GET", f"{THREAD}/history"): _of("read", 404, 200),
    ("POST", f"{THREAD}/history"): _of("read", 404, 200, {}),
    ("POST", f"{THREAD}/runs"): _of("runs", 404, 200, ASK),
    ("POST", f"{THREAD}/runs/stream"): _of("runs", 404, 200, ASK),
    ("POST", f"{THREAD}/runs/wait"): _of("runs", 404, 200, ASK),
    ("GET", f"{THREAD}/runs"): _of("read", 404, 200),
    ("GET", RUN): _of("read", 404, 200),
    ("GET", f"{RUN}/join"): _of("read", 404, 200),
    ("GET", f"{RUN}/files"): _of("read", 404, 200),
    ("GET", f"{RUN}/file"): _of("read", 404, 404),
    ("GET", f"{RUN}/stream"): _of("read", 404, 200),
    ("POST", f"{RUN}/cancel"): _of("runs", 404, 202),
    ("DELETE", RUN): _of("runs", 404, 422),
    ("POST", f"{GRAPH}/runs"): _of("runs", body=ASK),
    ("POST", f"{GRAPH}/runs/stream"): _of("runs", body=ASK),
    ("POST", f"{GRAPH}/runs/wait"): _of("runs", body=ASK),
    ("POST", f"{GRAPH}/runs/cancel"): _of("runs", 404, 204, {"thread_id": "{thread_id}"}),
    ("GET", "/v1/models"): _of("read"),
    ("GET", "/v1/models/{name}"): _of("read", 404),
    ("POST", "/v1/chat/completions"): _of("runs", body=CHAT),
    ("POST", "/v1/responses"): _of(
        "runs", 404, 200, {"model": AGENT, "input": "!say Mine.", "previous_response_id": "{response_id}"}
    ),
    ("GET", "/v1/responses/{response_id}"): _of("read", 404, 200),
    ("POST", "/v1/responses/{response_id}/cancel"): _of("runs", 404, 200),
    ("DELETE", THREAD): _of("threads", 404, 204),
    # What LangGraph's clients can ask for and is not there.
    ("POST", f"{GRAPH}/assistants"): _of(SIGNED_IN, 422),
    ("PATCH", f"{GRAPH}/assistants/{{assistant_id}}"): _of(SIGNED_IN, 422),
    ("DELETE", f"{GRAPH}/assistants/{{assistant_id}}"): _of(SIGNED_IN, 422),
    ("POST", f"{GRAPH}/assistants/{{assistant_id}}/latest"): _of(SIGNED_IN, 422),
    ("GET", f"{THREAD}/stream"): _of(SIGNED_IN, 422),
    ("POST", f"{THREAD}/stream/events"): _of(SIGNED_IN, 422),
    ("POST", f"{THREAD}/commands"): _of(SIGNED_IN, 422),
    ("POST", f"{GRAPH}/runs/batch"): _of(SIGNED_IN, 422),
    ("POST", f"{THREAD}/runs/crons"): _of(SIGNED_IN, 422),
    ("POST", f"{GRAPH}/runs/crons"): _of(SIGNED_IN, 422),
    ("POST", f"{GRAPH}/runs/crons/search"): _of(SIGNED_IN, 422),
    ("POST", f"{GRAPH}/runs/crons/count"): _of(SIGNED_IN, 422),
    ("PATCH", f"{GRAPH}/runs/crons/{{cron_id}}"): _of(SIGNED_IN, 422),
    ("DELETE", f"{GRAPH}/runs/crons/{{cron_id}}"): _of(SIGNED_IN, 422),
    ("PUT", f"{GRAPH}/store/items"): _of(SIGNED_IN, 422),
    ("GET", f"{GRAPH}/store/items"): _of(SIGNED_IN, 422),
    ("DELETE", f"{GRAPH}/store/items"): _of(SIGNED_IN, 422),
    ("POST", f"{GRAPH}/store/items/search"): _of(SIGNED_IN, 422),
    ("POST", f"{GRAPH}/store/namespaces"): _of(SIGNED_IN, 422),
}
TABLE: Table = {**CONVERSATIONS, **RESOURCES, **PANEL, **PROGRAMS, **GATEWAY}
"""Every route, by method and path, in an order in which all can be asked again and again."""


def filled(value: Any, ids: Mapping[str, str]) -> Any:
    """A body or path with these ids in the place of their names."""
    if isinstance(value, Mapping):
        return {key: filled(each, ids) for key, each in value.items()}
    if isinstance(value, str):
        for name, found in ids.items():
            value = value.replace(f"{{{name}}}", found)
    return value
