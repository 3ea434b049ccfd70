"""The scripts of data-analysis: what they find in tables that people really send, and what they deliver."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.skills.running import contents, require_runtime, script

if TYPE_CHECKING:
    from pathlib import Path

require_runtime()

GERMAN = """Umsatzbericht 2026;;;
Datum;Region;Umsatz;Kunde
01.02.2026;Nord;1.234,50;007
02.02.2026;nord ;12,5;008
03.02.2026;Süd;-3,00 €;009
04.05.2026;Süd;n/a;010
04.05.2026;Süd;n/a;010
Summe;;1.244,00;
"""
ORDERS = "order,customer,amount,day\n1,a,10,2026-01-05\n2,b,20,2026-01-06\n3,a,30,2026-02-01\n4,c,x,2026-02-02\n"


@pytest.fixture
def german(tmp_path: Path) -> Path:
    file = tmp_path / "umsatz.csv"
    file.write_bytes(GERMAN.encode("cp1252"))
    return file


def profile(file: Path, *arguments: object) -> dict[str, Any]:
    """The first table's figures."""
    script("data-analysis/profile_data", file, "--json", file.parent / "profile.json", *arguments, folder=file.parent)
    found: dict[str, Any] = json.loads((file.parent / "profile.json").read_text())[0]
    return found


def column(found: dict[str, Any], name: str) -> dict[str, Any]:
    """One column's figures."""
    (column,) = (column for column in found["columns"] if column["name"] == name)
    assert isinstance(column, dict)
    return column


def test_a_table_as_offices_send_it_is_understood(german: Path) -> None:
    found = profile(german)
    assert (found["rows"], found["duplicate_rows"]) == (5, 1)
    assert {each["name"]: each["kind"] for each in found["columns"]} == {
        "Datum": "date",
        "Region": "text",
        "Umsatz": "number",
        "Kunde": "text",
    }
    amount = column(found, "Umsatz")
    assert (amount["sum"], amount["min"], amount["missing"]) == (1244.0, -3.0, 2)
    assert column(found, "Datum")["missing_months"] == ["2026-03", "2026-04"]
    assert any("Nord / nord" in doubt for doubt in column(found, "Region")["doubts"])
    assert any("cp1252, separator ;" in note for note in found["notes"])
    assert any("Umsatzbericht 2026" in note for note in found["notes"])
    assert any("left out, because it is a total (Summe 1.244,00)" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("encoding", "names"),
    [("cp932", ["番号①", "商品名"]), ("cp949", ["번호", "똠방각하"]), ("koi8-r", ["Город", "Стоимость"])],
)
def test_a_table_is_read_in_the_encoding_of_its_country(tmp_path: Path, encoding: str, names: list[str]) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes((";".join(names) + "\n" + f"{names[1]};1\n" * 20).encode(encoding))
    assert [each["name"] for each in profile(file)["columns"]] == names


def test_what_cannot_be_known_is_asked_not_guessed(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text('when,price,id\n03/04/2026,"1,234",00123\n05/06/2026,"2,500",00124\n')
    said = script("data-analysis/profile_data", file, folder=tmp_path)
    assert "is 03/04/2026 day/month or month/day?" in said
    assert "is 1,234 a thousand or a decimal comma?" in said
    assert "| id | text |" in said, "codes keep their zeros"


def test_one_value_settles_what_the_others_leave_open(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("when;price\n03/04/2026;1.234\n05/31/2026;2,5\n")
    found = profile(file)
    assert (column(found, "when")["first"], column(found, "when")["doubts"]) == ("2026-03-04 00:00:00", [])
    assert column(found, "price")["sum"] == 1236.5


def test_numbers_are_read_as_people_write_them(tmp_path: Path) -> None:
    lines = [
        "share|paid|loss|units|card",
        "12%|$1,234.00|(5)|1.5万|4111111111111111",
        "5 %|€ 5.00|−7|2亿元|4111111111111112",
    ]
    (tmp_path / "t.txt").write_bytes("\n".join(lines).encode("gb18030", "replace"))
    found = profile(tmp_path / "t.txt")
    assert any("encoding gb18030" in note for note in found["notes"])
    sums = {name: column(found, name)["sum"] for name in ("share", "paid", "loss", "units")}
    assert sums == {"share": pytest.approx(0.17), "paid": 1239.0, "loss": -12.0, "units": 200_015_000.0}
    assert column(found, "card")["kind"] == "text", "too long for a number"


def test_faults_of_a_file_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,b,c\n1,2,3\n1,2\n\n1,2,3,4\n1,2,oops\n" + "1,2,3\n" * 30)
    said = script("data-analysis/profile_data", file, folder=tmp_path)
    assert "1 lines with fewer fields than columns" in said
    assert "1 lines with more fields than columns" in said
    assert "line 5 is the first that is too long" in said
    assert "c: 1 value(s) are no number: oops" in said


def test_a_very_wide_table_stays_readable(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",".join(f"c{n}" for n in range(200)) + "\n" + ",".join("1" * 200) + "\n")
    said = script("data-analysis/profile_data", "t.csv", folder=tmp_path)
    assert "1 rows, 200 columns" in said
    assert "[60 of 200 columns; --json FILE has all]" in said
    assert len(said) < 20_000


def test_outliers_are_named_with_their_borders(tmp_path: Path) -> None:
    file = tmp_path / "t.tsv"
    file.write_text("x\n" + "\n".join(str(10 + number % 5) for number in range(50)) + "\n9999\n")
    found = column(profile(file), "x")
    assert (found["outliers"], found["fences"]) == (1, [5.0, 19.0])
    assert math.isclose(found["mean"], (50 * 12 + 9999) / 51)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("t.parquet", b"PAR1", "CSV or Excel export"),
        ("t.csv", b"", "is empty"),
        ("t.csv", b"PK\x03\x04rest", "wrong ending"),
        ("t.xlsx", b"no zip", "cannot be read as Excel"),
        ("t.json", b"{", "not valid JSON"),
        ("t.exe", b"MZ", "not a kind of table"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_a_way_out(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(content)
    said = script("data-analysis/profile_data", name, folder=tmp_path, fails=True)
    assert said.startswith("error: ")
    assert "\n  fix: " in said
    assert problem in said


def test_sql_answers_over_several_files(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text(ORDERS + "\n".join(f"{n},a,1,2026-03-01" for n in range(5, 40)) + "\n")
    (tmp_path / "who.json").write_text(json.dumps([{"customer": "a", "Name": "Älva"}, {"customer": "b", "Name": "Bo"}]))
    sql = (
        "SELECT upper(name) AS who, sum(amount) AS total, median(amount) AS middle "
        "FROM o JOIN w USING (customer) GROUP BY 1"
    )
    arguments = ("--file", "o=orders.csv", "--file", "w=who.json", "--sql", sql, "--output", "out/r.json")
    said = script("data-analysis/query", *arguments, folder=tmp_path)
    assert json.loads((tmp_path / "out" / "r.json").read_text()) == [
        {"who": "BO", "total": 20, "middle": 20},
        {"who": "ÄLVA", "total": 75, "middle": 1},
    ]
    assert "o.amount: 1 value(s) are no number and became NULL: x" in said


def test_sql_changes_nothing_and_explains_itself(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text(ORDERS)
    refused = script(
        "data-analysis/query", "--file", "orders.csv", "--sql", "DELETE FROM orders", folder=tmp_path, fails=True
    )
    assert "the tables cannot be changed" in refused
    wrong = script(
        "data-analysis/query", "--file", "orders.csv", "--sql", "SELECT nope FROM orders", folder=tmp_path, fails=True
    )
    assert "no such column: nope" in wrong
    assert '"customer" TEXT' in wrong
    assert os.listdir(tmp_path) == ["orders.csv"]


def test_a_workbook_is_tidy_and_says_where_it_is_from(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(
        "region,revenue,share,code,day\nNorth,1234.5,0.75,007,2026-01-31\nSouth,400,0.25,=1+1,2026-02-28\n"
    )
    columns = {"revenue": {"label": "Revenue", "format": "money", "symbol": "€", "total": "sum", "mark": "bars"}}
    chart = {"type": "column", "category": "region", "values": ["revenue"], "title": "Revenue"}
    sheet = {
        "name": "By region",
        "data": "r.csv",
        "columns": columns | {"share": {"format": "percent"}},
        "chart": chart,
    }
    spec = {"title": "Sales", "notes": ["Source: orders.xlsx"], "sheets": [sheet]}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    said = script("data-analysis/make_workbook", "spec.json", "--output", "sales.xlsx", folder=tmp_path)
    assert "By region: 2 rows, 5 columns; sum of column B = 1634.5" in said
    book = contents(tmp_path / "sales.xlsx")
    page = book["By region"]
    assert page["rows"][0] == ["region", "Revenue", "share", "code", "day"]
    assert page["rows"][1] == ["North", 1234.5, 0.75, "007", "2026-01-31 00:00:00"]
    assert page["rows"][2][3] == "=1+1", "text of a table never becomes a formula"
    assert page["rows"][4][:2] == ["Total", 1634.5], "also in previews, which compute nothing"
    assert page["formulas"] == ["=SUBTOTAL(109,B2:B3)"]
    assert page["formats"][1:3] == ['#,##0.00 "€"', "0.0%"]
    assert (page["charts"], page["frozen"]) == (1, "A2")
    assert [row[0] for row in book["About"]["rows"]] == ["Sales", None, "Source: orders.xlsx"]
    again = script(
        "data-analysis/query",
        "--file",
        "sales.xlsx",
        "--sql",
        "SELECT sum(revenue) AS s FROM by_region",
        folder=tmp_path,
    )
    assert "| 1634.5 |" in again, "its own total is not counted again"


def test_a_wrong_specification_names_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps({"sheets": [{"data": [{"a": 1}], "columns": {"b": {}}}]}))
    said = script("data-analysis/make_workbook", "spec.json", "--output", "x.xlsx", folder=tmp_path, fails=True)
    assert "columns ['b'] are not in the data\n  fix: there are: a" in said
