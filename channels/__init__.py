"""Platform adapters. They exchange events and messages (message.py) through one port (base.py); no agent code."""
