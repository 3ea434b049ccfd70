"""Shell scripts, read before they run: their commands, and what is suspicious about them."""
