"""Reminders and tasks for later: times, the port to their store, the tool."""
