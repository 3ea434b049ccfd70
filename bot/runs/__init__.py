"""Runs: execute the agent's turns, show them in the chat, record and end them, and continue them after a crash."""
