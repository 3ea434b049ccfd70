"""The files of sandboxes whose folders are on this machine, shared by every such provider."""
