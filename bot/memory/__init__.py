"""Memories of people and groups: the keeper that changes them, the queue that feeds them, the commands' view."""
