"""Platforms. Speaks events and messages (message.py) through one port (base.py); knows no agent."""
