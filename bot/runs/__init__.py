"""Runs: the agent's turns, executed, folded into what the chat shows, recorded and ended; what a crash left goes on."""
