"""Deleting for good: threads, and everything of a person. Each deletion is a row that outlives a crash."""
