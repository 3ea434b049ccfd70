"""The crash windows: moments between two steps, each given by a seam of the product at which the process kills itself.

The product does not know this table. `crash.py` wraps the seams in the launched process; `at_windows.py` makes it reach
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from channels.message import Message
from harness.events import TextDelta

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Side = Literal["before", "after"]


def _always(arguments: Mapping[str, Any]) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A moment of a kill: `side` of a call of `seam` ("module:Class.method") that `counts`.

    linger: seconds before the kill, so that concurrent work completes. stimulus: kinds of messages (load.SCRIPTS) that
    reach it, each sent once per passing. passings: the last one at which to kill. resumes: the killed run continues
    from a checkpoint with all model calls so far, so that none may be repeated. stopped_after: the person sends /stop
    before the next process starts. account: the only platform on which it is reached, "" for all.
    """

    name: str
    seam: str
    side: Side
    state: str
    counts: Callable[[Mapping[str, Any]], bool] = _always
    linger: float = 0.0
    stimulus: tuple[str, ...] = ("say", "stream")
    passings: int = 3
    resumes: bool = False
    stopped_after: bool = False
    account: str = ""


def _speaks(arguments: Mapping[str, Any]) -> bool:
    return any(isinstance(event, Message) for event in arguments["events"])


WINDOWS: tuple[Window, ...] = (
    Window(
        name="W1",
        seam="bot.inbound.bus:MessageBus.publish",
        side="before",
        counts=_speaks,
        passings=1,  # many messages may come in one batch
        state="received, the inbox row is not committed",
    ),
    Window(
        name="W2",
        seam="bot.inbound.bus:MessageBus.publish",
        side="after",
        counts=_speaks,
        passings=1,  # many messages may come in one batch
        state="the inbox row is committed, the platform was not told",
    ),
    Window(
        name="W3",
        seam="bot.runs.manager:RunManager.execute",
        side="before",
        # Until then the next poll is sent, which acknowledges the update to Telegram.
        linger=0.1,
        state="acknowledged, the run has not started",
    ),
    Window(
        name="W4",
        seam="bot.delivery.reply:Reply.intended_early",
        side="after",
        passings=1,  # not for messages that wait for the previous answer
        state="a run has started, the intent of its first message is committed, it is not sent",
    ),
    Window(
        name="W18",
        seam="bot.delivery.journal:Journal.intend",
        side="after",
        stimulus=("long",),
        state="the intent of a later message is committed, it is not sent",
    ),
    Window(
        name="W5",
        seam="channels.telegram.channel:TelegramChannel.send",
        side="after",
        account="telegram",
        state="a message is sent, its id is not recorded",
    ),
    Window(
        name="W6",
        seam="harness.threads.sqlite_saver:ThreadedSqliteSaver._write",
        side="after",
        stimulus=("tool", "stream"),
        resumes=True,
        state="between two steps of the agent, all of them written",
    ),
    Window(
        name="W17",
        seam="harness.threads.sqlite_saver:ThreadedSqliteSaver._write",
        side="before",
        stimulus=("tool", "stream"),
        state="the agent has made steps that are not written",
    ),
    Window(
        name="W7",
        seam="bot.store.run_events:StoreEffectLog.done",
        side="before",
        stimulus=("tool",),
        state="a tool has acted, its result is not recorded",
    ),
    Window(
        name="W8",
        seam="bot.delivery.service:Delivery.finished",
        side="before",
        state="the final text is stored, not sent",
    ),
    Window(
        name="W9",
        seam="bot.delivery.journal:Journal.delivered",
        side="before",
        state="the final text is shown, that is not recorded",
    ),
    Window(
        name="W10",
        seam="bot.delivery.journal:Journal.delivered",
        side="after",
        state="the final text is shown and that is recorded",
    ),
    Window(
        name="W11",
        seam="bot.delivery.journal:Journal.sent",
        side="after",
        counts=lambda arguments: arguments["part"].part >= 1,
        stimulus=("long",),
        state="some parts of a long answer are sent",
    ),
    Window(
        name="W13",
        seam="bot.runs.render:RunView.apply",
        side="after",
        counts=lambda arguments: isinstance(arguments["event"], TextDelta),
        stimulus=("slow",),
        stopped_after=True,
        state="in mid answer; the person says /stop before the restart",
    ),
    Window(
        name="W16",
        seam="bot.runs.manager:RunManager._end",
        side="before",
        counts=lambda arguments: arguments["ending"].state == "success",
        resumes=True,
        state="the agent has finished, its answer is not stored",
    ),
)
BY_NAME = {window.name: window for window in WINDOWS}


SENT = "a message is sent, its id is not recorded"

ELSEWHERE: tuple[Window, ...] = (
    Window(name="W5-slack", account="slack", seam="channels.slack.channel:SlackChannel.send", side="after", state=SENT),
    Window(
        name="W5-feishu", account="feishu", seam="channels.feishu.channel:FeishuChannel.send", side="after", state=SENT
    ),
    # Answers and notices are streams there; replies to commands are sent.
    Window(
        name="W5-wecom",
        account="wecom",
        seam="channels.wecom.channel:WecomChannel.send",
        side="after",
        stimulus=("status",),
        state=SENT,
    ),
    # A stream is opened for an answer that takes a while and is first in its queue.
    Window(
        name="W5-stream",
        account="wecom",
        seam="channels.wecom.channel:WecomChannel.open_stream",
        side="after",
        stimulus=("slow",),
        passings=1,
        state="a stream is begun, its id is not recorded",
    ),
    Window(
        name="W9-stream",
        account="wecom",
        seam="channels.wecom.stream:WecomStream.finish",
        side="after",
        stimulus=("slow",),
        passings=1,
        state="the stream ends with the final text, that is not recorded",
    ),
)
"""W5 and W9 on the other platforms; the other windows are the same on all."""


IN_CLUSTER: tuple[Window, ...] = (
    Window(name="C1", seam="bot.store.worker_runs:order", side="after", state="a run is ordered, not committed"),
    Window(
        name="C2",
        seam="bot.workers.queue:OutlivingJobs.fetch_job",
        side="after",
        # Most polls find no job.
        passings=3,
        state="a worker was given a job, and does not know of it yet",
    ),
    Window(name="C3", seam="bot.workers.jobs:_found", side="after", state="a worker has read its run, not begun"),
    Window(
        name="C4",
        seam="harness.threads.postgres_saver:RetryingPostgresSaver.aput",
        side="after",
        stimulus=("tool", "stream"),
        state="a worker is between two steps of the agent",
    ),
    Window(name="C5", seam="bot.workers.jobs:Outlet.end", side="before", state="a run has told all, not committed"),
    Window(name="C6", seam="bot.workers.jobs:Outlet.end", side="after", state="a run's end is committed"),
)
"""Windows of clusters, where gateways and workers are separate processes."""
