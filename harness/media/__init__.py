"""Generated pictures and speech: services, the tools that call them, and their cost."""
