"""The changes of a turn or a session by file and hunk: revert, comment, commit.

Changes come from the diffs of tool calls, and from git for everything that is not committed. Nothing is
written unless the file still has exactly the change that was shown. Blocking: call it in a thread.
"""

import difflib
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Final, Literal, TypeAlias

from accord.errors import RpcError, UsageError
from accord.frontend.git_command import Git, GitChange
from accord.policy.secret_files import is_secret
from accord.safe_text import clean_text
from accord.schema import Diff
from accord.session import Entry, Message, SessionState, ToolCallState
from accord.workspace.roots import Folder, Roots, StopSignal, replace_file

ReviewScope: TypeAlias = Literal["turn", "session", "uncommitted"]
"""The last turn, the whole session, or everything that differs from the last commit."""

MAX_FILE_BYTES: Final = 2 * 1024 * 1024
"""Larger files are listed without their hunks."""
MAX_FILES: Final = 500
CONTEXT_LINES: Final = 3
_MAX_COMPARED_LINES: Final = 20_000
_MAX_QUOTED_LINES: Final = 12

Reader: TypeAlias = Callable[[str], str | None]
"""Returns the text of a file; None if there is none. Raises UsageError if it cannot be shown."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """One change of a file. Lines have their line ends."""

    path: str
    start: int
    """The first line in the file as it was left, from 1; context included."""
    before: tuple[str, ...]
    """The lines that were there, with the context around them."""
    after: tuple[str, ...]
    """The lines that are there now, with the same context."""
    lead: int
    """How many lines at the start are context."""
    tail: int
    whole_file: Literal["", "created", "deleted"] = ""

    @property
    def id(self) -> str:
        """Names the hunk as long as it has the same content at the same place."""
        text = "\0".join((self.path, str(self.start), self.whole_file, *self.before, "\1", *self.after))
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]

    @property
    def removed(self) -> tuple[str, ...]:
        return self.before[self.lead : len(self.before) - self.tail]

    @property
    def added(self) -> tuple[str, ...]:
        return self.after[self.lead : len(self.after) - self.tail]

    def lines(self) -> list[tuple[str, int, str]]:
        """The lines to show: the sign, the number in the file as it is now, and the text."""
        shown: list[tuple[str, int, str]] = []
        number = self.start
        for line in self.after[: self.lead]:
            shown.append((" ", number, line))
            number += 1
        shown += [("-", number, line) for line in self.removed]
        for line in self.added:
            shown.append(("+", number, line))
            number += 1
        for line in self.after[len(self.after) - self.tail :]:
            shown.append((" ", number, line))
            number += 1
        return shown


@dataclass(frozen=True, slots=True)
class ReviewedFile:
    """One changed file."""

    path: str
    hunks: tuple[Hunk, ...] = ()
    problem: str = ""
    """Why the change cannot be shown."""
    note: str = ""
    """What to know about it, such as that it was changed again since."""

    @property
    def added(self) -> int:
        return sum(len(hunk.added) for hunk in self.hunks)

    @property
    def removed(self) -> int:
        return sum(len(hunk.removed) for hunk in self.hunks)


@dataclass(frozen=True, slots=True)
class ReviewComment:
    """A remark of the user on one line."""

    path: str
    line: int
    text: str
    quoted: tuple[str, ...] = ()
    """The lines that it is about, each with its sign."""


@dataclass(slots=True)
class ReviewService:
    """Reviews the changes of one session."""

    state: SessionState
    roots: Roots
    comments: list[ReviewComment] = field(default_factory=list[ReviewComment])

    def files(self, scope: ReviewScope) -> list[ReviewedFile]:
        """The changed files, by path. Raises UsageError."""
        if scope == "uncommitted":
            return uncommitted_changes(Git.require(str(self.roots.cwd)), self._read)
        return recorded_changes(self._diffs(scope), self._read)

    def hunk(self, scope: ReviewScope, hunk_id: str) -> Hunk:
        """The hunk with this id. Raises UsageError."""
        for file in self.files(scope):
            for hunk in file.hunks:
                if hunk.id == hunk_id:
                    return hunk
        raise UsageError("this change is no longer there; look at the changes again")

    def revert(self, hunk: Hunk) -> None:
        """Bring back what was there before the hunk. Raises UsageError if the file has changed since."""
        if is_secret(Path(hunk.path)):
            raise UsageError(f"{hunk.path} is not changed: it may hold secrets")
        current = self._read(hunk.path)
        if hunk.whole_file == "created":
            if current != "".join(hunk.after):
                raise UsageError(f"{hunk.path} is not removed: it has changed since")
            self._change(hunk.path, lambda folder, name: folder.remove(name))
            return
        if hunk.whole_file == "deleted":
            if current is not None:
                raise UsageError(f"{hunk.path} is not restored: there is a new file")
            self._write(hunk.path, "".join(hunk.before))
            return
        self._write(hunk.path, reverted_text(current, hunk))

    def comment(self, hunk: Hunk, line: int, text: str) -> ReviewComment:
        """Add a comment on a line of the file as it is now. Raises UsageError if it is empty."""
        if not text.strip():
            raise UsageError("the comment is empty")
        quoted = tuple(
            f"{sign}{clean_text(source).rstrip()}" for sign, at, source in hunk.lines() if at == line
        )
        comment = ReviewComment(hunk.path, line, text.strip(), quoted[:_MAX_QUOTED_LINES])
        self.comments.append(comment)
        return comment

    def prompt(self) -> str:
        """The comments as the next prompt; empty without comments."""
        return comments_prompt(self.comments, str(self.roots.cwd))

    def commit(self, message: str, paths: Sequence[str], *, hooks: bool = True) -> str:
        """Commit these files; returns the short id of the commit. Raises UsageError."""
        for path in paths:
            self._resolve(path)
        return Git.require(str(self.roots.cwd)).commit(message, paths, hooks=hooks)

    def _diffs(self, scope: ReviewScope) -> list[Diff]:
        entries: Sequence[Entry] = self.state.timeline
        if scope == "turn":
            entries = last_turn(entries)
        calls = (entry for entry in entries if isinstance(entry, ToolCallState) and entry.status != "failed")
        return [item for call in calls for item in call.content if isinstance(item, Diff)]

    def _resolve(self, path: str) -> Path:
        try:
            return self.roots.resolve(path)
        except RpcError as error:
            raise UsageError(str(error)) from None

    def _read(self, path: str) -> str | None:
        """The text of a file within the folders of the session; None if there is none."""
        try:
            descriptor, size = self.roots.open_file(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except RpcError as error:
            raise UsageError(str(error)) from None
        except OSError as error:
            raise UsageError(f"it cannot be read ({error.strerror})") from None
        with os.fdopen(descriptor, "rb") as file:
            if size > MAX_FILE_BYTES:
                raise UsageError("it is too large to be shown")
            return _decode(file.read(MAX_FILE_BYTES + 1))

    def _write(self, path: str, text: str) -> None:
        stop = StopSignal()
        data = text.encode()
        self._change(path, lambda folder, name: replace_file(folder, name, data, stop), create=stop)

    def _change(
        self, path: str, action: Callable[[Folder, str], None], *, create: StopSignal | None = None
    ) -> None:
        try:
            self.roots.with_parent_folder(path, action, create=create)
        except RpcError as error:
            raise UsageError(str(error)) from None
        except OSError as error:
            raise UsageError(f"{path} cannot be changed ({error.strerror})") from None


def last_turn(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries after the last message of the user."""
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        if isinstance(entry, Message) and entry.kind == "user":
            return entries[at + 1 :]
    return entries


# -- finding changes -----------------------------------------------------------------------------------------


def recorded_changes(diffs: Iterable[Diff], read: Reader) -> list[ReviewedFile]:
    """The changes that tool calls reported, by path, compared with the files as they are now."""
    by_path: dict[str, list[Diff]] = {}
    for diff in diffs:
        by_path.setdefault(os.path.normpath(diff.path), []).append(diff)
    files = [_recorded_file(path, by_path[path], read) for path in sorted(by_path)[:MAX_FILES]]
    return [file for file in files if file.hunks or file.problem]


def _recorded_file(path: str, diffs: Sequence[Diff], read: Reader) -> ReviewedFile:
    try:
        now = read(path)
    except UsageError as error:
        return ReviewedFile(path, problem=str(error))
    found, before = _before(diffs, now)
    if found:
        return ReviewedFile(path, tuple(hunks_of(path, before, now)))
    # The file has changed since: show what the calls reported, without what was reverted.
    hunks = [
        hunk
        for diff in diffs
        for hunk in hunks_of(path, diff.old_text if isinstance(diff.old_text, str) else None, diff.new_text)
        if not _is_reverted(now, hunk)
    ]
    return ReviewedFile(path, tuple(hunks), note="changed again since")


def _before(diffs: Sequence[Diff], now: str | None) -> tuple[bool, str | None]:
    """The file before these changes, taken back one by one; False first if it has changed since."""
    text = now
    for diff in reversed(diffs):
        old = diff.old_text if isinstance(diff.old_text, str) else None
        if text == diff.new_text or (text is None and not diff.new_text):
            text = old
        elif text is not None and old is not None and diff.new_text and text.count(diff.new_text) == 1:
            text = text.replace(diff.new_text, old)
        else:
            return False, None
    return True, text


def uncommitted_changes(git: Git, read: Reader) -> list[ReviewedFile]:
    """Everything below the folder that differs from the last commit. Raises UsageError."""
    changes = git.changes()[:MAX_FILES]
    contents = git.contents(
        (change.blob for change in changes if change.blob and change.plain), MAX_FILE_BYTES
    )
    files = [_uncommitted_file(change, contents, read) for change in changes]
    return [file for file in files if file.hunks or file.problem]


def _uncommitted_file(change: GitChange, contents: dict[str, bytes], read: Reader) -> ReviewedFile:
    path = change.path
    try:
        if not change.plain:
            raise UsageError("it is a link or another repository")
        if is_secret(Path(path)):
            raise UsageError("it may hold secrets")
        if change.blob is not None and change.blob not in contents:
            raise UsageError("it is too large to be shown")
        before = None if change.blob is None else _decode(contents[change.blob])
        return ReviewedFile(path, tuple(hunks_of(path, before, read(path))))
    except UsageError as error:
        return ReviewedFile(path, problem=str(error))


def hunks_of(path: str, before: str | None, after: str | None) -> list[Hunk]:
    """The changes between two texts of a file; None if there is no file."""
    if before == after:
        return []
    old, new = _lines(before or ""), _lines(after or "")
    if before is None or after is None:
        kind: Literal["created", "deleted"] = "created" if before is None else "deleted"
        return [Hunk(path, 1, tuple(old), tuple(new), 0, 0, kind)]
    if len(old) + len(new) > _MAX_COMPARED_LINES:
        return [_one_hunk(path, old, new)]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) > 500)
    hunks: list[Hunk] = []
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        first, last = group[0], group[-1]
        lead = first[2] - first[1] if first[0] == "equal" else 0
        tail = last[2] - last[1] if last[0] == "equal" else 0
        hunks.append(
            Hunk(
                path, first[3] + 1, tuple(old[first[1] : last[2]]), tuple(new[first[3] : last[4]]), lead, tail
            )
        )
    return hunks


def _one_hunk(path: str, old: list[str], new: list[str]) -> Hunk:
    """The part between the common first and last lines, for files that are too long to be compared."""
    least = min(len(old), len(new))
    start = next((at for at in range(least) if old[at] != new[at]), least)
    end = next((at for at in range(least - start) if old[-1 - at] != new[-1 - at]), least - start)
    lead, tail = min(start, CONTEXT_LINES), min(end, CONTEXT_LINES)
    before = old[start - lead : len(old) - end + tail]
    after = new[start - lead : len(new) - end + tail]
    return Hunk(path, start - lead + 1, tuple(before), tuple(after), lead, tail)


def reverted_text(current: str | None, hunk: Hunk) -> str:
    """The text of a file without the hunk. Raises UsageError if it does not have it at one place."""
    if current is None:
        raise UsageError(f"{hunk.path} is not changed: it no longer exists")
    lines = _lines(current)
    wanted = list(hunk.after)
    places = [at for at in range(len(lines) - len(wanted) + 1) if lines[at : at + len(wanted)] == wanted]
    if len(places) > 1 and hunk.start - 1 in places:
        places = [hunk.start - 1]
    if len(places) != 1 or not wanted:
        reason = "several places look like this change" if places else "it no longer has this change"
        raise UsageError(f"{hunk.path} is not changed: {reason}")
    at = places[0]
    return "".join([*lines[:at], *hunk.before, *lines[at + len(wanted) :]])


def _is_reverted(current: str | None, hunk: Hunk) -> bool:
    """Whether the file has what was there before the hunk."""
    if hunk.whole_file:
        return current == ("".join(hunk.before) if hunk.whole_file == "deleted" else None)
    return not _is_part(current, hunk) and _is_part(current, inverse(hunk))


def _is_part(current: str | None, hunk: Hunk) -> bool:
    try:
        reverted_text(current, hunk)
    except UsageError:
        return False
    return True


def inverse(hunk: Hunk) -> Hunk:
    """The change that brings a reverted one back."""
    whole: dict[str, Literal["", "created", "deleted"]] = {"created": "deleted", "deleted": "created"}
    return replace(hunk, before=hunk.after, after=hunk.before, whole_file=whole.get(hunk.whole_file, ""))


def comments_prompt(comments: Iterable[ReviewComment], cwd: str) -> str:
    """A prompt with all comments, by file and line."""
    ordered = sorted(comments, key=lambda comment: (comment.path, comment.line))
    parts: list[str] = []
    for path, group in groupby(ordered, key=lambda comment: comment.path):
        for comment in group:
            head = f"{relative_path(path, cwd)}, line {comment.line}:"
            quoted = [f"> {line}" for line in comment.quoted]
            parts.append("\n".join([head, *quoted, comment.text]))
    return "Please address these comments on your changes.\n\n" + "\n\n".join(parts) if parts else ""


def relative_path(path: str, cwd: str) -> str:
    """The path below the folder, or the whole path if it is elsewhere."""
    relative = os.path.relpath(path, cwd)
    return path if relative.startswith(os.pardir) else relative


def _lines(text: str) -> list[str]:
    """The lines with their ends. Only a line feed ends a line."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _decode(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UsageError("it is not text") from None
    if "\0" in text:
        raise UsageError("it is not text")
    return text
