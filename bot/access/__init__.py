"""Who may use the bot: the rules and grants, the editor that changes them, the service for strangers, their codes."""
