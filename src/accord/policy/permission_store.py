"""What the user always allows, in one project or everywhere ("always" answers that outlast a session).

The rules are in one file of the user's data folder, outside of all projects: tools have no access to that
folder, and no file of a project can add a rule. Each rule has exactly the scope of its answer.
"""

import os
import secrets
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from accord.errors import BadSettings
from accord.file_format import FileFormat
from accord.paths import data_dir
from accord.policy.request import Grant, GrantKind, GrantScope
from accord.private_files import locked, private_folder

_FORMAT: Final = FileFormat()
_StoredGrants: TypeAlias = tuple[tuple[GrantKind, tuple[str, ...]], ...]


class KeptRule(msgspec.Struct, frozen=True):
    """One "always" answer."""

    id: str
    grants: _StoredGrants
    folder: str | None = None
    """The project's folder, with links resolved; None for all folders."""
    created: str = ""

    @property
    def scope(self) -> GrantScope:
        """What it allows."""
        return GrantScope(tuple(Grant(kind, key) for kind, key in self.grants))

    def applies_to(self, folder: Path) -> bool:
        """Whether it counts for a session in this folder."""
        return self.folder is None or self.folder == str(folder)


class _RulesFile(msgspec.Struct):
    rules: list[KeptRule]


class PermissionStore:
    """The kept rules. Several processes may use it at the same time."""

    def __init__(self, file: Path | None = None) -> None:
        self.file: Path = data_dir() / "permissions.json" if file is None else file

    def rules(self) -> list[KeptRule]:
        """Return all rules, oldest first. Raises BadSettings if the file is unusable."""
        try:
            data = self.file.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BadSettings(f"{self.file}: cannot be read ({error.strerror})") from None
        try:
            return _FORMAT.decode(data, _RulesFile, self.file).rules
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadSettings(f"{self.file}: not a file of permission rules ({error}); remove it") from None

    def grants(self, folder: Path) -> frozenset[Grant]:
        """Return what is always allowed in a folder. Raises BadSettings."""
        return frozenset(
            grant for rule in self.rules() if rule.applies_to(folder) for grant in rule.scope.grants
        )

    def keep(self, scope: GrantScope, folder: Path | None) -> KeptRule:
        """Add a rule, unless there is the same one. Raises OSError, BadSettings."""
        grants: _StoredGrants = tuple((grant.kind, grant.key) for grant in scope.grants)
        place = None if folder is None else os.path.realpath(folder)
        with self._locked():
            rules = self.rules()
            for rule in rules:
                if rule.grants == grants and rule.folder == place:
                    return rule
            used = {rule.id for rule in rules}
            rule_id = next(text for text in iter(lambda: secrets.token_hex(3), "") if text not in used)
            rule = KeptRule(rule_id, grants, place, datetime.now(UTC).isoformat(timespec="seconds"))
            _FORMAT.write(self.file, _RulesFile([*rules, rule]))
            return rule

    def revoke(self, ids: Iterable[str]) -> list[KeptRule]:
        """Remove rules and return them. Raises OSError, BadSettings."""
        wanted = set(ids)
        with self._locked():
            rules = self.rules()
            removed = [rule for rule in rules if rule.id in wanted]
            if removed:
                _FORMAT.write(self.file, _RulesFile([rule for rule in rules if rule.id not in wanted]))
            return removed

    def _locked(self) -> AbstractContextManager[int]:
        return locked(private_folder(self.file.parent) / f"{self.file.name}.lock")
