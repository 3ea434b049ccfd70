"""The schema's steps. Alembic runs them; it is imported only when a step has to run, because it costs 0.2 s."""

REVISIONS = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14")
"""All steps, oldest first: a database whose revision is not among them was made by a newer program, or by one of before
the first release. The last one is what tables.py describes."""
EXPANDING = frozenset({"10", "11", "12", "13", "14"})
"""Steps with which workers of the revision before go on working: they only add, tables, or columns that may be null or
have a default, and no row or event gets a form that a program of before cannot read."""
DEVELOPMENT = tuple(f"{number:04}" for number in range(1, 14))
"""The revisions of before the first release, for which there are no steps any more."""
