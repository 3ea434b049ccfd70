"""Files that people send and agents present: uploads, quotas, conversion, sandboxes of threads."""
