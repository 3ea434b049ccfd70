"""`python -m tests.flow.transcripts [--update] [SCENE ...]`: play scenes and show what is seen, or keep it."""

from __future__ import annotations

import argparse
import logging
import sys

from tests.flow.transcripts import records
from tests.flow.transcripts.eyes import EYES
from tests.flow.transcripts.scenarios import SCENES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.flow.transcripts", description=__doc__)
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"default: all of {', '.join(SCENES)}")
    parser.add_argument("--on", nargs="+", choices=list(EYES), default=list(EYES), help="platforms; default: all")
    parser.add_argument("--update", action="store_true", help=f"write the files and {records.DOCS.name}")
    given = parser.parse_args()
    if unknown := set(given.scenes) - set(SCENES):
        parser.error(f"no such scene: {', '.join(sorted(unknown))}")
    logging.disable(logging.CRITICAL)
    for record in records.RECORDS:
        if record.platform in given.on and record.scene.name in (given.scenes or SCENES):
            changes = record.changes(played := record.play())
            print(changes if given.update else played, end="")
            if given.update:
                record.write(played)
    if given.update:
        records.forget_strangers()
        records.DOCS.write_text(records.page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
