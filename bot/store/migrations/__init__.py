"""The schema's steps. Alembic runs them; it is imported only when a step has to run, because it costs 0.2 s."""

REVISIONS = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10")
"""All steps, oldest first: a database whose revision is not among them was made by a newer program, or by one of before
the first release. The last one is what tables.py describes."""
DEVELOPMENT = tuple(f"{number:04}" for number in range(1, 14))
"""The revisions of before the first release, for which there are no steps any more."""
