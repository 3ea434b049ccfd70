"""Maps endpoints of the open platform to methods here; records and faults use the same names."""

from collections.abc import Callable

from tests.simulators.feishu import basics, cardkit, messages, resources
from tests.simulators.feishu.calls import Call
from tests.simulators.feishu.state import App, Json
from tests.simulators.feishu.world import World

Method = Callable[[World, App, Call], Json]

TOKEN_PATH = "/open-apis/auth/v3/tenant_access_token/internal"
ENDPOINT_PATH = "/callback/ws/endpoint"
RESOURCE_PATH = "/open-apis/im/v1/messages/{message_id}/resources/{file_key}"
RESOURCE = "im.resource.get"
BOT_INFO = "bot.info"

# Name, HTTP method, path below /open-apis, and the function that answers it.
ROUTES: tuple[tuple[str, str, str, Method], ...] = (
    (BOT_INFO, "GET", "bot/v3/info", basics.bot_info),
    ("application.scope.list", "GET", "application/v6/scopes", basics.list_scopes),
    ("im.message.create", "POST", "im/v1/messages", messages.create),
    ("im.message.list", "GET", "im/v1/messages", messages.list_messages),
    ("im.message.reply", "POST", "im/v1/messages/{message_id}/reply", messages.reply),
    ("im.message.get", "GET", "im/v1/messages/{message_id}", messages.get),
    ("im.message.update", "PUT", "im/v1/messages/{message_id}", messages.update),
    ("im.message.patch", "PATCH", "im/v1/messages/{message_id}", messages.patch),
    ("im.message.delete", "DELETE", "im/v1/messages/{message_id}", messages.delete),
    ("im.reaction.create", "POST", "im/v1/messages/{message_id}/reactions", messages.react),
    ("im.reaction.delete", "DELETE", "im/v1/messages/{message_id}/reactions/{reaction_id}", messages.unreact),
    ("im.image.create", "POST", "im/v1/images", resources.upload_image),
    ("im.file.create", "POST", "im/v1/files", resources.upload_file),
    ("im.chat.get", "GET", "im/v1/chats/{chat_id}", basics.get_chat),
    ("contact.user.get", "GET", "contact/v3/users/{user_id}", basics.get_user),
    ("card.update_by_token", "POST", "interactive/v1/card/update", basics.update_by_token),
    ("cardkit.card.create", "POST", "cardkit/v1/cards", cardkit.create),
    ("cardkit.card.update", "PUT", "cardkit/v1/cards/{card_id}", cardkit.replace),
    ("cardkit.card.settings", "PATCH", "cardkit/v1/cards/{card_id}/settings", cardkit.update_settings),
    ("cardkit.card.batch_update", "POST", "cardkit/v1/cards/{card_id}/batch_update", cardkit.batch_update),
    ("cardkit.element.create", "POST", "cardkit/v1/cards/{card_id}/elements", cardkit.add_elements),
    ("cardkit.element.update", "PUT", "cardkit/v1/cards/{card_id}/elements/{element_id}", cardkit.replace_element),
    ("cardkit.element.patch", "PATCH", "cardkit/v1/cards/{card_id}/elements/{element_id}", cardkit.patch_element),
    ("cardkit.element.delete", "DELETE", "cardkit/v1/cards/{card_id}/elements/{element_id}", cardkit.delete_element),
    (
        "cardkit.element.content",
        "PUT",
        "cardkit/v1/cards/{card_id}/elements/{element_id}/content",
        cardkit.stream_content,
    ),
)
