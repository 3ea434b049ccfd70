"""What the Linux kernel does for commands: filters of system calls, and control groups."""
