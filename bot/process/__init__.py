"""The process: from the `run` command to the last log line."""
