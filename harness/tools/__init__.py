"""The tools of the lead agent. Each works on the run's sandbox (harness/graph/sandbox.py) and answers in words."""
