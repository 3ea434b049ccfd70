"""Backups of a data folder and its database: made while the gateway runs, checked, and restored."""
