"""Small endpoints: tenant tokens, the bot's identity, chats and people, card updates by a press's token."""

from tests.simulators.feishu import cards, content, ids
from tests.simulators.feishu.calls import Call
from tests.simulators.feishu.errors import FeishuError, missing_field
from tests.simulators.feishu.limits import CALLBACK_TOKEN_SECONDS, CALLBACK_TOKEN_USES, CARD_BYTES
from tests.simulators.feishu.state import SCOPES, App, Json
from tests.simulators.feishu.world import Token, World

# A token with at least this many seconds left is handed out again.
REUSED_SECONDS = 1800.0


def tenant_token(world: World, call: Call) -> Json:
    """POST auth/v3/tenant_access_token/internal: {tenant_access_token, expire} at the top level."""
    app = authenticated(world, call.text("app_id"), call.text("app_secret"))
    now = world.clock.now()
    mine = ((text, token) for text, token in world.tokens.items() if token.app is app)
    for text, token in mine:
        if token.expires - now >= REUSED_SECONDS:
            return {"tenant_access_token": text, "expire": int(token.expires - now)}
    text = ids.numbered("t-")
    world.tokens[text] = Token(app, now + app.token_seconds)
    return {"tenant_access_token": text, "expire": app.token_seconds}


def authenticated(world: World, app_id: str, app_secret: str) -> App:
    """The app of a pair of credentials; raises FeishuError as the token endpoint does."""
    app = world.apps.get(app_id)
    if app is None:
        raise FeishuError(10003, "invalid param", status=200)
    if app.app_secret != app_secret:
        raise FeishuError(10014, "app secret invalid", status=200)
    return app


def bot_info(world: World, app: App, call: Call) -> Json:
    """GET bot/v3/info: {bot} at the top level."""
    return {
        "activate_status": 2 if app.bot_active else 0,
        "app_name": app.name,
        "avatar_url": "",
        "ip_white_list": [],
        "open_id": app.bot_open_id,
    }


def list_scopes(world: World, app: App, call: Call) -> Json:
    """GET application/v6/scopes: the requested scopes, granted (1) or not (2)."""
    names = sorted(SCOPES | app.scopes)
    scopes = [{"scope_name": name, "grant_status": 1 if name in app.scopes else 2} for name in names]
    return {"scopes": scopes}


def get_chat(world: World, app: App, call: Call) -> Json:
    """GET im/v1/chats/:chat_id"""
    chat = app.tenant.chats.get(call.path["chat_id"])
    if chat is None:
        raise FeishuError(232006, "Your request specifies a chat_id which is invalid.")
    if app.app_id not in chat.bots:
        raise FeishuError(232011, "Operator can NOT be out of the chat.")
    return {
        "name": chat.name,
        "description": "",
        "chat_mode": chat.mode,
        "chat_type": "private",
        "external": chat.external,
        "tenant_key": app.tenant.key,
        "user_count": str(len(chat.members)),
        "bot_count": str(len(chat.bots)),
        "chat_status": "dissolved" if chat.disbanded else "normal",
    }


def get_user(world: World, app: App, call: Call) -> Json:
    """GET contact/v3/users/:user_id?user_id_type="""
    person = world.person_by(app, call.query.get("user_id_type", "open_id"), call.path["user_id"])
    if person is None:
        raise FeishuError(41050, "no user authority error", status=400)
    known = app.tenant.people[person]
    user = {
        "open_id": ids.open_id(app.app_id, person),
        "union_id": ids.union_id(person),
        "user_id": person,
        "name": known["name"],
        "en_name": known.get("en_name", ""),
        "status": {"is_frozen": False, "is_resigned": False, "is_activated": True},
    }
    return {"user": user}


def update_by_token(world: World, app: App, call: Call) -> Json:
    """POST interactive/v1/card/update: replaces the card of an answered press, at most twice."""
    callback = world.callbacks.get(call.required("token"))
    card = call.body.get("card")
    if not isinstance(card, dict):
        raise missing_field("card")
    if callback is None or callback.app is not app or world.clock.now() - callback.made > CALLBACK_TOKEN_SECONDS:
        raise FeishuError(300010, "invalid token")
    if not callback.answered:
        raise FeishuError(300011, "the callback was not answered yet")
    if callback.uses >= CALLBACK_TOKEN_USES:
        raise FeishuError(300030, "the token was used too often")
    if cards.size(card) > CARD_BYTES:
        raise FeishuError(230025, "The length of the message content reaches its limit.")
    callback.uses += 1
    message = callback.message
    message.card = content.inline_card(world, app, card)
    message.card.message = message
    message.edits += 1
    message.show(world.clock.now())
    return {}
