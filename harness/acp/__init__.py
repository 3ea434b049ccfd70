"""Agents of others, spoken to by the Agent Client Protocol: programs in the thread's sandbox."""
