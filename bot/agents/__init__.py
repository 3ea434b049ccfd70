"""Agents of the config as seen by the gateway."""
