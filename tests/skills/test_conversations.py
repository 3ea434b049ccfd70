"""Skills from the request to the file or the cited answer in the chat, by the commands of their own SKILL.md."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.simulators.telegram.seen import FileSpec
from tests.skills.conversation import follow, present, run, tool, write
from tests.skills.running import contents, require_runtime

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import Person

require_runtime()
pytestmark = pytest.mark.asyncio(loop_scope="module")

PUBLIC = "python3 /mnt/skills/public"
OUTPUTS = "/mnt/user-data/outputs"
ORDERS = (
    "Datum;Region;Umsatz\n01.02.2026;Nord;1.234,50\n02.02.2026;nord;265,50\n03.02.2026;Süd;500,00\nSumme;;2.000,00\n"
)


async def test_a_table_is_analysed_and_comes_back_as_excel(gateway: World, person: Person, tmp_path: Path) -> None:
    sql = "SELECT lower(region) AS region, sum(umsatz) AS revenue FROM orders GROUP BY 1 ORDER BY 2 DESC"
    book = {"title": "Umsatz", "notes": ["orders.csv"], "sheets": [{"name": "Regionen", "data": "by_region.csv"}]}
    played = await follow(
        gateway,
        person,
        "data-analysis",
        says="Which region brings most? As Excel please.",
        files=[FileSpec(name="orders.csv", mime="text/csv", content=ORDERS.encode("cp1252"))],
        does=[
            run(f"{PUBLIC}/data-analysis/scripts/profile_data.py /mnt/user-data/uploads/*-orders.csv"),
            run(
                f"{PUBLIC}/data-analysis/scripts/query.py --file orders=$(ls /mnt/user-data/uploads/*-orders.csv) "
                f'--sql "{sql}" --output by_region.csv'
            ),
            write("/mnt/user-data/workspace/spec.json", book),
            run(f"{PUBLIC}/data-analysis/scripts/make_workbook.py spec.json --output {OUTPUTS}/revenue-by-region.xlsx"),
            present("revenue-by-region.xlsx"),
        ],
        answers="The north: 1,500 of 2,000 €.",
    )
    _, profile, answer, *_ = played.results
    assert "last row left out, because it is a total" in profile
    assert "spelled in several ways: Nord / nord" in profile
    assert "| nord | 1500 |\n| süd | 500 |" in answer
    assert played.answer == "The north: 1,500 of 2,000 €."
    (tmp_path / "got.xlsx").write_bytes(played.files["revenue-by-region.xlsx"])
    assert contents(tmp_path / "got.xlsx")["Regionen"]["rows"] == [["region", "revenue"], ["nord", 1500], ["süd", 500]]


async def test_figures_come_back_as_a_picture(gateway: World, person: Person) -> None:
    rows = [{"month": f"2026-0{number}", "sold": 10 * number} for number in range(1, 7)]
    chart = {"type": "line", "data": rows, "x": "month", "y": "sold", "unit": "pieces", "zero": True}
    played = await follow(
        gateway,
        person,
        "chart-visualization",
        says="Draw 10, 20, 30, 40, 50, 60 from January to June.",
        does=[
            write("/mnt/user-data/workspace/chart.json", chart | {"title": "Sales grow every month", "source": "you"}),
            run(
                f"{PUBLIC}/chart-visualization/scripts/draw_chart.py /mnt/user-data/workspace/chart.json "
                f"--output {OUTPUTS}/sales.png"
            ),
            present("sales.png"),
        ],
        answers="Sales grow by 10 pieces a month.",
    )
    assert f"{OUTPUTS}/sales.png: line, 6 values, 1600 x 1200, font " in played.results[2]
    assert "warning" not in played.results[2]
    with Image.open(io.BytesIO(played.files["sales.png"])) as picture:
        assert picture.size == (1600, 1200)
    assert len(await gateway.telegram.records("sendPhoto", chat=person)) == 1, "shown, not attached"


async def test_a_question_is_researched_and_answered_with_its_source(gateway: World, person: Person, web: str) -> None:
    ledger = f"{PUBLIC}/deep-research/scripts/ledger.py"
    draft = "/mnt/user-data/workspace/research/draft.md"
    quote = "The lighthouse of Antlerby was painted green in 1911"
    played = await follow(
        gateway,
        person,
        "deep-research",
        says="Since when is the lighthouse of Antlerby green?",
        does=[
            run(f'{ledger} start "Since when is it green?" --sub "When was it painted?"'),
            tool("web_search", query="lighthouse Antlerby green painted"),
            tool("web_fetch", url=f"{web}/article"),
            run(
                f'{ledger} source {web}/article --title "The lighthouse" --publisher "Museum of Antlerby" '
                "--published unknown --kind primary"
            ),
            run(f'{ledger} claim "It was painted green in 1911." --sub Q1 --source S1 --quote "{quote}" --key'),
            run(f"{ledger} status"),
            write(draft, "The lighthouse is green since **1911** [C1]. Before that it was white [S1].\n"),
            run(f"{ledger} check {draft}"),
            run(f"{ledger} render {draft} --links"),
        ],
        answers=f"The lighthouse is green since **1911** [1]({web}/article).\n\n1. Museum of Antlerby: The lighthouse",
    )
    _, _, found, page, source, claim, status, _, check, rendered = played.results
    assert "lighthouse.example.org" in found
    assert quote in page
    assert (source, claim) == ("S1", "C1 confirmed")
    assert "It is enough: write." in status
    assert check == "Everything is cited."
    assert f"is green since **1911** [1]({web}/article). Before that it was white [1]({web}/article)." in rendered
    assert f"1. Museum of Antlerby: The lighthouse (undated). {web}/article, accessed 20" in rendered
    assert played.answer.startswith("The lighthouse is green since 1911 ")
    assert played.links == (f"{web}/article",)


async def test_a_report_comes_back_as_a_word_file(gateway: World, person: Person, tmp_path: Path) -> None:
    scripts = f"{PUBLIC}/report-generation/scripts"
    report = "/mnt/user-data/workspace/report/report.md"
    body = (
        "---\ntitle: Support in June\nauthor: Antler\ndate: 2026-07-01\n---\n\n# Summary\n\nOf 120 questions 48 were "
        "answered at once.\n\n# 1. Half of the questions are about passwords\n\nOf 120 questions 48 were answered at "
        "once, 60 were about passwords [1].\n\n# Sources\n\n1. Ticket system, June 2026\n"
    )
    template = "/mnt/skills/public/report-generation/assets/templates/executive.md"
    played = await follow(
        gateway,
        person,
        "report-generation",
        says="Write a short report on support in June: 120 questions, 48 answered at once, 60 about passwords.",
        does=[
            run(f"mkdir -p /mnt/user-data/workspace/report && cp {template} {report}"),
            tool("read_file", path=report),
            run(f"{scripts}/check_report.py {report}"),
            write(report, body),
            run(f"{scripts}/check_report.py {report}"),
            run(f"{scripts}/build_report.py {report} --output {OUTPUTS}/support-2026-06.docx"),
            present("support-2026-06.docx"),
        ],
        answers="Half of the 120 questions were about passwords.",
    )
    assert "still to be written: «" in played.results[3]
    assert "[exit code 1]" in played.results[3]
    assert played.results[5].startswith("0 errors, 0 warnings")
    (tmp_path / "got.docx").write_bytes(played.files["support-2026-06.docx"])
    word = contents(tmp_path / "got.docx")
    assert word["title"] == "Support in June"
    assert ["Heading 1", "1. Half of the questions are about passwords"] in word["paragraphs"]


async def test_a_paper_is_recomputed(gateway: World, person: Person) -> None:
    scripts = f"{PUBLIC}/academic-paper-review/scripts"
    paper = "Results. The groups differed, t(20) = 1.20, p = .03, and so did the sexes, t(28) = 2.20, p = .036.\n"
    played = await follow(
        gateway,
        person,
        "academic-paper-review",
        says="Can I rely on this paper?",
        files=[FileSpec(name="paper.md", mime="text/markdown", content=paper.encode())],
        does=[run(f"{scripts}/check_statistics.py scan /mnt/user-data/uploads/*-paper.md")],
        answers="Not on its main result: t(20) = 1.20 is p = 0.24, not 0.03.",
    )
    assert "! t(20) = 1.20, p = .03  -> p = 0.2423 to 0.2461: does not fit, and the decision" in played.results[1]
    assert "2 results read, 1 to look at" in played.results[1]
    assert played.answer.startswith("Not on its main result")


async def test_a_newsletter_comes_back_as_a_mail(gateway: World, person: Person) -> None:
    item = {"title": "Prices fell by 18 %", "text": "Since June. **Why it matters:** cheaper bids."}
    issue = {
        "name": "Grid Weekly",
        "subject": "Storage got cheaper than peakers",
        "preview": "What the new price lists mean for bids in August",
        "language": "en",
        "sections": [{"title": "This week", "items": [item]}],
        "outro": "Reply to this mail.",
        "sender": "X, City",
        "unsubscribe": "https://example.org/u",
    }
    played = await follow(
        gateway,
        person,
        "newsletter-generation",
        says="Make the next issue from this: storage prices fell by 18 % since June.",
        does=[
            write("/mnt/user-data/workspace/newsletter/issue.json", issue),
            run(
                f"{PUBLIC}/newsletter-generation/scripts/build_newsletter.py "
                f"/mnt/user-data/workspace/newsletter/issue.json --output {OUTPUTS}/grid-27"
            ),
            present("grid-27.html", "grid-27.txt", "grid-27.eml"),
        ],
        answers="One item, a minute to read.",
    )
    assert "warning" not in played.results[2]
    assert set(played.files) == {"grid-27.html", "grid-27.txt", "grid-27.eml"}
    assert b"Subject: Storage got cheaper than peakers" in played.files["grid-27.eml"]
