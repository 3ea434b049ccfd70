"""Apps created by scanning a code: /oauth/v1/app/registration of the platform's accounts server (OAuth 2.0 device
authorization, RFC 8628)."""

from dataclasses import dataclass, field

from aiohttp import web

from tests.simulators.feishu.state import Json

PATH = "/oauth/v1/app/registration"
PENDING: Json = {"error": "authorization_pending", "error_description": "nobody has scanned it"}


@dataclass
class Registration:
    """The registration. outcome: the answer to a poll; a test sets it to what the person with the phone did."""

    outcome: Json = field(default_factory=lambda: dict(PENDING))

    async def answer(self, request: web.Request) -> web.Response:
        """One of the three actions: init, begin, poll."""
        form = await request.post()
        match form.get("action"):
            case "init":
                found: Json = {"supported_auth_methods": ["client_secret"]}
            case "begin" if form.get("archetype") == "PersonalAgent":
                link = f"{request.url.origin()}/page/cli?user_code=SIMU-LATE"
                found = {"device_code": "dc-1", "verification_uri_complete": link, "interval": 1, "expires_in": 600}
            case "poll" if form.get("device_code") == "dc-1":
                found = self.outcome
            case _:
                found = {"error": "invalid_request", "error_description": f"{dict(form)}"}
        return web.json_response(found, status=400 if "error" in found else 200)
