"""The tools of the lead agent. Each works on the run's sandbox (harness/sandboxes.py) and answers in words."""
