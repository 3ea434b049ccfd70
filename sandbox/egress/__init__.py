"""Outgoing connections: of a sandbox with `network: egress`, only to listed hosts; and the CAs trusted by our own."""
