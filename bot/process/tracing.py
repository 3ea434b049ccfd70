"""Traces of runs over OTLP: to a collector, Langfuse or LangSmith, each of which accepts OpenTelemetry's protocol.

A run is a trace, and the run's id is the trace's: one id finds the run in the log, in /why and in the traces. This
module is imported only if `tracing` names a receiver.
"""

from __future__ import annotations

import base64
import logging
import ssl
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import requests
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags
from requests.adapters import HTTPAdapter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from opentelemetry.trace import Span

    from bot.runs.endings import Ending
    from bot.settings.sections import TracingSettings
    from bot.store.rows import RunRow

log = logging.getLogger(__name__)

LONGEST = 50_000
"""Maximum number of characters of one message or result that are sent with `tracing.content`."""
SEND_SECONDS = 10
CLOSING_SECONDS = 1.5
QUIET_SECONDS = 600.0
"""Seconds in which the same problem with a receiver is logged only once."""
NANO = 1_000_000_000
RUN_ID = 32
"""Length of a run's id; a reply with another kind of key belongs to no run."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver of traces. url: where spans are posted."""

    url: str
    headers: dict[str, str]


def receivers(settings: TracingSettings) -> list[Receiver]:
    """All configured receivers. The vendors define the paths and headers
    (langfuse.com/integrations/native/opentelemetry, docs.langchain.com/langsmith/trace-with-opentelemetry)."""
    found = []
    if (otlp := settings.otlp) is not None:
        found.append(Receiver(otlp.url, {name: value.get_secret_value() for name, value in otlp.headers.items()}))
    if (langfuse := settings.langfuse) is not None:
        pair = f"{langfuse.public_key}:{langfuse.secret_key.get_secret_value()}"
        basic = base64.b64encode(pair.encode()).decode()
        url = f"{langfuse.base_url.rstrip('/')}/api/public/otel/v1/traces"
        found.append(Receiver(url, {"Authorization": f"Basic {basic}", "x-langfuse-ingestion-version": "4"}))
    if (langsmith := settings.langsmith) is not None:
        headers = {"x-api-key": langsmith.api_key.get_secret_value(), "Langsmith-Project": langsmith.project}
        found.append(Receiver(f"{langsmith.base_url.rstrip('/')}/otel/v1/traces", headers))
    return found


class _Ids(RandomIdGenerator):
    """Generates random ids, except for the root span of a run, whose ids are derived from the run's."""

    def __init__(self) -> None:
        self.root: ContextVar[str] = ContextVar("root", default="")

    def generate_trace_id(self) -> int:
        return int(self.root.get(), 16) if self.root.get() else super().generate_trace_id()

    def generate_span_id(self) -> int:
        return _root_span_id(self.root.get()) if self.root.get() else super().generate_span_id()


def _root_span_id(run_id: str) -> int:
    return int(run_id[:16], 16) or 1


def _below_root(run_id: str) -> Context:
    """The context of a span directly below the run's."""
    flags = TraceFlags(TraceFlags.SAMPLED)
    root = SpanContext(int(run_id, 16), _root_span_id(run_id), is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(root), Context())


class _Call:
    """A model call or a tool call in progress."""

    def __init__(self, span: Span, say: Callable[[Span, str, Callable[[], str]], None]) -> None:
        self._span = span
        self._say = say

    def answered(
        self, said: Callable[[], str], *, input_tokens: int = 0, output_tokens: int = 0, failed: bool = False
    ) -> None:
        self._say(self._span, "gen_ai.output.messages", said)
        if input_tokens or output_tokens:
            self._span.set_attribute("gen_ai.usage.input_tokens", input_tokens)
            self._span.set_attribute("gen_ai.usage.output_tokens", output_tokens)
        if failed:
            self._span.set_status(Status(StatusCode.ERROR))


class OtlpTracing:
    """See harness.ports.Tracing. redact: removes secrets from exported content. route: proxy and CA file for a URL."""

    def __init__(
        self,
        settings: TracingSettings,
        version: str,
        redact: Callable[[str], str],
        route: Callable[[str], tuple[str | None, Path | None]],
    ) -> None:
        self._content = settings.content
        self._redact = redact
        self._ids = _Ids()
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": "antler", "service.version": version}),
            id_generator=self._ids,
            span_limits=SpanLimits(max_attribute_length=LONGEST),
            shutdown_on_exit=False,
        )
        self._exporters: list[OTLPSpanExporter] = []
        for receiver in receivers(settings):
            exporter = OTLPSpanExporter(
                receiver.url, headers=receiver.headers, timeout=SEND_SECONDS, session=_session(*route(receiver.url))
            )
            self._exporters.append(exporter)
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("antler", version)
        theirs = logging.getLogger("opentelemetry")
        theirs.handlers[:], theirs.propagate = [_Trouble()], False

    @contextmanager
    def call(
        self, run_id: str, kind: Literal["chat", "execute_tool"], name: str, given: Callable[[], str]
    ) -> Iterator[_Call]:
        """See the port. An exception marks the span as failed; its type is recorded, its text is not."""
        current = trace.get_current_span().get_span_context()
        inside = current.is_valid and current.trace_id == int(run_id, 16)
        attribute = "gen_ai.request.model" if kind == "chat" else "gen_ai.tool.name"
        with self._tracer.start_as_current_span(
            f"{kind} {name}",
            context=None if inside else _below_root(run_id),
            attributes={"gen_ai.operation.name": kind, attribute: name},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            self._say(span, "gen_ai.input.messages", given)
            try:
                yield _Call(span, self._say)
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise

    def ended(self, row: RunRow, ending: Ending) -> None:
        """Record a run that has ended: its own span, and the span of its wait in the queue."""
        attributes: dict[str, Any] = {
            "antler.account": row.address.account,
            "antler.thread": row.thread_id,
            "antler.state": str(ending.state),
            "session.id": row.thread_id,
            "gen_ai.request.model": row.context.model,
        }
        if row.context.agent:
            attributes["gen_ai.agent.name"] = row.context.agent
        began = row.started_at or row.created_at
        queued = self._tracer.start_span("queue", _below_root(row.run_id), start_time=_nano(row.created_at.timestamp()))
        queued.end(_nano(began.timestamp()))
        token = self._ids.root.set(row.run_id)
        try:
            start = _nano(row.created_at.timestamp())
            span = self._tracer.start_span("run", Context(), attributes=attributes, start_time=start)
        finally:
            self._ids.root.reset(token)
        if ending.detail:
            span.set_attribute("antler.detail", ending.detail)
        if ending.cause:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def shown(self, reply_key: str, account: str, waited: float) -> None:
        """Record that a final is settled. waited: seconds since the end of its run."""
        if len(reply_key) == RUN_ID and reply_key.isalnum():
            now = time.time()
            about = {"antler.account": account}
            span = self._tracer.start_span(
                "delivery", _below_root(reply_key), attributes=about, start_time=_nano(now - waited)
            )
            span.end(_nano(now))

    def close(self) -> None:
        """Send the remaining spans, for a short time. Blocking."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(CLOSING_SECONDS)
        if closing.is_alive():  # it may wait half a minute for a receiver
            for exporter in self._exporters:
                exporter.shutdown()  # type: ignore[no-untyped-call]  # the package leaves it unannotated

    def _say(self, span: Span, attribute: str, words: Callable[[], str]) -> None:
        if self._content:
            span.set_attribute(attribute, self._redact(words()))


def _nano(seconds: float) -> int:
    return int(seconds * NANO)


class _Adapter(HTTPAdapter):
    """Trusts the system's certificate authorities and those of the config."""

    def __init__(self, ca_file: Path | None) -> None:
        self._ca_file = ca_file
        super().__init__()

    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        context = ssl.create_default_context()
        if self._ca_file is not None:
            context.load_verify_locations(cafile=self._ca_file)
        super().init_poolmanager(*args, ssl_context=context, **more)


def _session(proxy: str | None, ca_file: Path | None) -> requests.Session:
    """A session that takes its network settings from the config, never from the environment."""
    session = requests.Session()
    session.trust_env = False
    if proxy is not None:
        session.proxies = {"http": proxy, "https": proxy}
    session.mount("https://", _Adapter(ca_file))
    return session


class _Trouble(logging.Handler):
    """Logs warnings of OpenTelemetry's libraries in Antler's log, each kind only now and then: they report an
    unreachable receiver at every batch."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told: dict[object, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        now, last = time.monotonic(), self._told.get(record.msg)
        if last is None or now - last >= QUIET_SECONDS:
            self._told[record.msg] = now
            log.warning("traces: %s", record.getMessage())
