"""Packs a valid skill: python3 pack.py FOLDER -o /mnt/user-data/outputs writes NAME.skill, the same bytes each time."""

from __future__ import annotations

import argparse
import sys
import zipfile
import zlib
from pathlib import Path

from folder import LARGEST_ARCHIVE, files_of
from validate import problems_of

MOMENT = (2020, 1, 1, 0, 0, 0)
"""Of all files, so that the same content makes the same package."""
ORDINARY = 0o100644
MOST_RATIO, SMALL = 100, 64 * 1024
"""What is packed tighter is refused as a bomb; such a file is stored as it is."""


def pack(skill: Path, folder: Path) -> Path:
    """The skill has to be valid."""
    name = skill.resolve().name
    target = folder / f"{name}.skill"
    folder.mkdir(parents=True, exist_ok=True)
    files, _ = files_of(skill)
    with zipfile.ZipFile(target, "w") as archive:
        for inside, path in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{name}/{inside}", MOMENT)
            entry.external_attr = ORDINARY << 16
            data = path.read_bytes()
            entry.compress_type = zipfile.ZIP_STORED if _bomb(data) else zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return target


def _bomb(data: bytes) -> bool:
    return len(data) > SMALL and len(data) > MOST_RATIO * len(zlib.compress(data))


def main() -> int:
    parser = argparse.ArgumentParser(description="Packs a skill's folder as NAME.skill, after checking it.")
    parser.add_argument("folder", type=Path, help="with the SKILL.md in it")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder: /mnt/user-data/outputs")
    options = parser.parse_args()
    errors, advice = problems_of(options.folder)
    if errors:
        print("Not packed:", *(f"- {error}" for error in errors), sep="\n", file=sys.stderr)
        return 1
    target = pack(options.folder, options.output)
    with zipfile.ZipFile(target) as archive:
        damaged = archive.testzip()
        names = archive.namelist()
    if damaged or target.stat().st_size > LARGEST_ARCHIVE:
        print(f"{target} is damaged, or larger than {LARGEST_ARCHIVE // 1_000_000} MB.", file=sys.stderr)
        return 1
    print(f"{target}: {len(names)} files, {target.stat().st_size} bytes")
    for each in advice:
        print(f"advice: {each}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
