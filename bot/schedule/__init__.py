"""Reminders and tasks: stored in the database, put into the inbox when due, and answered like the person's message."""
