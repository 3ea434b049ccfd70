"""A vendor's package that needs another one, which nobody has installed."""

import nosuch_sdk  # type: ignore[import-not-found]

ChatNeedy = nosuch_sdk.Chat
