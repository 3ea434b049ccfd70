"""Skills: folders with a SKILL.md that the agent reads when a task calls for it."""
