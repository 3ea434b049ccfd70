"""Mechanisms of the Linux kernel for commands: system call filters and control groups."""
