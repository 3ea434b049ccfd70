"""Tools of MCP servers: configured, connected, checked and given to the agent. Importing `mcp` itself costs 13 MB, so
only session.py and the two transports do it, and only when a server is configured."""
