"""Folders with their branches, and git worktrees for sessions: `_accord/folders/recent`, `_accord/worktree`.

A worktree is beside its repository, and git runs the hooks of the repository as the user of the gateway. So
tokens that are bound to folders can neither create nor remove one.
"""

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from accord.errors import InvalidRequest, RpcError, UsageError
from accord.frontend.git_command import Git
from accord.frontend.worktrees import (
    Worktree,
    open_worktree,
    remove_worktree,
    require_removable,
    state_of,
    worktrees_of,
)
from accord.gateway.access.access_tokens import NOT_ALLOWED
from accord.gateway.access.parameter_rights import check_folders
from accord.gateway.methods.parameters import bool_param, read_params, text_param, without_none
from accord.schema.codec import encode

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, GatewayClient

T = TypeVar("T")

_MAX_RECENT: Final = 12
_MAX_SEEN: Final = 500
"""Sessions whose folders are looked at for the recent ones."""


async def recent_folders(client: "GatewayClient", call: "ClientCall") -> None:
    """List the project of the gateway and the folders of the latest sessions, with their branches."""
    gateway, rights = client.gateway, client.rights
    folders: dict[str, int] = {}
    start = gateway.start_folder
    if start is not None and rights.folders is None and not _is_general(start):
        folders[start] = 0
    seen = 0
    for page in gateway.book.pages():
        for recorded in page:
            summary = recorded.summary
            seen += 1
            if rights.may_see(recorded.agent, recorded.session_id, (summary.cwd,)):
                folders.setdefault(summary.cwd, summary.updated)
        if len(folders) >= _MAX_RECENT or seen >= _MAX_SEEN:
            break
        await asyncio.sleep(0)  # let other tasks run
    names = list(folders)[:_MAX_RECENT]
    call.answer(encode({"folders": await asyncio.to_thread(lambda: [*filter(None, map(_facts, names))])}))


def _is_general(folder: str) -> bool:
    """Whether a folder is no project: the home folder, or that of the system."""
    return folder in (os.path.expanduser("~"), os.sep)


def _facts(folder: str) -> dict[str, Any] | None:
    if not os.path.isdir(folder):
        return None
    git = Git.find(folder)
    worktree = None if git is None else _worktree_at(git, folder)
    return without_none(
        path=folder,
        name=os.path.basename(folder) or folder,
        branch=None if git is None else git.branch() or None,
        worktree=worktree and worktree.name,
    )


def _worktree_at(git: Git, folder: str) -> Worktree | None:
    """The worktree of ours that a folder is in."""
    if "-worktrees" not in os.path.realpath(folder):
        return None  # saves a process
    try:
        return next((one for one in worktrees_of(git) if one.contains(folder)), None)
    except UsageError:
        return None


async def show(client: "GatewayClient", call: "ClientCall") -> None:
    """Tell the branch of a folder, and the state of the worktree that it is in."""
    path = text_param(read_params(call), "path")
    check_folders(client.rights, path)

    def read() -> dict[str, Any]:
        git = Git.find(path) if os.path.isdir(path) else None
        if git is None:
            return {}
        found = _worktree_at(git, path)
        return without_none(branch=git.branch(), worktree=found and _members(found))

    call.answer(encode(await _in_thread(read)))


def _members(worktree: Worktree) -> dict[str, Any]:
    state = state_of(worktree)
    return {
        "name": worktree.name,
        "path": worktree.path,
        "branch": worktree.branch,
        "changes": state.changes,
        "commits": state.commits,
        "mergeCommand": worktree.merge_command,
    }


async def create(client: "GatewayClient", call: "ClientCall") -> None:
    """Create a worktree for a session, or find the one with this name."""
    params = read_params(call)
    path, name = text_param(params, "path"), text_param(params, "name", "")
    check_folders(client.rights, path)
    _require_unbound(client)
    opened = await _in_thread(lambda: open_worktree(path, name.strip() or None))
    call.answer(
        encode(
            {
                "cwd": opened.cwd,
                "name": opened.worktree.name,
                "branch": opened.worktree.branch,
                "created": opened.created,
                "notes": opened.notes,
            }
        )
    )


async def remove(client: "GatewayClient", call: "ClientCall") -> None:
    """Remove the worktree of a folder; with `save`, commit what is not committed to its branch first.

    Sessions in it are closed. Refused while a turn runs there.
    """
    params = read_params(call)
    path, save = text_param(params, "path"), bool_param(params, "save", False)
    check_folders(client.rights, path)
    _require_unbound(client)

    def find() -> Worktree:
        git = Git.find(path) if os.path.isdir(path) else None
        found = None if git is None else _worktree_at(git, path)
        if found is None:
            raise UsageError(f"there is no worktree of Accord at {path}")
        require_removable(found, save=save, with_sessions=True)  # they are closed below
        return found

    worktree = await _in_thread(find)
    gateway = client.gateway
    inside = [session for session in gateway.sessions if any(map(worktree.contains, session.folders))]
    if any(session.is_busy for session in inside):
        raise InvalidRequest(f"{worktree.name} is not removed: a session works there; cancel its turn first")
    for session in inside:
        await gateway.close_session(session)
    call.answer(encode({"note": await _in_thread(lambda: remove_worktree(worktree, save=save))}))


def _require_unbound(client: "GatewayClient") -> None:
    if client.rights.folders is not None:
        raise RpcError(
            "this token is bound to folders: it can use worktrees, but not create or remove them",
            code=NOT_ALLOWED,
        )


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except UsageError as error:
        raise InvalidRequest(str(error)) from None


METHODS: Final[dict[str, Any]] = {
    "_accord/folders/recent": recent_folders,
    "_accord/worktree": show,
    "_accord/worktree/create": create,
    "_accord/worktree/remove": remove,
}
UNAUDITED_METHODS: Final = ("_accord/folders/recent", "_accord/worktree")
