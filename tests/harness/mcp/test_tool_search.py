"""Finding tools by name, by words and by expression; never slowly."""

from __future__ import annotations

import time

import pytest
from langchain_core.tools import BaseTool, StructuredTool

from harness.mcp.tool_search import LONGEST_ANSWER, MOST_FOUND, MOST_SELECTED, _told, find
from tests.tables import table


def made(name: str, description: str = "d") -> BaseTool:
    return StructuredTool(
        name=name, description=description, args_schema={"type": "object", "properties": {}}, func=lambda: None
    )


TOOLS = [
    made("create_issue", "Opens an issue in the tracker."),
    made("list_issues", "Lists issues of a project."),
    made("send_mail", "Sends a mail. Mentions no issue"),
    made("weather", "Forecast for a city."),
]
MANY = [made(f"tool_{number:03}", "a" * 1000) for number in range(500)]


@table(
    ("query", "names"),
    [
        ("select:weather,create_issue, nothing", ["weather", "create_issue"]),
        ("Select: weather", ["weather"]),
        ("+issue project", ["list_issues", "create_issue", "send_mail"]),
        ("+issue +tracker", ["create_issue"]),
        ("forecast city", ["weather"]),
        ("^(create|list)_", ["create_issue", "list_issues"]),
        ("MAIL", ["send_mail"]),
        ("issue.*project", ["list_issues"]),
        ("nothing alike", []),
        ("((", []),
        ("", []),
        ("+", []),
        ("\ud800", []),
    ],
)
def test_queries(query: str, names: list[str]) -> None:
    assert [each.name for each in find(query, TOOLS)] == names


def test_answers_are_bounded() -> None:
    assert len(find("tool", MANY)) == MOST_FOUND
    every = find("select:" + ",".join(each.name for each in MANY), MANY)
    assert len(every) <= MOST_SELECTED
    assert len(_told([*MANY[:MOST_SELECTED]])) <= LONGEST_ANSWER + 2000


@pytest.mark.parametrize("query", ["(a*)*b", "(a|a)*$x", "a{0,900}a{0,900}b", r"\pL" * 60, "((((a{30}){30}){30})b)"])
def test_no_expression_is_slow(query: str) -> None:
    began = time.process_time()
    find(query, MANY)
    assert time.process_time() - began < 2.0
