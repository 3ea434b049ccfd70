"""The in-memory twin of the sandbox port: for tests and for trying Antler out; nothing is really run."""
