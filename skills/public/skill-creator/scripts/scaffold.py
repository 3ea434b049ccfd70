"""Begins a skill: python3 scaffold.py NAME -o /mnt/user-data/workspace makes a folder to be filled in."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from document import LONGEST_DESCRIPTION, LONGEST_NAME, MARK, NAME, SKILL_FILE

WORKFLOW = """\
---
name: {name}
description: {description}
license: MIT
version: 0.1.0
---

# {title}

{mark} one or two sentences: what comes out, for whom, and what makes it good work.

## 1. What is needed

{mark} what has to be known before the work begins; for each: what to assume when nobody says it, or when to ask.

## 2. {mark} the first step

{mark} what to do, in the order of doing; how to decide where there is a choice (a table: if ... then ...).
{script}{reference}
## 3. Check before delivering

- [ ] {mark} what has to be true of the result; things that can be looked up or counted, not "is it good?"

## 4. Deliver

{mark} the file or answer; present_files with its path below /mnt/user-data/outputs; the few lines for the chat.

## Limits

{mark} what this does not do, what to do instead, and what has to be said to the person.
"""
SCRIPT = """
```bash
python3 {home}/{name}/scripts/{script}.py INPUT -o /mnt/user-data/outputs/RESULT
```
"""
REFERENCE = """
Read `references/{reference}.md` before this step. {mark} say what is in it.
"""
PROGRAM = '''\
"""{mark} what it makes of what: python3 {script}.py INPUT -o OUTPUT"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description="{mark} one sentence.")
    parser.add_argument("input", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    if not options.input.is_file():
        print(f"{{options.input}} does not exist", file=sys.stderr)
        return 1
    text = options.input.read_text(encoding="utf-8")
    # {mark} the work; errors name what is wrong and what to do.
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text, encoding="utf-8")
    print(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''


def scaffold(options: argparse.Namespace) -> Path:
    """The folder. Raises FileExistsError."""
    skill: Path = options.output / options.name
    skill.mkdir(parents=True)
    # JSON's quoting is YAML's too.
    description = (
        json.dumps(options.description, ensure_ascii=False)
        if options.description
        else json.dumps(f"{MARK} what, and when")
    )
    text = WORKFLOW.format(
        mark=MARK,
        name=options.name,
        title=options.name.replace("-", " ").capitalize(),
        description=description,
        script=SCRIPT.format(home=options.home, name=options.name, script=options.script) if options.script else "",
        reference=REFERENCE.format(mark=MARK, reference=options.reference) if options.reference else "",
    )
    (skill / SKILL_FILE).write_text(text, encoding="utf-8")
    if options.script:
        (skill / "scripts").mkdir()
        (skill / "scripts" / f"{options.script}.py").write_text(
            PROGRAM.format(mark=MARK, script=options.script), encoding="utf-8"
        )
    if options.reference:
        (skill / "references").mkdir()
        (skill / "references" / f"{options.reference}.md").write_text(f"# {MARK} details\n", encoding="utf-8")
    return skill


def main() -> int:
    options = _options()
    if len(options.name) > LONGEST_NAME or NAME.fullmatch(options.name) is None:
        print(f"{options.name}: a name is a-z, 0-9 and single hyphens, such as weekly-report", file=sys.stderr)
        return 1
    if len(options.description) > LONGEST_DESCRIPTION:
        print(f"the description is longer than {LONGEST_DESCRIPTION} characters", file=sys.stderr)
        return 1
    try:
        skill = scaffold(options)
    except FileExistsError:
        print(f"{options.output / options.name} is there already; change it, or take another name", file=sys.stderr)
        return 1
    print(f"{skill}: fill in every {MARK}, then validate.py {skill}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Makes the folder of a new skill, with marks for what to write.")
    parser.add_argument("name", help="a-z, 0-9, hyphens")
    parser.add_argument("-o", "--output", type=Path, required=True, help="where the folder shall be")
    parser.add_argument("--description", default="", help="what comes out, and when to use it")
    parser.add_argument("--script", default="", help="name of a script that it shall have")
    parser.add_argument("--reference", default="", help="name of a reference that it shall have")
    parser.add_argument(
        "--home", default="/mnt/skills/custom", help="where it will be installed; /mnt/skills/mine: one's own"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
