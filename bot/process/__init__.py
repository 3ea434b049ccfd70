"""The process itself: from the command line's `run` to its last line of log."""
