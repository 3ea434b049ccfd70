"""Third-party agents, run in the thread's sandbox and driven over the Agent Client Protocol."""
