"""The way out of a sandbox with `network: egress`: to the hosts that the operator listed, and to no other address."""
