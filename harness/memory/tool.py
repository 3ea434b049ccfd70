"""remember and recall: the agent keeps something about the person, or the group, and looks up more than it was told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from langchain_core.tools import tool

from harness.graph.calls import IDEMPOTENT, asking_message
from harness.graph.results import Answer, Runtime, done, failed
from harness.graph.signals import scope_of
from harness.memory.model import LONGEST_FACT, Category
from harness.memory.port import MemoryUnavailable, NotKept
from harness.memory.recall import found
from harness.memory.taint import LASTS
from harness.text.plain import clean_text

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from harness.memory.port import Remembering
    from harness.ports import Clock

REMEMBER, RECALL = "remember", "recall"
REMEMBERING = """\
Remember one thing about the person (in a group: about the group and its work) for later conversations, because they ask
for it or put right what you know. One sentence in their language that is complete without this conversation. Never
secrets such as passwords, keys, codes and card numbers."""
RECALLING = """\
Look up what is remembered of earlier conversations with the person (in a group: with the group) by words that may be in
it. Without a query: what matters most."""
NOT_A_PERSON = "Nothing is remembered: this message was sent anonymously or in the name of a chat."
NOTHING = "Nothing about that is remembered."


def memory_tools(remembering: Remembering, clock: Clock) -> list[BaseTool]:
    """For runner.py. What a call keeps is known by the call, so that it may be repeated."""

    @tool(REMEMBER, description=REMEMBERING)
    async def remember(
        content: Annotated[str, f"The sentence, at most {LONGEST_FACT} characters"],
        runtime: Runtime,
        category: Category = "context",
    ) -> Answer:
        scope, text = scope_of(runtime), " ".join(clean_text(content).split())
        if not scope.ctx.speaker.is_person:
            return failed(runtime, REMEMBER, NOT_A_PERSON)
        if len(text) > LONGEST_FACT:
            return failed(runtime, REMEMBER, f"Nothing is remembered: at most {LONGEST_FACT} characters.")
        call_id = runtime.tool_call_id or ""
        call = f"{scope.key(asking_message(runtime.state['messages'], call_id))}/{call_id}"
        try:
            fact = await remembering.memories.remember(scope.ctx, call, text, category)
        except NotKept as error:
            return failed(runtime, REMEMBER, f"Nothing is remembered. {error}")
        except MemoryUnavailable:
            return failed(
                runtime, REMEMBER, "Nothing is remembered: the memory cannot be written now. Tell the person."
            )
        return done(runtime, REMEMBER, f"Remembered: {fact.content}")

    @tool(RECALL, description=RECALLING)
    async def recall(runtime: Runtime, query: Annotated[str, "A few words"] = "") -> Answer:
        try:
            known = await remembering.memories.recalled(scope_of(runtime).ctx)
        except MemoryUnavailable:
            return failed(runtime, RECALL, "The memory cannot be read now.")
        lines = found(known.memory, query[:1000], remembering.settings, clock.now())
        return done(runtime, RECALL, "\n".join(lines) or NOTHING)

    remember.metadata = {IDEMPOTENT: True, LASTS: "content"}
    recall.metadata = {IDEMPOTENT: True}
    return [remember, recall]
