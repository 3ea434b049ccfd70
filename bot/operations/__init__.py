"""What operators see and change while the gateway runs: health, status, reload, upkeep."""
