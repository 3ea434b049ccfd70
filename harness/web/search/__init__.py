"""Search engines behind one port: built in or by class path, queried together, their results merged into one list."""
