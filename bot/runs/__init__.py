"""Runs: manager.py executes them; the others fold, record, stream and end what they yield, and find what was left."""
