"""Runs in separate processes: the gateway orders them and follows their events, workers execute them."""
