"""The way out: of a sandbox with `network: egress`, to listed hosts alone; and whom our own connections trust."""
