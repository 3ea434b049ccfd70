"""The socket over which commands reach a running gateway, and the lock that identifies it."""
