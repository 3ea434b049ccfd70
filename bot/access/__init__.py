"""Access to the bot: the rules and grants, the editor that changes them, the service for strangers, and their codes."""
