"""The page in the browser: its frame, the chat, and what other rooms show in that frame.

`view.py` renders templates and serves the static files, `navigation.py` lists the entries of the menu.
"""
