"""The gateway's skills: their folders, who may use which, and the `antler skills` command."""
