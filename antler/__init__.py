"""Clients of the gateway for Python programs: `antler.client`."""
