"""review.py: records from the usual exports, duplicates, screening with reasons, and numbers that close."""

from __future__ import annotations

import csv
import shutil
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.skills.running import require_runtime, script

if TYPE_CHECKING:
    from pathlib import Path

require_runtime()

RIS = """TY  - JOUR
TI  - Magnesium in Migraine: A Trial
AU  - Smith, A.
AU  - Jones, B.
PY  - 2020/03/01
JO  - Headache
DO  - 10.1000/ABC
AB  - We gave magnesium.
ER  -
TY  - JOUR
T1  - Another one
Y1  - 2019
ER  -
"""
BIBTEX = """@article{smith20,
  title = {{Magnesium} in migraine - a trial},
  author = {Smith, A. and Jones, B.},
  year = 2021,
}
@inproceedings{x, title = "Third of {\\"U}bung", booktitle = {Proc. X}, year = {2018}, doi = {https://doi.org/10.1000/xyz}}
"""
NBIB = "PMID- 1\nTI  - Fourth\nDP  - 2022 Mar\nJT  - Journal\nLID - 10.1000/four [doi]\n\nPMID- 2\nTI  - Fifth\n"


class Review:
    """One review in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str, fails: bool = False) -> str:
        store = ("--store", "review.json")
        return script("systematic-literature-review/review", *store, *arguments, folder=self.folder, fails=fails)

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five records from two databases, which share one."""
    made = Review(tmp_path_factory.mktemp("begun"))
    made("start", "Does magnesium help?", "--exclude", "E1=wrong people", "--exclude", "E2=no comparison")
    assert (
        made("import", made.file("a.ris", RIS), "--from", "PubMed") == "2 records from PubMed: 2 new, 0 known already\n"
    )
    assert "1 new, 1 known already" in made("import", made.file("b.bib", BIBTEX), "--from", "Scopus")
    assert "2 new" in made("import", made.file("c.nbib", NBIB), "--from", "PubMed")
    return made.folder / "review.json"


@pytest.fixture
def review(begun: Path, tmp_path: Path) -> Review:
    """A copy of it for each test."""
    shutil.copy(begun, tmp_path)
    return Review(tmp_path)


def test_exports_are_read_and_duplicates_known_again(review: Review) -> None:
    listed = review("list", "--stage", "title")
    assert "R1 (2020) Magnesium in Migraine: A Trial | Smith, A.; Jones, B. | Headache" in listed
    assert "10.1000/abc\n   We gave magnesium." in listed
    assert "R3 (2018) Third of" in listed
    assert "R4 (2022) Fourth |  | Journal\n   10.1000/four" in listed
    assert "5 to decide at stage title" in listed
    found = review.file(
        "d.csv", "Title,Year,DOI\nMAGNESIUM in migraine (a trial),2020,\nMagnesium in migraine: a trial,2011,\n"
    )
    assert "1 new, 1 known already" in review("import", found, "--from", "Other"), "nine years apart is another work"
    assert review("add", "--from", "web", "--title", "x", "--doi", "10.1000/FOUR") == "known already: R4\n"


def test_the_numbers_close_from_the_search_to_the_studies(review: Review) -> None:
    assert (
        review("screen", "R1", "R3", "--stage", "title", "--decision", "include")
        == "2 decided; 3 left at stage title\n"
    )
    review("screen", "R4", "--stage", "title", "--decision", "unsure")
    review("screen", "R2", "--stage", "title", "--decision", "exclude", "--reason", "E1")
    assert "OPEN: 1 to screen, 3 to assess in full" in review("flow")
    review("screen", "R5", "--stage", "title", "--decision", "exclude", "--reason", "E2")
    review("screen", "R1", "--stage", "full", "--decision", "include")
    review("screen", "R3", "--stage", "full", "--decision", "exclude", "--reason", "E2")
    review("screen", "R4", "--stage", "full", "--decision", "not-retrieved")
    assert review("flow", "--output", "out/flow.png").splitlines() == [
        "identified: 6 (PubMed 4, Scopus 2)",
        "duplicates removed: 1",
        "screened by title and abstract: 5, excluded 2",
        "sought in full: 3, not retrieved 1",
        "assessed in full: 2, excluded 1 (no comparison 1)",
        "included: 1",
        "nothing is open",
        "drawn: out/flow.png",
    ]
    with Image.open(review.folder / "out" / "flow.png") as picture:
        assert min(picture.size) > 1000


def test_what_studies_say_becomes_a_table_with_its_gaps(review: Review) -> None:
    review("screen", "R1", "R2", "--stage", "title", "--decision", "include")
    review("screen", "R1", "R2", "--stage", "full", "--decision", "include")
    review(
        "extract", "R1", "--set", "n=120", "--set", "effect=SMD 0.31 (0.10 to 0.52)", "--risk", "low", "--why", "blind"
    )
    review("extract", "R2", "--set", "n=40")
    said = review("table", "--output", "studies.csv")
    assert "2 studies, 2 fields\nR2 lacks effect\nR2 has no judgement of bias" in said
    with (review.folder / "studies.csv").open(encoding="utf-8-sig", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["effect"], first["risk of bias"], first["reason"]) == ("SMD 0.31 (0.10 to 0.52)", "low", "blind")
    assert (second["n"], second["effect"]) == ("40", "")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("screen", "R1", "--stage", "title", "--decision", "exclude"), "an exclusion needs a reason"),
        (("screen", "R1", "--stage", "title", "--decision", "not-retrieved"), "is said of full texts"),
        (("screen", "R1", "--stage", "full", "--decision", "include"), "did not pass the titles"),
        (("screen", "R9", "--stage", "title", "--decision", "include"), "there is no record R9"),
        (("extract", "R1", "--set", "n=1"), "R1 is not included"),
        (("table", "--output", "x.csv"), "no study is included yet"),
        (("import", "gone.ris", "--from", "X"), "there is no file gone.ris"),
        (("start", "Again?", "--exclude", "E1=x"), "there is a review at"),
    ],
)  # fmt: skip
def test_a_slip_is_refused_and_changes_nothing(review: Review, arguments: tuple[str, ...], problem: str) -> None:
    before = (review.folder / "review.json").read_text()
    assert problem in review(*arguments, fails=True)
    assert (review.folder / "review.json").read_text() == before
