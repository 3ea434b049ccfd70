"""DanglingToolCall: whatever the history is, a strict provider takes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from harness.graph.calls import INTERRUPTED
from harness.middleware.requests import pair_tool_calls
from tests.harness.support import calls, unpaired

CALL_IDS = st.sampled_from(["a", "b", "c"])
MESSAGES = st.lists(
    st.one_of(
        st.just(HumanMessage("hi")),
        st.just(AIMessage("hello")),
        st.lists(CALL_IDS, min_size=1, max_size=3, unique=True).map(
            lambda ids: calls(*[("t", {})] * len(ids), ids=ids)
        ),
        CALL_IDS.map(lambda i: ToolMessage("result", tool_call_id=i)),
    ),
    max_size=10,
)


@given(MESSAGES)
def test_every_call_is_answered_once_and_nothing_else_is(messages: list[AnyMessage]) -> None:
    paired = pair_tool_calls(messages)
    assert unpaired(paired) is None
    assert [m for m in paired if not isinstance(m, ToolMessage)] == [
        m for m in messages if not isinstance(m, ToolMessage)
    ]
    assert pair_tool_calls(paired) is paired


def test_a_result_is_kept_and_a_missing_one_is_made_up_honestly() -> None:
    asking = calls(("t", {}), ("t", {}), ids=["a", "b"])
    result = ToolMessage("fine", tool_call_id="b")
    paired = pair_tool_calls([asking, HumanMessage("and?"), result])
    assert [m.content for m in paired[1:]] == [INTERRUPTED, "fine", "and?"]


def test_a_history_without_tools_is_passed_on_as_it_is() -> None:
    messages: list[AnyMessage] = [HumanMessage("hi"), AIMessage("hello")]
    assert pair_tool_calls(messages) is messages
