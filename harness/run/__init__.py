"""One run of an agent, from its input to its last event."""
