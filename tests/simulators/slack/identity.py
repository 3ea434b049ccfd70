"""Identities: auth.test, users.*, bots.info, team.info, and the methods for app-level tokens."""

from typing import Any

from tests.simulators.slack.calls import Call
from tests.simulators.slack.errors import SlackError
from tests.simulators.slack.state import App, Installation, Json
from tests.simulators.slack.world import World


def api_test(world: World, install: Installation, call: Call) -> Any:
    """api.test: echoes its arguments."""
    if call.given("error"):
        raise SlackError(call.text("error"))
    return {"args": call.params}


def auth_test(world: World, install: Installation, call: Call) -> Any:
    """auth.test of a bot token."""
    team = install.workspace
    return {
        "url": f"https://{team.domain}.slack.com/",
        "team": team.name,
        "user": team.users[install.bot_user_id]["name"],
        "team_id": team.team_id,
        "user_id": install.bot_user_id,
        "bot_id": install.bot_id,
        "is_enterprise_install": False,
    }


def user_auth_test(install: Installation, user_id: str) -> Json:
    """auth.test of a person's token: the user is that person, without a bot_id."""
    team = install.workspace
    user = {"user": team.users[user_id]["name"], "user_id": user_id}
    return {"url": f"https://{team.domain}.slack.com/", "team": team.name, "team_id": team.team_id, **user}


def app_auth_test(app: App) -> Json:
    """auth.test of an app-level token."""
    return {"app_name": app.name, "app_id": app.app_id}


def users_info(world: World, install: Installation, call: Call) -> Any:
    """users.info; the locale only with include_locale."""
    user = install.workspace.users.get(call.required("user"))
    if user is None:
        raise SlackError("user_not_found")
    return {"user": _user_json(user, locale=call.flag("include_locale"))}


def users_list(world: World, install: Installation, call: Call) -> Any:
    """users.list, on one page."""
    locale = call.flag("include_locale")
    users = [_user_json(user, locale=locale) for user in install.workspace.users.values()]
    return {"members": users, "response_metadata": {"next_cursor": ""}}


def _user_json(user: Json, *, locale: bool) -> Json:
    return {name: value for name, value in user.items() if locale or name != "locale"}


def bots_info(world: World, install: Installation, call: Call) -> Any:
    """bots.info"""
    wanted = call.required("bot")
    for app in world.apps.values():
        found = app.installs.get(install.workspace.team_id)
        if found is not None and found.bot_id == wanted:
            bot = {"id": found.bot_id, "app_id": app.app_id, "user_id": found.bot_user_id, "name": app.name}
            return {"bot": {**bot, "deleted": found.revoked is not None, "icons": {}}}
    raise SlackError("bot_not_found")


def team_info(world: World, install: Installation, call: Call) -> Any:
    """team.info"""
    team = install.workspace
    return {"team": {"id": team.team_id, "name": team.name, "domain": team.domain, "email_domain": "", "icon": {}}}


METHODS = {
    "api.test": api_test,
    "auth.test": auth_test,
    "bots.info": bots_info,
    "team.info": team_info,
    "users.info": users_info,
    "users.list": users_list,
}
