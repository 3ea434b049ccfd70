"""What an agent of the config is to the gateway: its profile, its titles."""
