"""Tool calls that a person has to allow: what the chat shows, who decides, and how the run goes on."""
