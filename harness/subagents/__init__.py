"""Subagents: the lead agent delegates parts of its work to agents with their own thread, time limit and tools."""
