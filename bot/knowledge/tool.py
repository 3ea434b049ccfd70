"""`antler knowledge`: the installation's collections, over the control socket while antler runs, else done here.

Collections of persons and groups are private: only hashed keys and numbers are shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bot.control.actions import MACHINE, Action, log_action
from bot.control.lock import do_there_or_here
from bot.files.sandboxes import Sandboxes
from bot.knowledge.keeper import FILE, MAIN, MEGABYTE, Addition, Knowledge
from bot.knowledge.reading import KEYS, Unreadable, content_of
from bot.knowledge.searching import FOLDER, PAGE
from bot.store.identity import folder_name
from bot.store.knowledge import EVERYBODYS
from bot.store.retrying import RetryingStore
from bot.texts import DEFAULT, texts_for
from bot.texts.commands import unmarked
from bot.usage.report import make_spending
from harness.knowledge.config import COLLECTION, LONGEST_NAME
from harness.knowledge.port import Asker, KnowledgeFailed
from harness.text.plain import short_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.settings import Settings
    from bot.store import Store
    from bot.store.knowledge import DocumentRow

KEY = 12
"""Characters of a hashed key that the list shows."""
SECONDS = 300.0
"""Timeout of an answer from a running antler: it may have to convert a document."""
SHUTDOWN_SECONDS = 10.0
SHOWN_TEXT = 400
Verb = Literal["list", "add", "remove", "reindex", "ask"]


class KnowledgeTool:
    def __init__(self, knowledge: Knowledge, *, waits: bool = False) -> None:
        """waits: answer after reindexing is complete; otherwise it continues in the background."""
        self._knowledge = knowledge
        self._waits = waits

    async def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """An operation of the control socket: {"do", "what", "collection"} to {"text", "done"}, and "data" for list and
        ask."""
        if not self._knowledge.settings.enabled:
            return {"text": "knowledge is switched off: set knowledge.enabled to true", "done": False}
        what, collection = str(request.get("what", "")), str(request.get("collection", ""))
        match request.get("do"):
            case "list":
                return await self._list()
            case "add":
                return await self._add(what, collection or MAIN)
            case "remove":
                return await self._remove(what, collection)
            case "reindex":
                return await self._reindex()
            case "ask":
                return await self._ask(what, collection)
        return {"text": "the running antler has another version: restart it", "done": False}

    async def _list(self) -> dict[str, Any]:
        rows = await self._knowledge.documents(EVERYBODYS)
        owners = await self._knowledge.owners()
        others = {owner: count for owner, count in owners.items() if owner != EVERYBODYS}
        lines = [_line(row) for row in rows] or ["the installation has no documents"]
        lines += [
            f"{folder_name(owner)[:KEY]}  {count} documents of a person or a group" for owner, count in others.items()
        ]
        lines += [f"not up to date: {name}: {why}" for name, why in self._knowledge.troubles.items()]
        progress = self._knowledge.progress
        if progress.total:
            lines.append(f"reading {progress.done} of {progress.total}: {progress.what}")
        data = {
            "documents": [_facts(row) for row in rows],
            "others": [{"key": folder_name(owner)[:KEY], "documents": count} for owner, count in others.items()],
            "troubles": self._knowledge.troubles,
        }
        return {"text": "\n".join(lines), "data": data, "done": True}

    async def _add(self, what: str, collection: str) -> dict[str, Any]:
        if not COLLECTION.fullmatch(collection):
            text = f"--collection {collection}: a name may have at most {LONGEST_NAME} letters, digits, - and _"
            return {"text": text, "done": False}
        if collection in {folder.name for folder in self._knowledge.settings.folders}:
            text = f"--collection {collection}: that is a folder of the config: put the file there"
            return {"text": text, "done": False}
        is_page = what.lower().startswith(("http://", "https://"))
        path = Path(what)
        place = what if is_page else path.name
        addition = Addition(owner=EVERYBODYS, collection=collection, kind=PAGE if is_page else FILE, place=place)
        try:
            if is_page:
                row = await self._knowledge.add_page(addition)
            else:
                most = int(self._knowledge.settings.max_file_mb * MEGABYTE)
                row = await self._knowledge.add_file(addition, lambda: content_of(path.parent, path.name, most))
        except Unreadable as error:
            return {"text": f"{what}: {_problem(str(error))}", "done": False}
        log_action(Action.KNOWLEDGE_ADD, MACHINE, what=collection)
        return {"text": f"{row.title or row.place}: added to {collection}, {row.passages} passages", "done": True}

    async def _remove(self, what: str, collection: str) -> dict[str, Any]:
        rows = await self._knowledge.documents(EVERYBODYS)
        named = [
            row for row in rows if (not what or row.place == what) and (not collection or row.collection == collection)
        ]
        chosen = [row for row in named if row.kind != FOLDER]
        if not chosen and named:
            return {"text": "this is a folder from the config: remove it from knowledge.folders", "done": False}
        if not chosen:
            return {
                "text": f"no document {what or collection}; `antler knowledge list` shows all",
                "done": False,
            }
        await self._knowledge.remove([row.id for row in chosen])
        log_action(Action.KNOWLEDGE_REMOVE, MACHINE, what=f"{len(chosen)} documents")
        return {"text": f"removed: {', '.join(row.place for row in chosen)}", "done": True}

    async def _reindex(self) -> dict[str, Any]:
        if not self._waits:
            self._knowledge.look_anew()
            return {"text": "everything is being read again; `antler knowledge list` shows the progress", "done": True}
        await self._knowledge.look(anew=True)
        return await self._list()

    async def _ask(self, question: str, collection: str) -> dict[str, Any]:
        chosen = (collection,) if collection else ()
        try:
            looked = await self._knowledge.search(question, Asker(owner=EVERYBODYS), chosen)
        except KnowledgeFailed as failure:
            return {"text": str(failure), "done": False}
        if looked.unknown:
            return {"text": f"no collection {looked.unknown[0]}", "done": False}
        found = [f"{number}. {hit.place} ({hit.collection})\n   {hit.address}\n   {short_line(hit.text, SHOWN_TEXT)}"
                 for number, hit in enumerate(looked.hits, 1)]  # fmt: skip
        found += [f"not searched: {each}" for each in looked.missing]
        data = [{"place": hit.place, "collection": hit.collection, "address": hit.address, "text": hit.text}
                for hit in looked.hits]  # fmt: skip
        return {"text": "\n\n".join(found) or "nothing was found", "data": data, "done": True}


def run(settings: Settings, do: Verb, what: str = "", collection: str = "", *, as_json: bool = False) -> int:
    """The command line: run it where the data is currently held and print the answer; returns the exit code."""
    request = {"do": do, "what": what, "collection": collection}
    return do_there_or_here(settings, "knowledge", request, _do_it_here, as_json=as_json, within=SECONDS)


async def _do_it_here(settings: Settings, store: Store, request: Mapping[str, Any]) -> dict[str, Any]:
    """Run it here, with a separate sandbox for conversions."""
    sandboxes, clock = Sandboxes(settings.sandbox, settings.data_dir, settings.network_route), store.clock
    spending = make_spending(RetryingStore(store, clock), clock, settings.budgets, settings.prices, settings.zone)
    kept = Knowledge(settings, store, sandboxes, spending)
    try:
        if request.get("do") in ("add", "reindex"):
            await sandboxes.start()
        answer = await KnowledgeTool(kept, waits=True).do(request)
        if request.get("do") == "add":
            await kept.embed()
        return answer
    finally:
        await kept.close()
        await sandboxes.shutdown(SHUTDOWN_SECONDS)


def _problem(problem: str) -> str:
    kind, _, detail = problem.partition(": ")
    known = texts_for(DEFAULT).knowledge_problem
    key = f" ({KEYS[kind]})" if kind in KEYS else ""
    return unmarked(known.get(kind, known["other"]).format(detail=detail)).strip() + key


def _line(row: DocumentRow) -> str:
    state = f"not read: {_problem(row.problem)}" if row.problem else f"{row.passages} passages"
    return f"{row.collection}  {row.kind:<6}  {row.place}  {state}"


def _facts(row: DocumentRow) -> dict[str, Any]:
    """JSON data. read_at: ISO 8601."""
    return {
        "collection": row.collection,
        "kind": row.kind,
        "place": row.place,
        "title": row.title,
        "passages": row.passages,
        "problem": row.problem,
        "read_at": row.read_at.isoformat(timespec="seconds"),
    }
