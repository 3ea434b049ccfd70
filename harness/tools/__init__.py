"""The lead agent's tools. Each works on the run's sandbox (harness/graph/sandbox.py) and returns text."""
