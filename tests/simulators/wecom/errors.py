"""The platform's error codes, and the exception with which a command's handler refuses a frame."""

CONFLICT = 6000
BAD_MSGTYPE = 40008
BAD_PARAM = 40058
RATE = 45009
BAD_CHAT = 93006
INVALID_REQ_ID = 846605
FREQUENCY = 846607
EXPIRED = 846608
NOT_SUBSCRIBED = 846609
BAD_CREDENTIAL = 853000

MESSAGES = {
    0: "ok",
    CONFLICT: "data version conflict",
    BAD_MSGTYPE: "invalid message type",
    BAD_PARAM: "invalid parameter",
    RATE: "api freq out of limit",
    BAD_CHAT: "invalid chatid",
    INVALID_REQ_ID: "invalid req_id",
    FREQUENCY: "message frequency out of limit",
    EXPIRED: "stream message expired",
    NOT_SUBSCRIBED: "not subscribed",
    BAD_CREDENTIAL: "invalid bot_id or secret",
}


class WecomError(Exception):
    """A frame is refused with this code; `why` is for people who read a failed test."""

    def __init__(self, code: int, why: str = "") -> None:
        super().__init__(f"{code} {MESSAGES.get(code, '')} {why}".strip())
        self.code = code
        self.why = why
