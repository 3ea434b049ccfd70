"""Traces over OTLP: what a real receiver on loopback gets of runs, calls and deliveries, and that words stay here."""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bot.process.tracing import CLOSING_SECONDS, OtlpTracing, receivers
from bot.redaction import MARK, Redactor
from bot.settings import load
from bot.settings.sections import TracingSettings
from tests.bot.core import SECRET
from tests.simulators.process import REPO_ROOT, child_environment
from tests.simulators.proxy.authority import Certificate, PrivateAuthority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN = "0123456789abcdef" * 2
SECONDS = 60.0


@dataclass
class Collector:
    """An OTLP receiver. spans: what arrived, decoded. heads: of the requests."""

    port: int
    spans: list[Any] = field(default_factory=list)
    heads: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    status: int = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/traces"

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


@contextmanager
def collector(certificate: Certificate | None = None) -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = ExportTraceServiceRequest.FromString(body)
            here.heads.append(dict(self.headers))
            here.paths.append(self.path)
            scopes = (scope for each in request.resource_spans for scope in each.scope_spans)
            here.spans += [span for scope in scopes for span in scope.spans]
            self.send_response(here.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = Collector(server.server_address[1])
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.cert, certificate.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def tracing(to: Collector, **more: Any) -> OtlpTracing:
    settings = TracingSettings.model_validate({"otlp": {"url": to.url, "headers": {"x-team": "ops"}}} | more)
    return OtlpTracing(settings, "1", Redactor([SECRET]), lambda url: (None, None))


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_calls_stand_below_their_run_and_below_the_call_that_delegates() -> None:
    with collector() as there:
        traces = tracing(there)
        with traces.call(RUN, "execute_tool", "task", lambda: "") as outer:
            with traces.call(RUN, "chat", "main", lambda: "") as inner:
                inner.answered(lambda: "", input_tokens=10, output_tokens=2)
            outer.answered(lambda: "", failed=True)
        traces.shown(RUN, "telegram", 1.5)
        traces.shown("event:12", "telegram", 1.5)
        traces.close()
    (task,), (chat,), (delivery,) = there.named("execute_tool task"), there.named("chat main"), there.named("delivery")
    assert {span.trace_id.hex() for span in there.spans} == {RUN}
    assert task.parent_span_id.hex() == delivery.parent_span_id.hex() == RUN[:16]
    assert chat.parent_span_id == task.span_id
    assert attributes(chat) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "main",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
    }
    assert task.status.code == 2
    assert round((delivery.end_time_unix_nano - delivery.start_time_unix_nano) / 1e9, 3) == 1.5
    assert {head["x-team"] for head in there.heads} == {"ops"}


@pytest.mark.parametrize("content", [False, True])
def test_words_are_sent_only_where_that_is_said_and_without_secrets(content: bool) -> None:
    with collector() as there:
        traces = tracing(there, content=content)
        with pytest.raises(RuntimeError), traces.call(RUN, "chat", "main", lambda: f"my key is {SECRET}"):
            raise RuntimeError("words of a provider")
        with traces.call(RUN, "chat", "main", lambda: "hello") as call:
            call.answered(lambda: "good day")
        traces.close()
    failed, answered = (attributes(span) for span in there.named("chat main"))
    assert failed["error.type"] == "RuntimeError"
    assert failed.get("gen_ai.input.messages") == (f"my key is {MARK}" if content else None)
    assert answered.get("gen_ai.output.messages") == ("good day" if content else None)
    sent = str(there.spans)
    assert SECRET not in sent
    assert "words of a provider" not in sent
    assert ("hello" in sent) is content


@pytest.mark.parametrize("known", [True, False])
def test_the_authorities_of_the_config_are_trusted_and_no_others(tmp_path: Path, known: bool) -> None:
    authority = PrivateAuthority.create(tmp_path)
    with collector(authority.issue("collector.test")) as there:
        settings = TracingSettings.model_validate({"otlp": {"url": there.url.replace("http", "https", 1)}})
        route = (None, authority.cert if known else None)
        traces = OtlpTracing(settings, "1", Redactor([]), lambda url: route)
        with traces.call(RUN, "chat", "main", lambda: ""):
            pass
        traces.close()
    assert bool(there.spans) is known


def test_langfuse_and_langsmith_are_asked_as_they_document_it() -> None:
    settings = TracingSettings.model_validate(
        {
            "langfuse": {"base_url": "https://lf.example/", "public_key": "pk", "secret_key": "sk"},
            "langsmith": {"api_key": "ls-key", "project": "team"},
        }
    )
    langfuse, langsmith = receivers(settings)
    assert langfuse.url == "https://lf.example/api/public/otel/v1/traces"
    assert langfuse.headers["Authorization"] == f"Basic {base64.b64encode(b'pk:sk').decode()}"
    assert langsmith.url == "https://api.smith.langchain.com/otel/v1/traces"
    assert langsmith.headers == {"x-api-key": "ls-key", "Langsmith-Project": "team"}


def test_a_receiver_that_refuses_is_told_once_and_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    with collector() as there:
        there.status = 401
        traces = tracing(there)
        for _ in range(3):
            with traces.call(RUN, "chat", "main", lambda: ""):
                pass
            traces._provider.force_flush(5000)
        traces.close()
    told = [record for record in caplog.records if record.name == "bot.process.tracing"]
    assert len(told) == 1
    assert told[0].levelno == logging.WARNING


def test_a_receiver_that_never_answers_does_not_keep_a_gateway_from_its_stop() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        traces = tracing(Collector(silent.getsockname()[1]))
        with traces.call(RUN, "chat", "main", lambda: ""):
            pass
        began = time.monotonic()
        traces.close()
        assert time.monotonic() - began < CLOSING_SECONDS + 1


async def test_a_whole_answer_is_one_trace_under_the_runs_id(tmp_path: Path) -> None:
    """A real gateway with the demo model, its terminal, and a receiver."""
    with collector() as there:
        config = tmp_path / "config.yaml"
        settings = {
            "data_dir": "data",
            "channels": {"console": {}},
            "sandbox": {"use": "off"},
            "tracing": {"otlp": {"url": there.url}},
        }
        config.write_text(yaml.safe_dump(settings))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bot", "run", "--config", str(config), "--log-level", "info"),
            cwd=REPO_ROOT,
            env=child_environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        _, log = await asyncio.wait_for(process.communicate(b"tell me a word of wisdom\n"), SECONDS)
    assert process.returncode == 0, log.decode()
    assert b"left behind" not in log
    (run,), (queue,), (chat,), (delivery,) = (there.named(name) for name in ("run", "queue", "chat demo", "delivery"))
    assert run.parent_span_id == b""
    assert {span.trace_id for span in there.spans} == {run.trace_id}
    assert {span.parent_span_id for span in (queue, chat, delivery)} == {run.span_id}
    about = attributes(run)
    assert (about["antler.account"], about["antler.state"]) == ("console", "success")
    assert attributes(chat)["gen_ai.usage.output_tokens"] > 0
    assert run.start_time_unix_nano <= chat.start_time_unix_nano <= chat.end_time_unix_nano <= run.end_time_unix_nano
    assert "wisdom" not in str(there.spans)


def test_what_is_missing_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    settings = {"channels": {"console": {}}, "tracing": {"otlp": {"url": "http://127.0.0.1:9/v1/traces"}}}
    config.write_text(yaml.safe_dump(settings))
    hidden = (
        "import sys\nsys.modules['opentelemetry.exporter'] = None\n"
        "from bot.__main__ import main\nsys.argv = ['antler', 'run', '--config', sys.argv[1]]\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden, str(config)],
        cwd=REPO_ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
        input="hello\n",
        timeout=SECONDS,
    )
    assert done.returncode == 78
    assert "pip install 'antler[tracing]'" in done.stderr


def test_nothing_is_traced_by_default(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("channels: {console: {}}\n")
    assert not load(config, {}).tracing.is_on
