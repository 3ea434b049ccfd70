"""Markdown and text for all platforms: the tree (`parse`), safe text (`sanitize`), measuring and cutting (`split`),
pages of a platform's own Markdown (`outline`)."""
