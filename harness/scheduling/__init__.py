"""Reminders and deferred tasks: times, the port to their store, the tool."""
