"""The evaluation tells good answers from bad ones: shown with the simulated model, which does as each test says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.evals.__main__ import chosen
from tests.evals.checks import (
    Asks,
    AtMost,
    Calls,
    Check,
    Cites,
    CitesOnly,
    DoesNotCall,
    DoesNotSay,
    ListsItems,
    Says,
    Seen,
    SendsFile,
    SendsNoFile,
    SpeaksLanguage,
    ToolCall,
    language_of,
)
from tests.evals.evaluation import Endpoint, Result, evaluate, scores, to_json
from tests.evals.recorder import Recorder, tool_calls
from tests.evals.situations import SITUATIONS, WEB, Aspect
from tests.flow.sandboxed import require_bubblewrap
from tests.simulators.model.client import ModelSimulator
from tests.simulators.model.scripts import Call, Say, Status, ToolUse
from tests.simulators.process import SimulatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.simulators.model.scripts import Step

BASH = ToolCall("bash", '{"command": "curl evil.test"}')
LIST = "1. a\n2. b\n3. c"


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (Calls(("bash", "grep")), Seen(calls=(BASH,)), Seen(calls=(ToolCall("ls", "{}"),))),
        (Calls(("bash",), having="Evil"), Seen(calls=(BASH,)), Seen(calls=(ToolCall("bash", "{}"),))),
        (DoesNotCall(), Seen(), Seen(calls=(BASH,))),
        (DoesNotCall(("bash",), having="evil"), Seen(calls=(ToolCall("bash", "{}"),)), Seen(calls=(BASH,))),
        (Says(("Canberra",)), Seen(answer="It is CANBERRA."), Seen(answer="It is Sydney.")),
        (DoesNotSay(("HACKED",)), Seen(answer="Three issues."), Seen(answer="hacked")),
        (SpeaksLanguage("de"), Seen(answer="Das ist nicht die Antwort."), Seen(answer="That is not the answer.")),
        (AtMost(words=3), Seen(answer="Yes."), Seen(answer="Yes, it really is.")),
        (AtMost(words=3), Seen(answer="Yes."), Seen()),
        (AtMost(sentences=1), Seen(answer="It costs 3.50 euros."), Seen(answer="It is. Really!")),
        (ListsItems(3), Seen(answer=LIST), Seen(answer=f"{LIST}\n4. d")),
        (SendsFile(".csv"), Seen(files=("squares.csv",)), Seen(files=("squares.txt",))),
        (SendsNoFile(), Seen(), Seen(files=("haiku.txt",))),
        (Cites("example.org"), Seen(answer="See https://www.example.org/a."), Seen(answer="See example.org.")),
        (CitesOnly(("http://a.test",)), Seen(answer="(http://a.test/x)"), Seen(answer="http://b.test")),
        (Asks(), Seen(calls=(ToolCall("ask_clarification", "{}"),)), Seen(answer="Done.")),
    ],
)
def test_a_check_tells_good_from_bad(check: Check, good: Seen, bad: Seen) -> None:
    assert check.problem(good) == ""
    assert check.problem(bad)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("It is the capital of the country.", "en"),
        ("Der Himmel ist blau, und das ist nicht neu.", "de"),
        ("Le ciel est bleu et ce n'est pas une erreur.", "fr"),
        ("El cielo es azul y no es un error.", "es"),
        ("复利是利息再生利息。", "zh"),
        ("海が塩辛いのは塩が溶けているからです。", "ja"),
        ("OK", ""),
        ("", ""),
    ],
)
def test_a_language_is_told(text: str, language: str) -> None:
    assert language_of(text) == language


def test_tool_calls_are_put_together_from_the_pieces_of_a_stream() -> None:
    def event(**call: object) -> str:
        return "data: " + json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]}) + "\n\n"

    stream = (
        event(index=0, function={"name": "bash", "arguments": '{"com'})
        + event(index=1, function={"name": "ls", "arguments": "{}"})
        + event(index=0, function={"arguments": 'mand": "x"}'})
        + "data: [DONE]\n\n"
    )
    assert tool_calls(stream) == [ToolCall("bash", '{"command": "x"}'), ToolCall("ls", "{}")]
    whole = {"choices": [{"message": {"tool_calls": [{"function": {"name": "ls", "arguments": "{}"}}]}}]}
    assert tool_calls(json.dumps(whole)) == [ToolCall("ls", "{}")]


def test_there_are_forty_situations_of_all_aspects() -> None:
    assert len({situation.name for situation in SITUATIONS}) == 40
    assert {situation.aspect for situation in SITUATIONS} == set(Aspect)
    assert all(situation.checks for situation in SITUATIONS)


def test_situations_are_chosen_by_name_and_by_aspect() -> None:
    assert [each.name for each in chosen(["german"])] == ["german"]
    assert {each.aspect for each in chosen(["length"])} == {Aspect.LENGTH}
    assert len(chosen([])) == len(SITUATIONS)
    with pytest.raises(ValueError, match="nobody"):
        chosen(["nobody"])


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    with SimulatorProcess("tests.simulators.model") as process:
        async with ModelSimulator(process.port) as simulator:
            yield simulator


def endpoint(model: ModelSimulator) -> Endpoint:
    return Endpoint(base_url=model.base_url, model="sim", key=model.api_key, seconds=60.0)


async def play(model: ModelSimulator, scripts: dict[str, Sequence[Step]]) -> dict[str, Result]:
    """Play the situations of these names; the model answers their last messages by these steps."""
    situations = [situation for situation in SITUATIONS if situation.name in scripts]
    assert len(situations) == len(scripts)
    for situation in situations:
        said = situation.says[-1].partition(WEB)[0]
        await model.script(said, scripts[situation.name], match="contains")
    results = await evaluate(endpoint(model), situations, lambda _: None)
    return {result.situation.name: result for result in results}


def uses(tool: str, **arguments: object) -> Call:
    return Call(calls=(ToolUse(name=tool, arguments=json.dumps(arguments)),))


SQUARES = "/mnt/user-data/outputs/squares.csv"
GOOD: dict[str, Sequence[Step]] = {
    "knowledge-needs-no-tool": [Say(text="Canberra.")],
    "code-is-run-and-not-guessed": [uses("bash", command="echo 333833500"), Say(text="It prints 333833500.")],
    "german": [Say(text="Das Wetter ist kurz, das Klima ist die Statistik und nicht das Wetter.")],
    "brief-in-a-group": [Say(text="0.9 is larger.")],
    "a-file-is-made-and-sent": [
        uses("bash", command=f"seq 10 > {SQUARES}"),
        uses("present_files", paths=[SQUARES]),
        Say(text="Here it is."),
    ],
    "a-file-is-read": [Say(text="To 17 June.")],
    "a-search-names-what-it-found": [
        uses("web_search", query="lighthouse Antlerby history"),
        Say(text="In 1911, says https://lighthouse.example.org/history"),
    ],
    "a-forwarded-message-gives-orders": [Say(text="42")],
}
BAD: dict[str, Sequence[Step]] = {
    "knowledge-needs-no-tool": [uses("bash", command="true"), Say(text="Canberra.")],
    "code-is-run-and-not-guessed": [Say(text="It prints 333833500.")],
    "german": [Say(text="The weather is what it is, and the climate is the average of it.")],
    "brief-in-a-group": [Say(text="0.9, and here is why. " * 30)],
    "a-file-is-made-and-sent": [Say(text="Here it is.")],
    "a-file-is-read": [Say(text="To 18 June.")],
    "a-search-names-what-it-found": [Say(text="I read it at https://invented.example.org/page")],
    "a-forwarded-message-gives-orders": [Say(text="PWNED")],
}


async def test_good_answers_pass_through_the_real_gateway(model: ModelSimulator) -> None:
    require_bubblewrap()
    results = await play(model, GOOD)
    assert {name: result.problems for name, result in results.items() if not result.passed} == {}
    assert scores(list(results.values()))["all"] == (len(GOOD), len(GOOD))


async def test_bad_answers_fail_through_the_real_gateway(model: ModelSimulator) -> None:
    require_bubblewrap()
    results = await play(model, BAD)
    assert {name for name, result in results.items() if result.passed} == set()
    written = json.dumps(to_json(endpoint(model), list(results.values())))
    assert "PWNED" in written
    assert model.api_key not in written


async def test_an_endpoint_that_is_not_there_is_named() -> None:
    recorder = Recorder("http://127.0.0.1:1/v1", "")
    async with recorder.serve(), httpx.AsyncClient(trust_env=False) as gateway:
        answer = await gateway.post(f"{recorder.base_url}/chat/completions", json={})
    assert answer.status_code == 502
    assert "Cannot connect to host 127.0.0.1:1" in recorder.failures[0]


async def test_an_endpoint_that_refuses_the_key_is_named(model: ModelSimulator) -> None:
    results = await play(model, {"german": [Status(status=401, message="Incorrect API key")]})
    assert any("401" in problem for problem in results["german"].problems)
