"""The parts of the static scanner (harness/skills/scan.py): which files there are, what they are, what is in them."""
