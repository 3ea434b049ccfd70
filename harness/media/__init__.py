"""Pictures and speech that are made for people: services, the tools that ask them, and what these cost."""
