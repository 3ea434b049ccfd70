"""Shell scripts as they are read before they run: their commands, and what is suspicious about them."""
