"""The gateway and the evaluation with a real model behind a real server: it proves the wire, not the wits.

The model is the smallest that there is; whether it says something sensible is not asked here.
"""

from __future__ import annotations

import os

import pytest

from bot.texts.en import EN
from tests.evals import real_model
from tests.evals.evaluation import Endpoint, evaluate, scores
from tests.evals.situations import SITUATIONS
from tests.simulators.process import SimulatorProcess

PLAYED = ("small-talk-needs-no-tool", "brief-in-a-group")
SECONDS = 400.0
"""For one answer: the first reads the whole prompt, the next finds it in the server's cache."""

if real_model.missing() and not os.environ.get("CI"):
    pytest.skip(real_model.missing(), allow_module_level=True)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_a_real_model_answers_through_the_real_gateway() -> None:
    assert not real_model.missing()
    situations = [situation for situation in SITUATIONS if situation.name in PLAYED]
    with SimulatorProcess("tests.evals.real_model", start_timeout=120.0) as server:
        endpoint = Endpoint(
            base_url=f"http://127.0.0.1:{server.port}/v1",
            model=real_model.NAME,
            context_window=real_model.CONTEXT,
            max_tokens=24,
            seconds=SECONDS,
        )
        results = await evaluate(endpoint, situations, lambda _: None)
    assert scores(results)["all"][1] == len(PLAYED)
    for result in results:
        wire = [problem for problem in result.problems if problem.startswith(("the endpoint", "no answer"))]
        assert wire == []
        said = result.seen.answer.replace(EN.cut_short, "").strip()
        assert said, result.situation.name
        assert "⚠️" not in said
