"""Subagents: the lead agent hands parts of its work to agents with a thread, a time limit and tools of their own."""
