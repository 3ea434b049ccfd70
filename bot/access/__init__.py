"""Who may use the bot: the rules and grants, the desk that changes them, the door for strangers, their codes."""
