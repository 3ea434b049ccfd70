"""Files and pictures on their way to and from an agent, and the helper processes that decode them."""
