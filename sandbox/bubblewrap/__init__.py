"""The provider with namespaces of its own for each command, by bubblewrap (bwrap(1)): the default where it works."""
