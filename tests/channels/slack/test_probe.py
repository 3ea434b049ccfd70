"""What a probe of a Slack account tells, against the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from channels.base import Route
from channels.registry import probe
from channels.slack.config import SCOPES
from tests.channels.gateway import QuickClock
from tests.channels.slack.support import config_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.base import AccountReport
    from tests.channels.slack.support import Bench
    from tests.simulators.slack.client import SlackSimulator


async def probed(slack: SlackSimulator, *, alone: bool = True, **settings: Any) -> AccountReport:
    config = config_for(slack, **settings)
    return await probe("slack", "acme", config, lambda url: Route(), QuickClock(), alone=alone)


async def test_good_tokens_tell_the_bot_and_its_workspace(slack: SlackSimulator) -> None:
    report = await probed(slack)
    assert report.identity is not None
    assert report.identity.bot_id.endswith(slack.bot_user_id)
    assert report.place
    assert report.problems == ()


async def test_missing_scopes_are_listed_with_what_does_not_work(slack: SlackSimulator) -> None:
    missing = {"files:write", "users:read"}
    await slack.configure(scopes=[scope.name for scope in SCOPES if scope.name not in missing])
    report = await probed(slack)
    assert [problem.what for problem in report.problems] == [
        "channels.acme.bot_token lacks the scope files:write: files cannot be sent",
        "channels.acme.bot_token lacks the scope users:read: people are shown as ids, and their language is unknown",
    ]
    assert not any(problem.fatal for problem in report.problems)


async def test_without_the_right_to_answer_nothing_works(slack: SlackSimulator) -> None:
    await slack.configure(scopes=[scope.name for scope in SCOPES if scope.name != "chat:write"])
    report = await probed(slack)
    assert [problem.fatal for problem in report.problems] == [True]


async def test_a_revoked_bot_token_and_a_dead_app_token_are_told_apart(slack: SlackSimulator) -> None:
    await slack.break_tokens(bot_error="token_revoked")
    (problem,) = (await probed(slack)).problems
    assert problem.what == "Slack refuses channels.acme.bot_token (token_revoked)"
    await slack.break_tokens(app_error="invalid_auth")
    (problem,) = (await probed(slack)).problems
    assert problem.what == "Slack refuses channels.acme.app_token (invalid_auth)"
    await slack.break_tokens()
    await slack.configure(app_token_scopes=[])
    (problem,) = (await probed(slack)).problems
    assert problem.what == "channels.acme.app_token lacks the scope connections:write"


async def test_tokens_of_two_apps_are_named(slack: SlackSimulator) -> None:
    other = await slack.another_app("Other")
    (problem,) = (await probed(slack, app_token=other.app_token)).problems
    assert problem.what.startswith(f"channels.acme.app_token is for app {other.app_id}")


async def test_another_program_of_the_same_app_is_found(
    slack: SlackSimulator, make_bench: Callable[..., Bench]
) -> None:
    other = make_bench()
    async with other.running():
        (problem,) = (await probed(slack)).problems
        assert problem.what == "1 more socket is open for this app: Slack distributes its events among all of them"
        assert (await probed(slack, alone=False)).problems == ()
