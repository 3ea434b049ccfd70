"""What a probe of a model finds out, against the simulated provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.config import ModelSettings
from harness.models.probe import COUNT, NAME_THE_COLOUR, USE_THE_TOOL, ModelReport, probe
from tests.simulators.model.scripts import Call, Finish, Hang, Say, Status, ToolUse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.model.scripts import Step

CALLS = Call(calls=(ToolUse(name="weather", arguments='{"city": "Paris"}'),))


async def probed(
    simulator: ModelSimulator,
    answer: Sequence[Step] = (Say(text="one two three", delay_ms=200),),
    tool: Sequence[Step] = (CALLS,),
    picture: Sequence[Step] = (Say(text="It is Red."),),
    **settings: Any,
) -> ModelReport:
    await simulator.script(COUNT, answer)
    await simulator.script(USE_THE_TOOL, tool)
    await simulator.script(NAME_THE_COLOUR, picture, match="contains")
    given = {"name": "main", "model": "sim", "base_url": simulator.base_url, "api_key": simulator.api_key}
    return await probe(ModelSettings.model_validate(given | settings), (None, None), "models[0]")


async def test_a_model_that_can_do_everything(simulator: ModelSimulator) -> None:
    report = await probed(simulator, supports_vision=True)
    assert (report.streams, report.calls_tools, report.sees, report.problems) == (True, True, True, ())
    assert report.first_word is not None
    assert 0 < report.first_word < 30


async def test_pictures_are_only_shown_to_a_model_that_is_said_to_see(simulator: ModelSimulator) -> None:
    assert (await probed(simulator)).sees is None
    assert len(await simulator.completions()) == 2


@pytest.mark.parametrize(
    ("status", "said", "remedy"),
    [
        (401, "auth: ", "set models[0].api_key to a key of this provider"),
        (404, "not found: ", "set models[0].model to a name that the provider lists"),
        (402, "quota: ", "the provider's account has no credit left"),
        (429, "rate limited: ", "the provider accepts no more calls now"),
        (500, "unavailable: ", "check the provider's status page"),
    ],
)
async def test_a_refusal_ends_the_questions(simulator: ModelSimulator, status: int, said: str, remedy: str) -> None:
    report = await probed(simulator, answer=(Status(status=status),))
    (problem,) = report.problems
    assert problem.what.startswith(said)
    assert problem.remedy.startswith(remedy)
    assert problem.fatal
    assert report.first_word is None
    assert len(await simulator.completions()) == 1


async def test_a_server_that_is_not_there(simulator: ModelSimulator) -> None:
    (problem,) = (await probed(simulator, base_url="http://127.0.0.1:1/v1")).problems
    assert problem.what.startswith("connection: ")
    assert "models[0].base_url" in problem.remedy


async def test_a_server_that_says_nothing_is_given_up_after_the_models_timeout(simulator: ModelSimulator) -> None:
    (problem,) = (await probed(simulator, answer=(Hang(),), timeout=0.3)).problems
    assert problem.what.startswith("timeout: ")


async def test_a_model_that_does_not_call_the_tool(simulator: ModelSimulator) -> None:
    report = await probed(simulator, tool=(Say(text="It is sunny in Paris."),))
    (problem,) = report.problems
    assert report.calls_tools is False
    assert problem.what == "it did not call the tool that it was told to call"


async def test_a_server_that_refuses_tools(simulator: ModelSimulator) -> None:
    # On a busy machine the answer before it may arrive in one piece, which is told too.
    *_, problem = (await probed(simulator, tool=(Status(status=400),))).problems
    assert problem.what.startswith("it fails when given a tool: bad request: ")


async def test_a_model_that_is_said_to_see_and_does_not(simulator: ModelSimulator) -> None:
    # On a busy machine the answer before it may arrive in one piece, which is told too.
    *_, problem = (await probed(simulator, picture=(Say(text="Blue"),), supports_vision=True)).problems
    assert problem.what == "it does not recognize a red image as red"
    report = await probed(simulator, picture=(Status(status=400),), supports_vision=True)
    assert report.sees is False
    assert report.problems[0].what.startswith("it rejects images: ")


async def test_an_answer_in_one_piece_is_told(simulator: ModelSimulator) -> None:
    report = await probed(simulator, answer=(Say(text="one", pieces=1),))
    assert report.streams is False
    assert report.problems[0].what.startswith("its answer comes in one piece")


async def test_an_empty_answer_is_told(simulator: ModelSimulator) -> None:
    (problem,) = (await probed(simulator, answer=(Finish(reason="stop"),))).problems
    assert problem.what == "it returns an empty answer"


async def test_a_class_that_is_not_installed_is_told() -> None:
    settings = ModelSettings(name="main", use="langchain_nowhere:ChatNowhere", model="x")
    (problem,) = (await probe(settings, (None, None))).problems
    assert "pip install" in problem.what
