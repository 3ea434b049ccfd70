"""Files of sandboxes whose folders are on this machine, for all such providers."""
