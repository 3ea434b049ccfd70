"""Who can be asked when the agent searches: one provider per file, all with the shape in base.py."""
