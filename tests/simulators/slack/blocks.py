"""Block Kit as the Web API checks it: limits of each block, and the refusals invalid_blocks and its siblings."""

import itertools
from collections.abc import Callable
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.simulators.slack.elements import Checker, check_element
from tests.simulators.slack.errors import SlackError

Json = dict[str, Any]

MAX_BLOCKS = 50
MAX_VIEW_BLOCKS = 100
MAX_SECTION = 3000
MAX_HEADER = 150
MAX_FIELD = 2000
MAX_MARKDOWN = 12_000
MAX_TABLE_ROWS = 100
MAX_TABLE_COLUMNS = 20
MAX_TABLE_CHARACTERS = 10_000
RICH_PARTS = frozenset({"rich_text_section", "rich_text_list", "rich_text_preformatted", "rich_text_quote"})
RICH_INLINE = frozenset({"text", "link", "user", "channel", "emoji", "broadcast", "usergroup", "color", "date", "team"})
TASK_STATES = ("pending", "in_progress", "complete", "error")
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def check_blocks(blocks: Any, *, most: int = MAX_BLOCKS) -> list[Json]:
    """The blocks, each with a block_id; raises SlackError."""
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise SlackError("invalid_blocks_format")
    checker = Checker()
    made = [_made_of(block) for block in blocks]
    if sum(count for count, _ in made) > most:
        checker.fail(f"no more than {most} items allowed", "/blocks")
    ids: set[str] = set()
    for number, block in enumerate(blocks):
        _check_block(checker, block, f"/blocks/{number}", ids)
    _check_tables(checker, [table for _, tables in made for table in tables])
    if checker.errors:
        raise SlackError(
            "invalid_blocks",
            errors=checker.errors,
            response_metadata={"messages": [f"[ERROR] {error}" for error in checker.errors]},
        )
    if sum(len(block["text"]) for block in blocks if block.get("type") == "markdown") > MAX_MARKDOWN:
        raise SlackError("msg_blocks_too_long")
    return [{"block_id": f"b{number}", **block} for number, block in enumerate(blocks)]


def _made_of(block: Json) -> tuple[int, list[list[list[str]]]]:
    """How many blocks it counts as, and the cells of its tables: the server converts Markdown to blocks."""
    if block.get("type") == "table":
        rows = block.get("rows")
        cells = [row for row in rows if isinstance(row, list)] if isinstance(rows, list) else []
        return 1, [[[str(cell.get("text", "")) for cell in row if isinstance(cell, dict)] for row in cells]]
    if block.get("type") != "markdown" or not isinstance(block.get("text"), str):
        return 1, []
    tokens = MARKDOWN.parse(block["text"])
    return max(1, sum(token.level == 0 and token.nesting >= 0 for token in tokens)), _tables_of(tokens)


def _tables_of(tokens: list[Token]) -> list[list[list[str]]]:
    tables: list[list[list[str]]] = []
    for token, following in itertools.pairwise(tokens):
        match token.type:
            case "table_open":
                tables.append([])
            case "tr_open":
                tables[-1].append([])
            case "th_open" | "td_open":
                tables[-1][-1].append(following.content)
    return tables


def _check_tables(checker: Checker, tables: list[list[list[str]]]) -> None:
    if len(tables) > 1:
        checker.fail("only one table is allowed", "/blocks")
    for table in tables:
        if len(table) > MAX_TABLE_ROWS:
            checker.fail(f"no more than {MAX_TABLE_ROWS} items allowed", "/blocks")
        if any(len(row) > MAX_TABLE_COLUMNS for row in table):
            checker.fail(f"no more than {MAX_TABLE_COLUMNS} items allowed", "/blocks")
    if sum(len(cell) for table in tables for row in table for cell in row) > MAX_TABLE_CHARACTERS:
        checker.fail(f"no more than {MAX_TABLE_CHARACTERS} characters allowed in tables", "/blocks")


def _check_block(checker: Checker, block: Json, pointer: str, ids: set[str]) -> None:
    check = BLOCKS.get(str(block.get("type")))
    if check is None:
        checker.fail(f"unsupported type: {block.get('type')}", f"{pointer}/type")
        return
    block_id = checker.string(block, "block_id", pointer, 255, required=False)
    if block_id and block_id in ids:
        checker.fail(f"block_id {block_id!r} already exists", pointer)
    ids.add(block_id)
    check(checker, block, pointer)


def _section(checker: Checker, block: Json, pointer: str) -> None:
    if "text" not in block and "fields" not in block:
        checker.fail("must define either `text` or `fields`", pointer)
    if "text" in block:
        checker.text_object(block, "text", pointer, MAX_SECTION)
    if "fields" in block:
        fields = checker.items(block, "fields", pointer, 10)
        for number in range(len(fields)):
            holder = {str(number): fields[number]}
            checker.text_object(holder, str(number), f"{pointer}/fields", MAX_FIELD)
    if "accessory" in block:
        check_element(checker, block["accessory"], f"{pointer}/accessory", set())


def _header(checker: Checker, block: Json, pointer: str) -> None:
    checker.text_object(block, "text", pointer, MAX_HEADER, plain=True)


def _markdown(checker: Checker, block: Json, pointer: str) -> None:
    checker.string(block, "text", pointer, MAX_MARKDOWN)


def _context(checker: Checker, block: Json, pointer: str) -> None:
    elements = checker.items(block, "elements", pointer, 10)
    for number, element in enumerate(elements):
        at = f"{pointer}/elements"
        if isinstance(element, dict) and element.get("type") == "image":
            check_element(checker, element, f"{at}/{number}", set())
        else:
            checker.text_object({str(number): element}, str(number), at)


def _actions(most: int) -> Callable[[Checker, Json, str], None]:
    def check(checker: Checker, block: Json, pointer: str) -> None:
        seen: set[str] = set()
        for number, element in enumerate(checker.items(block, "elements", pointer, most)):
            check_element(checker, element, f"{pointer}/elements/{number}", seen)

    return check


def _image(checker: Checker, block: Json, pointer: str) -> None:
    checker.string(block, "alt_text", pointer, 2000)
    if "slack_file" not in block:
        checker.string(block, "image_url", pointer, 3000)
    if "title" in block:
        checker.text_object(block, "title", pointer, 2000, plain=True)


def _input(checker: Checker, block: Json, pointer: str) -> None:
    checker.text_object(block, "label", pointer, 2000, plain=True)
    check_element(checker, block.get("element"), f"{pointer}/element", set())


def _rich_text(checker: Checker, block: Json, pointer: str) -> None:
    for number, part in enumerate(checker.items(block, "elements", pointer, 1000)):
        _rich_part(checker, part, f"{pointer}/elements/{number}")


def _rich_part(checker: Checker, part: Any, pointer: str) -> None:
    if not isinstance(part, dict) or part.get("type") not in RICH_PARTS:
        checker.fail("unsupported type", f"{pointer}/type")
        return
    for number, element in enumerate(checker.items(part, "elements", pointer, 1000, least=0)):
        at = f"{pointer}/elements/{number}"
        if part["type"] == "rich_text_list":
            _rich_part(checker, element, at)
        elif not isinstance(element, dict) or element.get("type") not in RICH_INLINE:
            checker.fail("unsupported type", f"{at}/type")
        elif element["type"] == "text":
            checker.string(element, "text", at, 1_000_000)


def _table(checker: Checker, block: Json, pointer: str) -> None:
    for number, row in enumerate(checker.items(block, "rows", pointer, MAX_TABLE_ROWS)):
        at = f"{pointer}/rows/{number}"
        if not isinstance(row, list):
            checker.fail("must be an array", at)
        elif not all(isinstance(cell, dict) and cell.get("type") in ("raw_text", "rich_text") for cell in row):
            checker.fail("must be one of: raw_text, rich_text", at)


def _task_card(checker: Checker, block: Json, pointer: str) -> None:
    checker.string(block, "task_id", pointer, 255)
    checker.string(block, "title", pointer, MAX_SECTION)
    if block.get("status", "pending") not in TASK_STATES:
        checker.fail(f"must be one of: {', '.join(TASK_STATES)}", f"{pointer}/status")


def _plan(checker: Checker, block: Json, pointer: str) -> None:
    checker.string(block, "title", pointer, MAX_SECTION)
    for number, task in enumerate(block.get("tasks", [])):
        _task_card(checker, task, f"{pointer}/tasks/{number}")


def _nothing(checker: Checker, block: Json, pointer: str) -> None:
    """Check a block without its own members."""


BLOCKS: dict[str, Callable[[Checker, Json, str], None]] = {
    "actions": _actions(25),
    "context": _context,
    "context_actions": _actions(5),
    "divider": _nothing,
    "header": _header,
    "image": _image,
    "input": _input,
    "markdown": _markdown,
    "plan": _plan,
    "rich_text": _rich_text,
    "section": _section,
    "table": _table,
    "task_card": _task_card,
}
