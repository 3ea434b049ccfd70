"""`antler init`: a config.yaml and a .env from a person's answers, or from the flags of a script."""
