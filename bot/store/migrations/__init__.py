"""The schema's steps. Alembic runs them; it is imported only when a step has to run, because it costs 0.2 s."""

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011", "0012", "0013")
"""All steps, oldest first: a database whose revision is not among them was made by a newer program. The last one is
what tables.py describes."""
