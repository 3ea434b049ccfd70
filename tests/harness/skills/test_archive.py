"""`.skill` archives: what is unpacked, and everything for which a whole archive is refused."""

from __future__ import annotations

import stat
import struct
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.skills.archive import LARGEST_ARCHIVE, MOST_ENTRIES, ArchiveRefused, unpack
from harness.skills.document import SkillError
from harness.skills.files import LARGEST_FILE, MOST_BYTES, MOST_FILES
from tests.harness.skills.packing import GOOD, entry, pack
from tests.harness.skills.writing import front
from tests.properties import examples
from tests.tables import table

if TYPE_CHECKING:
    import zipfile
    from pathlib import Path

LINK = stat.S_IFLNK | 0o777


def reasons(file: Path) -> str:
    with pytest.raises(SkillError) as refused:
        unpack(file)
    return str(refused.value)


def test_an_archive_as_it_should_be(tmp_path: Path) -> None:
    folder = entry("tried/references/", mode=stat.S_IFDIR | 0o755)
    notes = entry("tried/references/notes.md")
    file = pack(tmp_path / "a.skill", (folder, ""), (notes, "Notes."), ("tried/scripts/größe.py", "print(1)"))
    unpacked = unpack(file)
    assert unpacked.document.name == "tried"
    assert unpacked.files == {
        "SKILL.md": GOOD.encode(),
        "references/notes.md": b"Notes.",
        "scripts/größe.py": b"print(1)",
    }


@table(
    ("name", "reason"),
    [
        ("/tried/a.md", "is an absolute path"),
        ("tried/../../etc/passwd", "leads out of its folder"),
        ("../SKILL.md", "leads out of its folder"),
        ("tried/./a.md", "leads out of its folder"),
        ("tried//a.md", "leads out of its folder"),
        ("tried/..\\..\\a.md", "a character in its name"),
        ("C:/tried/a.md", "a character in its name"),
        ("tried/a.md:stream", "a character in its name"),
        ("tried/a\x00.md", "a character in its name"),
        ("tried/a\nb.md", "a character in its name"),
        ("tried/a\u202egnp.md", "a character in its name"),
        ("tried/ a.md", "begins or ends with a space"),
        ("tried/a.md.", "ends with a dot"),
        (f"tried/{'a' * 201}.md", "a path that is too long"),
        (f"tried/{'a/' * 9}b.md", "a path that is too long"),
        ("other/a.md", "should hold one folder"),
        ("a.md", "should hold one folder"),
        ("__MACOSX/._a", "should hold one folder"),
        ("tried/inner/SKILL.md", "is a skill within the skill"),
        ("tried/inner/skill.MD", "is a skill within the skill"),
        ("tried/inner.skill", "is a package within the package"),
        ("tried/assets/a.ZIP", "is a package within the package"),
        ("tried/skill.md", "differs from another name only in case"),
    ],
)
def test_names(tmp_path: Path, name: str, reason: str) -> None:
    assert reason in reasons(pack(tmp_path / "a.skill", (entry(name), "x")))


@pytest.mark.parametrize(
    ("info", "data", "reason"),
    [
        (entry("tried/a", mode=LINK), "/etc/passwd", "a link or a special file"),
        (entry("tried/a", mode=stat.S_IFCHR | 0o666), "", "a link or a special file"),
        (entry("tried/a", mode=stat.S_IFIFO | 0o666), "", "a link or a special file"),
        (entry("tried/a", mode=stat.S_IFREG | 0o4755), "x", "its owner's permissions"),
        (entry("tried/a", mode=stat.S_IFDIR | 0o755), "x", "marked both as a folder and as a file"),
        (entry("tried/a", extra=struct.pack("<HH", 0x756E, 4) + b"abcd"), "x", "is a link, or has a second name"),
        (entry("tried/a", extra=struct.pack("<HH", 0x7075, 4) + b"abcd"), "x", "is a link, or has a second name"),
        (entry("tried/a", extra=struct.pack("<HH", 0x000D, 16) + bytes(16)), "x", "is a link, or has a second name"),
    ],
)
def test_kinds(tmp_path: Path, info: zipfile.ZipInfo, data: str, reason: str) -> None:
    assert reason in reasons(pack(tmp_path / "a.skill", (info, data)))


def test_duplicates_and_files_that_are_folders(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = pack(tmp_path / "a.skill", ("tried/a", "x"), ("tried/a", "y"), ("tried/a/b", "z"))
    assert "occurs twice" in reasons(file)
    assert "is below the path of a file" in reasons(file)


def test_every_reason_is_told(tmp_path: Path) -> None:
    file = pack(tmp_path / "a.skill", (entry("/x"), "x"), (entry("tried/l", mode=LINK), "x"), ("tried/b.zip", "x"))
    told = reasons(file)
    assert all(part in told for part in ("absolute", "link", "package within"))


def test_front_matter_is_held_to_the_rules(tmp_path: Path) -> None:
    unknown = front("tried", hooks="x") + "\nDo it.\n"
    assert "unknown key" in reasons(pack(tmp_path / "a.skill", skill=unknown))
    assert "the folder is called tried" in reasons(pack(tmp_path / "b.skill", skill=GOOD.replace("tried", "other")))
    assert "has no SKILL.md" in reasons(pack(tmp_path / "c.skill", ("tried/a.md", "x"), skill=""))
    named = pack(tmp_path / "d.skill", (entry("Tried It/SKILL.md"), GOOD), skill="")
    assert "which is not a valid skill name" in reasons(named)


def test_bombs(tmp_path: Path) -> None:
    assert "100 to 1" in reasons(pack(tmp_path / "a.skill", ("tried/a.csv", b"0" * 2_000_000)))
    many = [(f"tried/references/{number}.md", "") for number in range(MOST_FILES)]
    assert f"at most {MOST_FILES}" in reasons(pack(tmp_path / "b.skill", *many))
    more = [(f"tried/{number}/", "") for number in range(MOST_ENTRIES)]
    assert f"at most {MOST_ENTRIES}" in reasons(pack(tmp_path / "c.skill", *more))
    (tmp_path / "d.skill").write_bytes(b"PK\x03\x04" + bytes(LARGEST_ARCHIVE))
    assert "is larger than" in reasons(tmp_path / "d.skill")


def lying(file: Path, at: str, offset: int, form: str, value: int) -> Path:
    """The archive with one number changed in the table of contents (or, for "local", the entry's own header)."""
    raw = bytearray(file.read_bytes())
    place = raw.rfind(b"PK\x01\x02") if at == "table" else raw.rfind(b"PK\x03\x04")
    struct.pack_into(form, raw, place + offset, value)
    file.write_bytes(raw)
    return file


@pytest.mark.parametrize(
    ("at", "offset", "form", "value", "reason"),
    [
        ("table", 24, "<L", 10, "longer than stated"),  # the size unpacked
        ("table", 24, "<L", 90_000, "does not match its stated length"),
        ("table", 24, "<L", LARGEST_FILE + 1, "is larger than"),
        ("table", 24, "<L", MOST_BYTES, "holds more than"),
        ("table", 20, "<L", 2_000, "two headers that contradict|its stated|cannot be unpacked"),  # the size packed
        ("table", 20, "<L", 100_000, "shares its bytes"),
        ("table", 16, "<L", 1, "checksum"),
        ("table", 8, "<H", 1, "is encrypted"),
        ("table", 10, "<H", 12, "uses an unsupported compression"),
        ("table", 42, "<L", 0, "shares its bytes|two headers"),
        ("local", 8, "<H", 0, "two headers that contradict each other"),
        ("local", 30, "<B", ord("T"), "two headers that contradict each other"),
    ],
)
def test_lies_about_sizes_and_headers(tmp_path: Path, at: str, offset: int, form: str, value: int, reason: str) -> None:
    text = "".join(f"line {number}\n" for number in range(8_000))
    file = lying(pack(tmp_path / "a.skill", ("tried/a.csv", text)), at, offset, form, value)
    told = reasons(file)
    assert any(part in told for part in reason.split("|")), told


def test_what_is_no_archive(tmp_path: Path) -> None:
    for name, data in (("a", b""), ("b", b"PK\x05\x06" + bytes(18)), ("c", b"PK\x03\x04"), ("d", b"#!/bin/sh\n")):
        (tmp_path / name).write_bytes(data)
        assert "zip archive" in reasons(tmp_path / name)
    whole = pack(tmp_path / "e.skill").read_bytes()
    (tmp_path / "f").write_bytes(b"#!/bin/sh\nexit\n" + whole)
    assert "is not a zip archive" in reasons(tmp_path / "f")
    assert "is not a file" in reasons(tmp_path)
    assert "cannot be read" in reasons(tmp_path / "missing")


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_archives_are_refused_or_whole(tmp_path: Path, places: list[tuple[int, int]]) -> None:
    raw = bytearray(pack(tmp_path / "a.skill", ("tried/notes.md", "some notes\n" * 20)).read_bytes())
    for place, value in places:
        raw[place % len(raw)] = value
    (tmp_path / "b.skill").write_bytes(raw)
    with suppress(SkillError):
        assert unpack(tmp_path / "b.skill").files["SKILL.md"] == GOOD.encode()


def test_it_is_one_kind_of_error() -> None:
    assert issubclass(ArchiveRefused, SkillError)
