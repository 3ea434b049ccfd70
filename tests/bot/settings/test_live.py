"""What of an edited config holds at once, and what needs a restart."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bot.operations.reload import RESTART, change
from bot.settings import Settings

BASE: dict[str, Any] = {
    "models": [{"name": "main", "use": "demo"}],
    "channels": {"console": {}, "second": {"type": "console", "access": {"allow": ["second:1"]}}},
}
DOCS = Path(__file__).parents[3] / "docs" / "operating.md"


def settings(**more: Any) -> Settings:
    return Settings.model_validate(BASE | more)


def test_nothing_changed() -> None:
    changed = change(settings(), settings())
    assert (changed.settings, changed.applied, changed.restart) == (settings(), (), ())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("models", [{"name": "main", "use": "demo"}, {"name": "other", "use": "demo"}]),
        ("access", {"allow": ["console:1"]}),
        ("conversations", {"busy": "reject"}),
        ("limits", {"concurrent_runs": 3}),
        ("mcp_servers", {"files": {"command": "true"}}),
        ("budgets", {"run": {"tokens": 5}}),
        ("memory", {"max_facts": 7}),
        ("network", {"proxy": "http://127.0.0.1:3128"}),
        ("timezone", "Europe/Berlin"),
        ("log", {"format": "json"}),
        ("http", {"listen": "127.0.0.1:8642"}),
    ],
)
def test_these_hold_at_once(key: str, value: Any) -> None:
    new = settings(**{key: value})
    changed = change(settings(), new)
    assert (changed.settings, changed.applied, changed.restart) == (new, (key,), ())


RESTARTED: dict[str, Any] = {
    "data_dir": "/elsewhere",
    "database": {"url": "postgresql://a:b@c/d"},
    "memory": {"storage": "database", "max_facts": 7},
    "sandbox": {"use": "off"},
    "tracing": {"content": True},
    "workers": {"enabled": True},
}


def test_the_others_wait_for_a_restart_and_do_not_hold_until_then() -> None:
    new = settings(**RESTARTED)
    changed = change(settings(), new)
    assert (changed.applied, changed.restart) == (("memory",), RESTART)
    assert changed.settings == settings(memory={"max_facts": 7})
    # The next reading still says so.
    assert change(changed.settings, new).restart == RESTART


def test_the_way_to_a_sandbox_elsewhere_is_found_at_the_start() -> None:
    remote = {"use": "remote", "remote": {"url": "https://sandboxes.example.org", "token": "0123456789abcdef"}}
    proxied = settings(sandbox=remote, network={"proxy": "http://127.0.0.1:3128"})
    changed = change(settings(sandbox=remote), proxied)
    assert (changed.applied, changed.restart) == (("network",), ("sandbox",))


def test_traces_go_the_way_that_was_found_at_the_start() -> None:
    traced = {"tracing": {"otlp": {"url": "http://127.0.0.1:4318/v1/traces"}}}
    changed = change(settings(**traced), settings(**traced, network={"proxy": "http://127.0.0.1:3128"}))
    assert (changed.applied, changed.restart) == (("network",), ("tracing",))


def test_what_needs_a_restart_is_short_and_in_the_docs() -> None:
    assert len(RESTART) <= 6
    told = re.split(r"need\s+a\s+restart:", DOCS.read_text())[1].partition("\n\n")[0]
    assert tuple(told.split("`")[1::2]) == RESTART


def test_keys_of_accounts_that_differ_are_named() -> None:
    own = {"type": "console", "access": {"allow": ["second:2"]}, "locale": "zh", "proxy": "http://127.0.0.1:3128"}
    changed = change(settings(), settings(channels={"third": {"type": "console"}, "second": own}))
    of_second = [f"channels.second.{key}" for key in ("access", "locale", "proxy")]
    assert changed.applied == ("channels.console", *of_second, "channels.third")
    assert list(changed.settings.channels) == ["third", "second"]
