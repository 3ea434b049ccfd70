"""The platforms that the channel contract runs on: each is made in its `bench_<platform>.py` and has its lines here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.contracts import bench_feishu, bench_memory, bench_slack, bench_telegram, bench_wecom
from tests.contracts.bench_console import console
from tests.contracts.bench_feishu import feishu
from tests.contracts.bench_http import http
from tests.contracts.bench_memory import memory
from tests.contracts.bench_slack import slack
from tests.contracts.bench_telegram import telegram
from tests.contracts.bench_wecom import wecom
from tests.memory_channel import APPEND_ONLY, FULL, NO_BUTTONS, NO_EDIT, NO_IDEMPOTENCY, MemoryMode

if TYPE_CHECKING:
    from tests.contracts.bench import MakeBench, Refusal

REFUSALS: dict[str, tuple[Refusal[Any], ...]] = {
    "memory": bench_memory.REFUSALS,
    "feishu": bench_feishu.REFUSALS,
    "slack": bench_slack.REFUSALS,
    "telegram": bench_telegram.REFUSALS,
    "wecom": bench_wecom.REFUSALS,
}
"""By bench: what its platform documents to refuse."""

BENCHES: dict[str, MakeBench] = {
    "memory": memory(FULL),
    "memory append-only": memory(APPEND_ONLY),
    "memory no-edit": memory(NO_EDIT),
    "memory no-idempotency": memory(NO_IDEMPOTENCY),
    "memory no-buttons": memory(NO_BUTTONS),
    "memory previews": memory(MemoryMode(previews=True)),
    "console": console,
    "feishu": feishu(),
    "http": http(),
    "slack": slack(),
    "slack streams": slack(streaming="stream"),
    "telegram": telegram(),
    "telegram drafts": telegram(streaming="draft", adopt_placeholders=True),
    "wecom": wecom(),
}
