"""/metrics for Prometheus: figures that the parts of the process have anyway, read on request.

Labels are names of the config, kinds and states: never a person, a chat, or anything that grows with use.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from bot.http.errors import PLAIN
from bot.store.usage import NANO
from channels.base import ConnectionState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from bot.clock import Durations
    from bot.delivery.account import AccountSnapshot
    from bot.files.sandboxes import SandboxFacts
    from bot.http.parts import HttpParts
    from bot.operations.health import HealthService
    from bot.operations.status import StoredFacts
    from bot.settings.http import HttpSettings
    from bot.usage.meter import Totals
    from harness.mcp.pool import ServerFacts
    from harness.models.health import ModelHealth

    Samples = Mapping[Any, float]
    """The values of the labels, a tuple of strings in their order, to the figure."""


def metrics_router(figures: Callable[[], Awaitable[Collector]], settings: HttpSettings) -> APIRouter:
    """The route, open without a token only where no one beyond this machine can reach it. figures: of this moment."""
    router = APIRouter()
    token = None if settings.metrics_token is None else settings.metrics_token.get_secret_value()

    @router.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses={401: {"description": "The token is wrong", **PLAIN}, 403: {"description": "Not open", **PLAIN}},
    )
    async def metrics(authorization: Annotated[str, Header()] = "") -> Response:
        if token is None and settings.is_exposed:
            return PlainTextResponse("set http.metrics_token, and send it\n", 403)
        if token is not None and not hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode()):
            return PlainTextResponse("send the token of http.metrics_token\n", 401, {"WWW-Authenticate": "Bearer"})
        registry = CollectorRegistry()
        registry.register(await figures())
        ProcessCollector(registry=registry)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router


class Collected(Collector):
    """Figures that have been read already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = tuple(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork(Collector):
    """What a gateway and a worker have in common. running: the current answers."""

    version: str
    health: HealthService
    sandbox: SandboxFacts
    servers: Sequence[ServerFacts]
    running: int
    models: ModelHealth
    totals: Totals

    def collect(self) -> Iterator[Metric]:
        yield _gauge("info", "Always 1; the version is a label.", {(self.version,): 1}, "version")
        conditions = {(str(each.part), each.name): float(each.healthy) for each in self.health.conditions()}
        yield _gauge("well", "1 if a part works, 0 if it does not.", conditions, "part", "name")
        if (free := self.health.disk_free()) is not None:
            yield _gauge("disk_free_bytes", "Free space on the disk of data_dir.", {(): free})
        yield _gauge("sandbox", "1; provider and state are labels.", {(self.sandbox.provider, self.sandbox.state): 1},
                     "provider", "state")  # fmt: skip
        troubles = {(): len(self.sandbox.troubles)}
        yield _gauge("sandbox_troubles", "Parts of the sandbox that do not work, such as lost servers.", troubles)
        servers = {(each.name,): float(each.state == "ready") for each in self.servers}
        yield _gauge("mcp_server_up", "1 if an MCP server is connected.", servers, "server")
        yield _gauge("runs_active", "Active runs.", {(): self.running})
        yield _counter("model_calls", "Calls by outcome: answered, or the kind of failure; each try counts.",
                       self.models.calls, "model", "outcome")  # fmt: skip
        yield _counter("tokens", "Tokens as counted by providers: input, cached (a part of it), output.",
                       self.totals.tokens, "model", "kind")  # fmt: skip
        costs = {label: nano / NANO for label, nano in self.totals.costs.items()}
        yield _counter("cost", "Cost of models that have a price, in its currency.", costs, "model", "currency")


class Figures(Collector):
    """All current figures of a gateway. stored: what only the store knows, None where it does not answer."""

    def __init__(self, parts: HttpParts, stored: StoredFacts | None) -> None:
        self._parts = parts
        self._stored = stored

    def collect(self) -> Iterator[Metric]:
        yield from self._at_work().collect()
        yield from self._of_workers()
        yield from self._of_connections()
        yield from self._of_inbound()
        yield from self._of_runs()
        yield from self._of_delivery(self._parts.delivery.snapshot())

    def _account(self, name: str) -> list[str]:
        return [name, self._parts.platforms.get(name, "")]

    def _at_work(self) -> AtWork:
        parts, asked = self._parts, self._parts.status.asked
        return AtWork(
            version=parts.status.version,
            health=parts.status.health,
            sandbox=asked.sandbox(),
            servers=asked.servers(),
            running=len(parts.runs.active),
            models=parts.models,
            totals=parts.spending.meter.totals,
        )

    def _of_workers(self) -> Iterator[Metric]:
        workers = self._parts.status.asked.workers()
        yield _gauge("worker_up", "1 if a worker is alive.", {(w.name,): float(w.alive) for w in workers},
                     "worker")  # fmt: skip
        running = {(each.name,): each.facts.running for each in workers}
        yield _gauge("worker_runs_active", "Active runs on the worker.", running, "worker")

    def _of_connections(self) -> Iterator[Metric]:
        found = self._parts.status.health.connections()
        up = {tuple(self._account(c.account)): float(c.state is ConnectionState.CONNECTED) for c in found}
        yield _gauge("connection_up", "1 if the account receives.", up, "account", "platform")
        silence = {tuple(self._account(c.account)): c.silence for c in found if c.silence is not None}
        yield _gauge("connection_silence_seconds", "Time since the platform's last sign of life.", silence,
                     "account", "platform")  # fmt: skip
        reconnects = {tuple(self._account(c.account)): c.reconnects for c in found}
        yield _counter("reconnects", "Reconnects of an account.", reconnects, "account", "platform")

    def _of_inbound(self) -> Iterator[Metric]:
        asked = self._parts.status.asked
        events = {(*self._account(account), outcome): n for (account, outcome), n in self._parts.bus.counts.items()}
        yield _counter("inbound_events", "Events by outcome: accepted, duplicate, passed_by, unreadable.",
                       events, "account", "platform", "outcome")  # fmt: skip
        yield _gauge("queue_messages", "Messages that are queued.", {(): asked.waiting()})
        yield _gauge("pairings_waiting", "People waiting for access.", {(): asked.pairings()})
        if self._stored is not None:
            yield _gauge("queue_age_seconds", "Age of the oldest message for which no run has begun.",
                         {(): self._stored.queue_age})  # fmt: skip
            spent = {(each.key,): each.share for each in self._stored.budgets}
            yield _gauge("budget_spent_ratio", "Used share of a shared daily budget, 1 when used up.", spent, "budget")

    def _of_runs(self) -> Iterator[Metric]:
        runs, counts = self._parts.runs, self._parts.runs.active.counts
        yield _gauge("runs_without_slot", "Active runs waiting for one of limits.concurrent_runs.",
                     {(): runs.waiting})  # fmt: skip
        yield _gauge("approvals_waiting", "Tool calls waiting for a person's decision.",
                     {(): self._parts.status.approvals})  # fmt: skip
        endings = {(*self._account(account), state): n for (account, state), n in counts.endings.items()}
        yield _counter("runs", "Answers that ended, by ending.", endings, "account", "platform", "ending")
        yield _histogram("first_words_seconds", "Time from a run's start to its first words.", {(): counts.first_words})
        yield _histogram("slot_wait_seconds", "Time that runs waited for a free slot.", {(): counts.slot_waits})
        yield _counter("tool_calls", "Tool calls that ended.", counts.tools, "tool", "outcome")

    def _of_delivery(self, accounts: tuple[AccountSnapshot, ...]) -> Iterator[Metric]:
        calls = {(*self._account(each.account), outcome): n for each in accounts for outcome, n in each.calls.items()}
        yield _counter("api_calls", "Calls to platforms by outcome: done, limited (429), unknown, refused.",
                       calls, "account", "platform", "outcome")  # fmt: skip
        waiting = {tuple(self._account(each.account)): each.waiting_finals for each in accounts}
        yield _gauge("finals_waiting", "Finished answers that are not fully shown.", waiting, "account", "platform")
        oldest = {tuple(self._account(each.account)): each.oldest_wait for each in accounts}
        yield _gauge("finals_oldest_seconds", "Time that the oldest of them has waited.", oldest, "account", "platform")
        waits = {tuple(self._account(each.account)): each.waits for each in accounts}
        yield _histogram("final_wait_seconds", "From an answer's end until it was fully shown, or given up.", waits,
                         "account", "platform")  # fmt: skip


def _gauge(name: str, text: str, samples: Samples, *labels: str) -> Metric:
    return _filled(GaugeMetricFamily(f"antler_{name}", text, labels=labels), samples)


def _counter(name: str, text: str, samples: Samples, *labels: str) -> Metric:
    return _filled(CounterMetricFamily(f"antler_{name}", f"{text} Since the start.", labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for values, value in samples.items():
        family.add_metric(values, value)
    return family


def _histogram(name: str, text: str, samples: Mapping[Any, Durations], *labels: str) -> Metric:
    family = HistogramMetricFamily(f"antler_{name}", text, labels=labels)
    for values, taken in samples.items():
        steps = [(str(step), count) for step, count in taken.up_to()]
        family.add_metric(values, [*steps, ("+Inf", taken.count)], taken.total)
    return family
