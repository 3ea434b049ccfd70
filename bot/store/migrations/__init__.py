"""The schema's steps. Alembic runs them; it is imported only when a step has to run, because it costs 0.2 s."""

REVISIONS = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14")
"""All steps, oldest first: a database with any other revision was made by a newer program, or by one from before the
first release. The last step matches tables.py."""
EXPANDING = frozenset({"10", "11", "12", "13", "14"})
"""Steps that workers of the previous revision can work with: they only add tables, or columns that may be null or have
a default, and no row or event takes a form that an earlier program cannot read."""
DEVELOPMENT = tuple(f"{number:04}" for number in range(1, 14))
"""The revisions from before the first release, which have no steps any more."""
