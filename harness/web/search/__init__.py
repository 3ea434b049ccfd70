"""Search engines behind one port: built in or by class path, asked together, their results merged into one list."""
