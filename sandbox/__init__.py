"""Sandboxes: where the agent's commands run and its files are stored."""
