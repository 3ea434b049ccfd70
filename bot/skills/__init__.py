"""The gateway's skills: which folders hold them, who has which, and the `antler skills` command."""
