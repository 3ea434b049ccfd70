"""Messages that a person sends while the agent works for them: they join the thread before the next model call, after
the tool results. Fetched by the chain's only node hook, so that thread and record share one checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.events import Notice
from harness.graph.messages import round_of
from harness.graph.signals import Told, scope_of, tell
from harness.graph.state import STEERED
from harness.prompt import user_turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.messages import HumanMessage
    from langgraph.runtime import Runtime

    from harness.config import ModelSettings
    from harness.ports import Clock, Steering


@dataclass(frozen=True, slots=True)
class Joined:
    """messages: to be added to the thread. taken: the ids of all messages that joined this run, including these."""

    messages: tuple[HumanMessage, ...] = ()
    taken: tuple[str, ...] = ()

    @property
    def update(self) -> dict[str, Any]:
        """Changes to the state, without the messages; empty if nothing joined."""
        return {STEERED: list(self.taken)} if self.messages else {}


NOTHING = Joined()


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Fetches messages that arrive during a run. model: the one that reads them."""

    steering: Steering
    model: ModelSettings
    clock: Clock

    async def said(self, state: Mapping[str, Any], runtime: Runtime[Any]) -> Joined:
        """The new messages. The state, not the history, says which are known: a message may have been summarised
        since."""
        scope = scope_of(runtime)
        # A restarted turn repeats its first call unchanged: people may have read part of the answer.
        more = not scope.again or any(round_of(scope.ctx.run_id, message) for message in state["messages"])
        inputs = await self.steering.said(scope.ctx, more=more)
        known = set(state.get(STEERED) or ())
        messages = []
        for run_input in inputs:
            if run_input.message_id in known:
                continue
            turn = await user_turn(
                scope.ctx,
                run_input,
                now=self.clock.now(),
                sees_images=self.model.supports_vision,
                has_sandbox=scope.sandbox is not None,
                meanwhile=True,
            )
            if turn.unseen:
                tell(runtime, Told(partial(Notice, kind="images_not_seen", model=self.model.name)))
            messages.append(turn.message)
        return Joined(tuple(messages), tuple(each.message_id for each in inputs)) if messages else NOTHING
