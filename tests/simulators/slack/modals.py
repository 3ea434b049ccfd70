"""views.*: modals opened with a trigger, and App Home tabs."""

from typing import Any

from tests.simulators.slack.blocks import MAX_VIEW_BLOCKS, check_blocks
from tests.simulators.slack.calls import Call
from tests.simulators.slack.elements import Checker
from tests.simulators.slack.errors import SlackError, invalid_arguments
from tests.simulators.slack.ids import numbered
from tests.simulators.slack.state import Installation, Json
from tests.simulators.slack.world import World

MAX_TITLE = 24


def open_view(world: World, install: Installation, call: Call) -> Any:
    """views.open and views.push: a modal for the person who caused the trigger."""
    view = _checked(call, "modal")
    trigger = world.use_trigger(install.app.app_id, call.required("trigger_id"))
    return {"view": _keep(world, install, view, trigger.user)}


def update(world: World, install: Installation, call: Call) -> Any:
    """views.update: replaces an open view by its id."""
    known = world.views.get(call.text("view_id"))
    if known is None or known["app_id"] != install.app.app_id:
        raise SlackError("not_found")
    known.update(_checked(call, str(known["type"])))
    return {"view": known}


def publish(world: World, install: Installation, call: Call) -> Any:
    """views.publish: a person's App Home."""
    user = call.required("user_id")
    if user not in install.workspace.users:
        raise SlackError("user_not_found")
    view = _keep(world, install, _checked(call, "home"), user)
    world.homes[install.app.app_id, user] = view
    return {"view": view}


def _checked(call: Call, kind: str) -> Json:
    view = call.params.get("view")
    if not isinstance(view, dict) or view.get("type") != kind:
        raise invalid_arguments(f"must be one of: {kind} [json-pointer:/view/type]")
    checker = Checker()
    if kind == "modal":
        checker.text_object(view, "title", "/view", MAX_TITLE, plain=True)
        for name in ("submit", "close"):
            if name in view:
                checker.text_object(view, name, "/view", MAX_TITLE, plain=True)
    if checker.errors:
        raise invalid_arguments(*checker.errors)
    return {**view, "blocks": check_blocks(view.get("blocks"), most=MAX_VIEW_BLOCKS)}


def _keep(world: World, install: Installation, view: Json, user: str) -> Json:
    kept = {
        **view,
        "id": numbered("V"),
        "team_id": install.workspace.team_id,
        "app_id": install.app.app_id,
        "bot_id": install.bot_id,
        "shown_to": user,
        "state": {"values": {}},
        "hash": numbered("hash."),
    }
    world.views[kept["id"]] = kept
    return kept


METHODS = {"views.open": open_view, "views.publish": publish, "views.push": open_view, "views.update": update}
