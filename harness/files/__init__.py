"""Files and pictures passed to and from an agent, and the helper processes that decode them."""
