"""What is wrong with this installation, and what to do about it: checks by subject, run together (`antler doctor`)."""
