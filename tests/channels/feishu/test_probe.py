"""What a probe of a Feishu account tells, against the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from channels.base import Route
from channels.feishu.config import RECEIPT, SCOPES
from channels.registry import probe
from tests.channels.feishu.support import config_for
from tests.channels.gateway import QuickClock
from tests.simulators.feishu import faults
from tests.simulators.feishu.state import SCOPES as ALL_SCOPES

if TYPE_CHECKING:
    from channels.base import AccountReport
    from tests.simulators.feishu.client import FeishuSimulator


async def probed(feishu: FeishuSimulator, **settings: Any) -> AccountReport:
    config = config_for(feishu, **settings)
    return await probe("feishu", "corp", config, lambda url: Route(), QuickClock(), alone=True)


async def test_good_credentials_tell_the_bot(feishu: FeishuSimulator) -> None:
    report = await probed(feishu)
    assert report.identity is not None
    assert report.identity.username == feishu.name
    assert report.problems == ()


async def test_a_wrong_secret_and_an_app_of_the_other_platform_are_refused(feishu: FeishuSimulator) -> None:
    for wrong in ({"app_secret": "not-the-secret"}, {"app_id": "cli_of_another_platform"}):
        (problem,) = (await probed(feishu, **wrong)).problems
        assert problem.remedy == (
            "set channels.corp.app_id and app_secret to what Credentials & Basic Info shows, and check domain "
            "(feishu or lark: an app exists on one of them only)"
        )
        assert "not-the-secret" not in problem.what


async def test_each_missing_scope_is_told_with_what_does_not_work(feishu: FeishuSimulator) -> None:
    await feishu.configure(scopes=sorted(ALL_SCOPES - {"im:resource"}))
    report = await probed(feishu)
    (problem,) = report.problems
    assert problem.what == "channels.corp lacks the scope im:resource: files cannot be read or sent"
    assert not problem.fatal
    await feishu.configure(scopes=[])
    report = await probed(feishu)
    assert len(report.problems) == len(SCOPES)
    assert [problem.fatal for problem in report.problems].count(True) == 1


async def test_the_right_to_react_is_asked_for_where_there_are_receipts(feishu: FeishuSimulator) -> None:
    await feishu.configure(scopes=sorted(ALL_SCOPES - {"im:message", "im:message.reactions:write_only"}))
    assert not any(RECEIPT.names[0] in problem.what for problem in (await probed(feishu)).problems)
    report = await probed(feishu, receipt="OnIt")
    assert report.problems[-1].what == (
        "channels.corp lacks the scope im:message.reactions:write_only: the `receipt` reaction is not shown"
    )
    assert not report.problems[-1].fatal


async def test_what_groups_do_not_tell_is_noted(feishu: FeishuSimulator) -> None:
    kept = ALL_SCOPES - {"im:message.group_msg"}
    await feishu.configure(scopes=sorted(kept))
    assert "only messages that mention it" in " ".join((await probed(feishu)).notes)
    await feishu.configure(scopes=sorted(kept - {"im:message.group_at_msg:readonly"} | {"im:message.group_msg"}))
    report = await probed(feishu)
    assert (report.problems, report.notes) == ((), ())


async def test_a_bot_that_is_not_released_is_told(feishu: FeishuSimulator) -> None:
    await feishu.configure(bot_active=False)
    problem = (await probed(feishu)).problems[0]
    assert problem.what == "the bot is not active (activate_status 0): people cannot message it"


async def test_a_platform_that_does_not_list_scopes_is_no_fault(feishu: FeishuSimulator) -> None:
    await feishu.fail("application.scope.list", faults.missing_scope("application:application"))
    report = await probed(feishu)
    assert report.problems == ()
    assert report.notes[0].startswith("its scopes are unknown (GET application/v6/scopes: Access denied.")
