"""Storage of conversations with an agent, and operations on them between turns."""
