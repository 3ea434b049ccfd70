"""What of an edited config holds at once, and what needs a restart."""

from __future__ import annotations

from typing import Any

import pytest

from bot.operations.reload import LIVE, change
from bot.settings import Settings

BASE: dict[str, Any] = {
    "models": [{"name": "main", "use": "demo"}],
    "channels": {"console": {}, "second": {"type": "console", "access": {"allow": ["second:1"]}}},
}


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
    ],
)
def test_these_hold_at_once(key: str, value: Any) -> None:
    new = settings(**{key: value})
    changed = change(settings(), new)
    assert (changed.settings, changed.applied, changed.restart) == (new, (key,), ())


def test_the_others_wait_for_a_restart_and_do_not_hold_until_then() -> None:
    changed = change(settings(), settings(timezone="Europe/Berlin", limits={"message_burst": 2}))
    assert (changed.applied, changed.restart) == (("limits",), ("timezone",))
    assert (changed.settings.timezone, changed.settings.limits.message_burst) == ("UTC", 2)
    # The next reading still says so.
    assert change(changed.settings, settings(timezone="Europe/Berlin")).restart == ("timezone",)


def test_of_an_account_who_may_talk_holds_and_its_connection_does_not() -> None:
    own = {"type": "console", "access": {"allow": ["second:2"]}, "locale": "zh", "proxy": "http://127.0.0.1:3128"}
    changed = change(settings(), settings(channels={"console": {}, "second": own}))
    assert changed.applied == ("channels.second.access", "channels.second.locale")
    assert changed.restart == ("channels.second",)
    second = changed.settings.channels["second"]
    assert changed.settings.access_for("second").allow == ("second:2",)
    assert (second.locale, second.proxy) == ("zh", None)


def test_accounts_come_and_go_with_a_restart() -> None:
    changed = change(settings(), settings(channels={"console": {}, "third": {"type": "console"}}))
    assert changed.restart == ("channels.second", "channels.third")
    assert list(changed.settings.channels) == ["console", "second"]


def test_an_account_that_is_gone_from_the_config_is_not_opened_by_what_is_written_for_the_others() -> None:
    own = {"type": "console", "access": {"i_accept_public": False}, "conversations": {"busy": "reject"}}
    before = settings(channels={"console": {}, "second": own})
    public = {"allow": ["*"], "i_accept_public": True, "groups": {"allow": ["*"]}}
    changed = change(before, settings(channels={"console": {}}, access=public, conversations={"busy": "queue"}))
    assert changed.settings.access_for("console").allow == ("*",)
    assert changed.settings.access_for("second") == before.access_for("second")
    assert changed.settings.conversations_for("second") == before.conversations_for("second")
    # And the next reading leaves it so.
    again = change(changed.settings, settings(channels={"console": {}}, access=public))
    assert again.settings.access_for("second") == before.access_for("second")


def test_all_live_keys_are_keys() -> None:
    assert set(Settings.model_fields) >= LIVE
