"""The review of a session's changes, `_accord/review...`: list, revert, comment, commit, pull request.

Git runs as the user of the gateway. For sessions of folder-bound tokens it starts no hook and no filter,
which files in the folders could name, and nothing is pushed.
"""

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from accord.errors import InvalidParams, InvalidRequest, RpcError, StoreError, UsageError
from accord.frontend.git_command import Git, GitFailed
from accord.frontend.pull_request import create_pull_request, needs_branch, pull_request_program
from accord.frontend.review import Hunk, ReviewedFile, ReviewScope, ReviewService, inverse, relative_path
from accord.gateway.access.access_tokens import NOT_ALLOWED
from accord.gateway.access.parameter_rights import check_folders
from accord.gateway.gateway_workspace import is_control_file
from accord.gateway.live_sessions import LiveSession
from accord.gateway.methods.parameters import list_param, read_params, text_param, without_none
from accord.gateway.methods.prompt_turn import attached_session
from accord.schema.codec import encode
from accord.workspace.roots import Roots

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, GatewayClient

T = TypeVar("T")

_SCOPES: Final[tuple[ReviewScope, ...]] = ("turn", "session", "uncommitted")
_MAX_LINES: Final = 20_000
"""Of one review; the files after them are listed without their lines."""
_MAX_LINE_LENGTH: Final = 2_000
_MAX_COMMENTS: Final = 200
_MAX_COMMITTED: Final = 500
_MAX_REVERTED: Final = 50
"""Reverted changes that can be brought back, of one session."""


class _Review:
    """One call of a client about one session."""

    def __init__(self, client: "GatewayClient", call: "ClientCall") -> None:
        self.params: dict[str, Any] = read_params(call)
        self.session: LiveSession = attached_session(client, text_param(self.params, "sessionId"))
        check_folders(client.rights, *self.session.folders)  # a link may have replaced a folder
        self.session.check_bounds()
        self.client = client
        self.confined: bool = client.rights.folders is not None or self.session.confines_commands

    @property
    def scope(self) -> ReviewScope:
        scope = text_param(self.params, "scope", "turn")
        if scope not in _SCOPES:
            raise InvalidParams(f"Invalid params: `scope` must be one of {', '.join(_SCOPES)}")
        return scope

    async def run(self, work: "Callable[[ReviewService], T]") -> T:
        """Do blocking work in a thread, with the session as it is now. Raises RpcError."""
        reader = self.session.log.reader()
        try:
            while await reader.page():
                pass
        except StoreError as error:
            raise RpcError(f"cannot read the session: {error}") from None
        cwd, *more = self.session.folders

        def review() -> T:
            if not os.path.isdir(cwd):
                raise UsageError(f"the folder of the session is gone: {cwd}")
            return work(
                ReviewService(reader.state, Roots(cwd, [folder for folder in more if os.path.isdir(folder)]))
            )

        try:
            return await asyncio.to_thread(review)
        except UsageError as error:
            raise InvalidRequest(str(error)) from None

    def git(self, service: ReviewService) -> Git:
        """Git for a change of the repository. Raises UsageError, and RpcError if the token has no right."""
        git = Git.require(str(service.roots.cwd))
        if not self.confined:
            return git
        check_folders(self.client.rights, git.top)
        try:
            filters = git.read(
                "config", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process)$"
            ).split()
        except GitFailed:
            filters = []  # there are none
        others = [name for name in filters if not name.startswith("filter.lfs.")]
        if others:
            raise _refusal(f"committing would start a program of the git configuration ({others[0]})")
        return git


def _refusal(reason: str) -> RpcError:
    return RpcError(f"a token of this session is bound to folders, and {reason}", code=NOT_ALLOWED)


async def show(client: "GatewayClient", call: "ClientCall") -> None:
    """List the changes of the last turn, of the session, or all that are not committed.

    Without a scope: of the last turn if it changed anything, else of the session, else those not committed.
    """
    review = _Review(client, call)
    scopes = _SCOPES if review.params.get("scope") is None else (review.scope,)

    def find(service: ReviewService) -> dict[str, Any]:
        scope, files = scopes[0], list[ReviewedFile]()
        for scope in scopes:
            try:
                files = service.files(scope)
            except UsageError:
                if len(scopes) == 1:
                    raise
                continue  # not a repository
            if files:
                break
        scope = scope if files else scopes[0]
        return {"scope": scope, **_shown_files(files, str(service.roots.cwd)), **_git_facts(review, service)}

    call.answer(encode(await review.run(find)))


def _shown_files(files: list[ReviewedFile], cwd: str) -> dict[str, Any]:
    left = _MAX_LINES
    shown: list[dict[str, Any]] = []
    for file in files:
        problem = file.problem
        hunks: list[dict[str, Any]] = []
        for hunk in file.hunks:
            left -= len(hunk.before) + len(hunk.added)
            if left < 0:
                problem = problem or "there are too many changes to show them all"
                break
            lines = [(sign, at, line.rstrip("\n")[:_MAX_LINE_LENGTH]) for sign, at, line in hunk.lines()]
            hunks.append({"id": hunk.id, "start": hunk.start, "lines": lines})
        whole = file.hunks[0].whole_file if file.hunks else ""
        shown.append(
            without_none(
                path=file.path,
                name=relative_path(file.path, cwd),
                added=file.added,
                removed=file.removed,
                hunks=hunks,
                whole=whole or None,
                problem=problem or None,
                note=file.note or None,
            )
        )
    return {"files": shown}


def _git_facts(review: _Review, service: ReviewService) -> dict[str, Any]:
    """The branch, whether a pull request is possible, and whether it needs a branch."""
    git = Git.find(str(service.roots.cwd))
    if git is None:
        return {}
    facts: dict[str, Any] = {"git": {"branch": git.branch()}}
    if pull_request_program(git) is not None and not review.confined:
        facts["git"]["pullRequest"] = {"needsBranch": needs_branch(git)}
    return facts


async def revert(client: "GatewayClient", call: "ClientCall") -> None:
    """Take one change back; with `undo`, bring a reverted change back."""
    review = _Review(client, call)
    hunk_id = text_param(review.params, "hunk")
    reverted = review.session.reverted_hunks
    undo = review.params.get("undo") is True

    def change(service: ReviewService) -> Hunk:
        if undo:
            known = reverted.get(hunk_id)
            if known is None:
                raise UsageError("this change was not reverted here, or too long ago")
            hunk, step = known, inverse(known)
        else:
            hunk = step = service.hunk(review.scope, hunk_id)
        path = service.roots.resolve(hunk.path)
        if review.confined and is_control_file(path, service.roots.folders):
            raise _refusal(f"{hunk.path} decides what other programs run")
        service.revert(step)
        return hunk

    hunk = await review.run(change)
    reverted.pop(hunk_id, None)
    if not undo:
        reverted[hunk_id] = hunk
        while len(reverted) > _MAX_REVERTED:
            del reverted[next(iter(reverted))]
    call.answer(b"{}")


async def comment(client: "GatewayClient", call: "ClientCall") -> None:
    """Make one prompt of the user's comments on lines."""
    review = _Review(client, call)
    comments = list_param(review.params, "comments", _MAX_COMMENTS)
    scope = review.scope

    def write(service: ReviewService) -> str:
        hunks = {hunk.id: hunk for file in service.files(scope) for hunk in file.hunks}
        for item in comments:
            members = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
            hunk, line = hunks.get(text_param(members, "hunk")), members.get("line")
            if hunk is None:
                raise UsageError("a change with a comment is no longer there; look at the changes again")
            if not isinstance(line, int) or isinstance(line, bool):
                raise InvalidParams("Invalid params: `line` must be a number")
            service.comment(hunk, line, text_param(members, "text"))
        return service.prompt()

    call.answer(encode({"prompt": await review.run(write)}))


async def commit(client: "GatewayClient", call: "ClientCall") -> None:
    """Commit the named files and nothing else."""
    review = _Review(client, call)
    message = text_param(review.params, "message")
    paths = [path for path in list_param(review.params, "paths", _MAX_COMMITTED) if isinstance(path, str)]

    def write(service: ReviewService) -> str:
        review.git(service)
        return service.commit(message, paths, hooks=not review.confined)

    call.answer(encode({"commit": await review.run(write)}))


async def pull_request(client: "GatewayClient", call: "ClientCall") -> None:
    """Push the branch and open a pull request with `gh`."""
    review = _Review(client, call)
    title, body, branch = (text_param(review.params, name, "") for name in ("title", "body", "branch"))
    if review.confined:
        raise _refusal("a pull request is sent with the credentials of the user of the gateway")

    def create(service: ReviewService) -> str:
        return create_pull_request(Git.require(str(service.roots.cwd)), title, body, branch)

    call.answer(encode({"url": await review.run(create)}))


METHODS: Final[dict[str, Any]] = {
    "_accord/review": show,
    "_accord/review/revert": revert,
    "_accord/review/comment": comment,
    "_accord/review/commit": commit,
    "_accord/review/pull_request": pull_request,
}
UNAUDITED_METHODS: Final = ("_accord/review", "_accord/review/comment")
