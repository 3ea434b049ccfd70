"""The files that `antler init` writes: config.yaml and .env, extending existing ones, both or neither."""

from __future__ import annotations

import contextlib
import io
import os
import re
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bot.settings.load import ENV_FILE, expand, load, variables
from bot.settings.problems import ConfigError, ConfigProblem, dotted
from bot.settings.sections import NetworkSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ruamel.yaml import YAML

    from bot.settings import Settings

HEADER = """\
Antler's configuration, written by `antler init`: what differs from the defaults. `antler config example` prints every
key; `antler check-config` checks this file. Secrets are in the .env next to it."""
_PLAIN = re.compile(r"[\w:./+=@%,-]*", re.ASCII)


@dataclass(slots=True)
class Draft:
    """The answers so far. config: a part of the config's tree. secrets: variable -> value, for the .env."""

    config: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, value: Any) -> None:
        """Set a dotted key; None removes it."""
        *sections, last = key.split(".")
        inner = self.config
        for section in sections:
            inner = inner.setdefault(section, {})
        inner.pop(last, None)
        if value is not None:
            inner[last] = value

    def add(self, part: Draft) -> None:
        """Lay another draft over this one."""
        _lay_over(self.config, part.config)
        self.secrets |= part.secrets

    def get(self, key: str, default: Any = None) -> Any:
        inner: Any = self.config
        for section in key.split("."):
            if not isinstance(inner, dict) or section not in inner:
                return default
            inner = inner[section]
        return inner


class Unwritable(Exception):
    """A file cannot be written, such as on a full disk; the text names it."""


class ConfigFiles:
    """The config file and the .env beside it. fresh: an existing config is replaced, and kept under another name."""

    def __init__(self, path: Path, env: Mapping[str, str]) -> None:
        self.path = path.absolute()
        self.env_path = self.path.parent / ENV_FILE
        self.fresh = False
        self._env = env

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def settings(self, draft: Draft) -> Settings:
        """The resulting settings. Raises ConfigError with every problem."""
        env = {**variables(self.path, self._env), **draft.secrets}
        return load(self.path, env, text=self.config_text(draft))

    def known_accounts(self) -> dict[str, Any]:
        """The accounts of the existing config, as written there."""
        accounts = self._tree(_yaml()).get("channels")
        return dict(accounts) if isinstance(accounts, dict) else {}

    def has(self, section: str) -> bool:
        return bool(self._tree(_yaml()).get(section))

    def network(self, draft: Draft) -> NetworkSettings:
        """The resulting network settings. Raises ConfigError."""
        try:
            return NetworkSettings.model_validate(self._expanded(draft, "network"))
        except ValidationError as error:
            problems = [
                ConfigProblem(file=str(self.path), key=dotted(("network", *each["loc"])), message=plain(each["msg"]))
                for each in error.errors()
            ]
        raise ConfigError(problems)

    def account(self, draft: Draft, account: str) -> dict[str, Any]:
        """The resulting keys of an account, with the values of the variables that they name."""
        return self._expanded(draft, "channels", account)

    def _expanded(self, draft: Draft, *keys: str) -> dict[str, Any]:
        tree: Any = _yaml().load(self.config_text(draft))
        for key in keys:
            tree = tree.get(key) if isinstance(tree, dict) else None
        return expand(dict(tree), variables(self.path, self._env), (), []) if isinstance(tree, dict) else {}

    def config_text(self, draft: Draft) -> str:
        """The existing config with the answers added; its comments stay."""
        yaml = _yaml()
        tree = self._tree(yaml)
        _merge(tree, deepcopy(draft.config))
        written = io.StringIO()
        yaml.dump(tree, written)
        return written.getvalue()

    def env_text(self, draft: Draft) -> str:
        """The existing .env with the secrets added, or replacing their older values."""
        left = dict(draft.secrets)
        lines = []
        for line in self.env_path.read_text(encoding="utf-8").splitlines() if self.env_path.exists() else []:
            name = line.removeprefix("export ").partition("=")[0].strip()
            lines.append(_assignment(name, left.pop(name)) if name in left else line)
        return "\n".join([*lines, *(_assignment(*item) for item in left.items()), ""])

    def write(self, draft: Draft) -> list[Path]:
        """Write the answers; returns the written files. The secrets come first: a config without them is useless.

        Raises Unwritable.
        """
        config = self.config_text(draft)
        written = []
        if draft.secrets:
            _replace(self.env_path, self.env_text(draft))
            written.append(self.env_path)
        if self.fresh and self.exists:
            kept = self.path.with_name(f"{self.path.name}.before")
            os.replace(self.path, kept)
            written.append(kept)
        _replace(self.path, config, readers=True)
        self.fresh = False
        return [*written, self.path]

    def _tree(self, yaml: YAML) -> Any:
        """The existing config, or an empty one. Raises ConfigError for a file that is no YAML mapping."""
        from ruamel.yaml.comments import CommentedMap
        from ruamel.yaml.error import YAMLError

        found = None
        if self.exists and not self.fresh:
            try:
                found = yaml.load(self.path.read_text(encoding="utf-8-sig"))
            except (YAMLError, UnicodeDecodeError):
                found = ()
            if not isinstance(found, dict | None):
                message = "cannot be extended, as it is not a YAML mapping; `antler check-config` shows where"
                raise ConfigError([ConfigProblem(file=str(self.path), key="", message=message)])
        if found is None:
            found = CommentedMap()
            found.yaml_set_start_comment(f"{HEADER}\n\n")
        return found


def plain(message: str) -> str:
    """A validator's message, without pydantic's prefix."""
    return message.removeprefix("Value error, ")


def _lay_over(tree: dict[str, Any], added: Mapping[str, Any]) -> None:
    for key, value in added.items():
        if isinstance(value, dict):
            known = tree.get(key)
            inner = tree[key] = dict(known) if isinstance(known, dict) else {}
            _lay_over(inner, value)
        else:
            tree[key] = value


def _yaml() -> YAML:
    """Round-trip YAML, which keeps the comments of an existing file; the only place that needs more than PyYAML."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 120
    yaml.preserve_quotes = True
    return yaml


def _merge(tree: Any, added: Mapping[str, Any]) -> None:
    """Merge the answers into the tree. A model replaces the one with its name, and goes to the front of the list."""
    for key, value in added.items():
        known = tree.get(key)
        if key == "models" and isinstance(known, list):
            names = [model["name"] for model in value]
            known[:] = [*value, *(model for model in known if model.get("name") not in names)]
        elif isinstance(known, dict) and isinstance(value, dict):
            _merge(known, value)
        else:
            tree[key] = value


def _assignment(name: str, value: str) -> str:
    if _PLAIN.fullmatch(value):
        return f"{name}={value}"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"{name}='{escaped}'"


def _replace(path: Path, text: str, *, readers: bool = False) -> None:
    try:
        _write(path, text, readers=readers)
    except OSError as error:
        raise Unwritable(f"{path}: {error.strerror}") from error


def _write(path: Path, text: str, *, readers: bool) -> None:
    """Write a file so that at any moment either the old or the new one is there, complete, of the same owner. readers:
    those of the old one, such as a container's user, can read the new one."""
    other = path.with_name(f".{path.name}.new")
    other.unlink(missing_ok=True)
    with open(os.open(other, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        if path.exists():
            was = path.stat()
            with contextlib.suppress(PermissionError):  # only root can give a file away
                os.fchown(file.fileno(), was.st_uid, was.st_gid)
            if readers:
                os.fchmod(file.fileno(), was.st_mode & 0o777)
        file.flush()
        os.fsync(file.fileno())
    os.replace(other, path)
