"""Verifies the promises of a cluster from the histories and logs of a run, without any of its programs."""

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.cluster_check.history import Entry, read_histories
from tests.cluster_check.marks import is_prompt, is_question, prompt_of
from tests.cluster_check.stored_logs import OWNER, StoredLog, read_logs

_NOT_OPEN: Final = re.compile("has not opened the session|first request must be|Internal error$")
_OPENING: Final = ("session/load", "session/resume", "session/fork", "session/new")


@dataclass
class Report:
    """What a run did, and which promises it broke."""

    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    """The errors that clients got, by their text without names."""

    def broken(self, promise: str, what: str) -> None:
        self.violations.append(f"{promise}: {what}")


@dataclass
class View:
    """What one client saw of one session in one connection."""

    client: str
    session: str
    whole: bool
    """Whether it begins with the first record of the session."""
    marks: list[str] = field(default_factory=list)
    history: int = 0
    """How many came before the answer to `session/load`: each message as a whole, in the order of their
    beginnings."""


@dataclass
class Histories:
    """The histories of a run, by the kind of program, and what follows from them together."""

    clients: dict[str, list[Entry]]
    agents: dict[str, list[Entry]]
    nodes: dict[str, list[Entry]]

    @classmethod
    def read(cls, folder: Path) -> "Histories":
        clients, agents, nodes = (
            dict(read_histories(folder, prefix)) for prefix in ("client-", "agent-", "node-")
        )
        return cls(clients, agents, nodes)

    @property
    def calls(self) -> list[tuple[str, Entry, Entry | None]]:
        """Every call of a client with its answer."""
        found: list[tuple[str, Entry, Entry | None]] = []
        for name, entries in self.clients.items():
            open_calls: dict[int, Entry] = {}
            for entry in entries:
                if entry["kind"] == "called":
                    open_calls[entry["id"]] = entry
                elif entry["kind"] == "answered" and entry["id"] in open_calls:
                    found.append((name, open_calls.pop(entry["id"]), entry))
                elif entry["kind"] == "closed":
                    found += [(name, call, None) for call in open_calls.values()]
                    open_calls = {}
        return found

    def deletes(self) -> dict[str, bool]:
        """The sessions that a client wanted to delete, and whether one was told that it is deleted."""
        found: dict[str, bool] = {}
        for _, call, answer in self.calls:
            if call["method"] == "session/delete":
                done = answer is not None and answer["error"] is None
                found[call["session"]] = found.get(call["session"], False) or done
        return found


def check(folder: Path) -> Report:
    """Verify everything."""
    report, histories, logs = Report(), Histories.read(folder), read_logs(folder)
    by_session = {log.session: log for log in logs}
    deleted = histories.deletes()
    for log in logs:
        check_log(report, log)
    check_appended(report, histories, logs, deleted)
    for name, entries in histories.clients.items():
        check_views(report, name, entries, by_session, deleted)
    check_turns(report, histories)
    check_answers(report, histories, logs, deleted)
    check_end(report, histories, logs, deleted)
    check_output(report, folder)
    report.counts["sessions"] = len(logs) + sum(session not in by_session for session in deleted)
    report.counts["takeovers"] = takeovers(histories)
    report.counts["records"] = sum(commit.count for log in logs for commit in log.commits)
    for name, call, answer in histories.calls:
        report.counts[f"{call['method']} answered" if answer else f"{call['method']} lost"] += 1
        if answer is not None and answer["error"] is not None:
            report.refusals[f"{call['method']}: {_without_names(answer['error'])}"] += 1
            if _NOT_OPEN.search(answer["error"]) and call["session"] not in deleted:
                report.broken("an open session stays open", f"{name}: {call['session']}: {answer['error']}")
    return report


def takeovers(histories: Histories) -> int:
    """How often a session got another owner than the one before, also of sessions that were deleted."""
    claims: dict[str, dict[int, str]] = {}
    for entries in histories.nodes.values():
        for entry in entries:
            if entry["kind"] == "appended" and entry.get("session"):
                _, epoch, *_, writer = entry["head"].split(" ")
                claims.setdefault(entry["subject"], {})[int(epoch)] = writer.partition(":")[0]
    return sum(
        one != other
        for owners in claims.values()
        for (_, one), (_, other) in pairwise(sorted(owners.items()))
    )


def check_log(report: Report, log: StoredLog) -> None:
    """Numbers without gaps, epochs that never go back, one writer in each epoch."""
    last = epoch = 0
    writers: dict[int, str] = {}
    for commit in log.commits:
        where = f"log of {log.session}, message {commit.sequence}"
        if commit.first != last + 1 or len(commit.records) != commit.count:
            report.broken(
                "numbers without gaps", f"{where}: {commit.count} records from {commit.first} after {last}"
            )
        if commit.epoch < epoch:
            report.broken("epochs never go back", f"{where}: {commit.epoch} after {epoch}")
        if writers.setdefault(commit.epoch, commit.writer) != commit.writer:
            report.broken("one writer in an epoch", f"{where}: {commit.writer} and {writers[commit.epoch]}")
        if commit.epoch > epoch and commit.records[0][0] != OWNER:
            report.broken("one writer in an epoch", f"{where}: epoch {commit.epoch} begins without its owner")
        last, epoch = commit.first + commit.count - 1, max(epoch, commit.epoch)


def check_appended(
    report: Report, histories: Histories, logs: list[StoredLog], deleted: dict[str, bool]
) -> None:
    """Every acknowledged append is in its log."""
    by_subject = {log.subject: log for log in logs}
    sessions: dict[str, str] = {}
    for node, entries in histories.nodes.items():
        for entry in entries:
            if entry["kind"] != "appended":
                continue
            report.counts["acknowledged appends"] += 1
            subject, log = entry["subject"], by_subject.get(entry["subject"])
            if log is None:
                sessions[subject] = entry.get("session") or sessions.get(subject, "")
            elif log.heads.get(entry["sequence"]) != entry["head"] and log.session not in deleted:
                report.broken(
                    "acknowledged records are kept",
                    f"{node}: message {entry['sequence']} of {log.session} is not {entry['head']}",
                )
    for subject, session in sessions.items():
        if session not in deleted:
            report.broken("acknowledged records are kept", f"the log {subject} of {session} is gone")


def check_views(
    report: Report, client: str, entries: list[Entry], logs: dict[str, StoredLog], deleted: dict[str, bool]
) -> None:
    """Every frame that a client saw is in the log, in order, once; an answer comes after its updates."""
    views: dict[str, View] = {}
    calls: dict[int, Entry] = {}

    def finish(session: str) -> None:
        view = views.pop(session, None)
        if view is not None and session not in deleted:
            check_view(report, view, logs.get(session))

    for entry in entries:
        kind, session = entry["kind"], str(entry.get("session"))
        if kind == "called":
            calls[entry["id"]] = entry
            if entry["method"] in ("session/load", "session/resume"):
                views[session] = View(client, session, whole=entry["method"] == "session/load")
        elif kind == "saw":
            view = views.setdefault(session, View(client, session, whole=False))
            view.marks += [mark for mark in entry["marks"] if not is_question(mark) or mark not in view.marks]
            report.counts["marks seen"] += len(entry["marks"])
        elif kind == "answered" and entry["id"] in calls:
            call = calls.pop(entry["id"])
            method, result = call["method"], entry["result"]
            if method in ("session/new", "session/fork") and result:
                views[result["sessionId"]] = View(client, result["sessionId"], whole=method == "session/new")
            elif method in ("session/close", "session/delete") or (method in _OPENING and entry["error"]):
                finish(call["session"])
            elif method == "session/load":
                if (view := views.get(call["session"])) is not None:
                    view.history = len(_others(view))
            elif method == "session/prompt" and call["session"] in deleted:
                pass  # its updates end when it is deleted, and its answer does not
            elif method == "session/prompt" and result and result.get("stopReason") == "end_turn":
                _check_answer(report, views.get(call["session"]), call)
        elif kind == "closed":
            for open_session in tuple(views):
                finish(open_session)
            calls = {}


def _check_answer(report: Report, view: View | None, call: Entry) -> None:
    """Note how many chunks of the turn were seen before its answer."""
    prompt = prompt_of(call["marks"][0])
    seen = sum(mark.startswith(f"{prompt}:") for mark in view.marks) if view is not None else 0
    report.counts[f"seen {prompt}"] = seen


def check_view(report: Report, view: View, log: StoredLog | None) -> None:
    """Compare what a client saw with the log, but for its own prompts, which it does not get back."""
    report.counts["views"] += 1
    seen = _others(view)
    if not seen:
        return
    who = f"client {view.client} in {view.session}"
    if log is None:
        report.broken("what was shown is kept", f"{who} saw {seen[0]}, and there is no log")
        return
    logged = [mark for mark in log.marks() if not _is_own(mark, view.client)]
    known = set(logged)
    if unknown := [mark for mark in seen if mark not in known]:
        report.broken("what was shown is kept", f"{who} saw {unknown[:3]}, which the log does not have")
        return
    if doubled := [mark for mark, times in Counter(seen).items() if times > 1]:
        report.broken("each record once", f"{who} saw {doubled[:3]} more than once")
        return
    start = 0 if view.whole else logged.index(seen[0])
    expected = logged[start : start + len(seen)]
    if view.whole and not view.history:
        view.history = len(seen)  # the connection ended before the answer
    seen[: view.history] = _by_prompt(seen[: view.history])
    expected[: view.history] = _by_prompt(expected[: view.history])
    if seen != expected:
        place = next(n for n, (one, other) in enumerate(zip(seen, expected, strict=False)) if one != other)
        report.broken(
            "every record, in order", f"{who} saw {seen[place]} where the log has {expected[place]}"
        )


def _others(view: View) -> list[str]:
    """What a client saw, but for its own prompts."""
    return [mark for mark in view.marks if not _is_own(mark, view.client)]


def _by_prompt(marks: list[str]) -> list[str]:
    """The marks of a history, those of each prompt together and in their order."""
    return sorted(marks, key=prompt_of)


def _is_own(mark: str, client: str) -> bool:
    return is_prompt(mark) and mark.startswith(f"{client.removeprefix('client-')}.")


def check_turns(report: Report, histories: Histories) -> None:
    """No prompt reaches an agent twice, and an answer comes after all updates of its turn."""
    prompted = Counter(
        entry["prompt"]
        for entries in histories.agents.values()
        for entry in entries
        if entry["kind"] == "prompted"
    )
    report.counts["prompts at agents"] = prompted.total()
    for prompt, times in prompted.items():
        if times > 1:
            report.broken("a prompt reaches an agent once", f"{prompt} came {times} times")
    said = {
        entry["prompt"]: entry["chunks"]
        for entries in histories.agents.values()
        for entry in entries
        if entry["kind"] == "ended"
    }
    for name in [name for name in report.counts if name.startswith("seen ")]:
        prompt, seen = name.removeprefix("seen "), report.counts.pop(name)
        if prompt not in said:
            report.broken("an answer comes after its updates", f"{prompt} has an answer, and did not end")
        elif seen != said[prompt]:
            report.broken(
                "an answer comes after its updates", f"{prompt}: {seen} of {said[prompt]} chunks were seen"
            )


def check_answers(
    report: Report, histories: Histories, logs: list[StoredLog], deleted: dict[str, bool]
) -> None:
    """Each question has one answer at most; the agent's is the one in the log, and a client gave it."""
    logged: dict[str, list[str | None]] = {}
    known: set[str] = {log.session for log in logs}
    for log in logs:
        asked: dict[str, str] = {}
        for kind, payload in log.events:
            if kind == "_accord/permission_asked":
                title = (payload.get("toolCall") or {}).get("title", "")
                asked[payload["permissionId"]] = title
                logged.setdefault(title, [])
            elif kind == "_accord/permission_answered":
                title = asked.get(payload["permissionId"], "?")
                option = payload.get("option")
                logged.setdefault(title, []).append(None if option is None else option["kind"])
    for title, answers in logged.items():
        report.counts["questions logged"] += 1
        if answers[1:] not in ([], [None]):  # a turn that is canceled takes back what the agent has not got
            report.broken("a question is answered once", f"{title} was answered with {answers}")
    decided = {
        (entry["title"], entry["option"])
        for entries in histories.clients.values()
        for entry in entries
        if entry["kind"] == "decided"
    }
    for entries in histories.agents.values():
        for entry in entries:
            if entry["kind"] == "answered" and entry["reason"] != "failed":
                _check_received(
                    report,
                    entry,
                    logged,
                    decided,
                    entry["session"] in known and entry["session"] not in deleted,
                )


def _check_received(
    report: Report,
    entry: Entry,
    logged: dict[str, list[str | None]],
    decided: set[tuple[str, str]],
    has_log: bool,
) -> None:
    title, option = entry["title"], entry["option"]
    report.counts[f"answers at agents: {option}"] += 1
    if option is not None and (title, "yes" if option == "allow_once" else "no") not in decided:
        report.broken("only a client answers", f"the agent got {option} for {title}, which no client gave")
    if has_log and logged.get(title, [])[-1:] != [option] and (option is not None or logged.get(title)):
        report.broken(
            "the agent's answer is in the log", f"{title}: {option}, and the log has {logged.get(title)}"
        )


def check_end(report: Report, histories: Histories, logs: list[StoredLog], deleted: dict[str, bool]) -> None:
    """After healing every session is listed and opens at every node, and no call is without an answer."""
    created = {log.session for log in logs if log.has_turns(before="last")}
    for name, entries in histories.clients.items():
        for entry in entries:
            if entry["kind"] == "unanswered":
                report.broken("every call is answered", f"{name}: {entry['method']} in {entry['session']}")
            elif entry["kind"] == "failed":
                report.broken("every session opens after healing", f"{name}: {entry['error']}")
            elif entry["kind"] == "listed":
                listed = set(entry["sessions"])
                if lost := created - listed - deleted.keys():
                    report.broken("every session is listed", f"{name} does not see {sorted(lost)}")
                if back := {session for session in listed if deleted.get(session)}:
                    report.broken("deleted sessions stay deleted", f"{name} sees {sorted(back)}")
    for name, call, answer in histories.calls:
        is_last = name.startswith("client-last") and call["session"] not in deleted
        if is_last and (answer is None or answer["error"] is not None):
            why = "the connection ended" if answer is None else answer["error"]
            report.broken(
                "every session opens after healing",
                f"{name}: {call['method']} of {call['session']}: {why}",
            )


def check_output(report: Report, folder: Path) -> None:
    """No node printed a traceback."""
    for path in sorted(folder.glob("node-*.log")):
        text = path.read_text("utf-8", "replace")
        for words in ("Traceback", "never retrieved"):
            if words in text:
                place = text.index(words)
                report.broken("no traceback", f"{path.name}: {text[place : place + 3000]}")


def _without_names(text: str) -> str:
    words = [word if not any(char.isdigit() for char in word) else "N" for word in text.split()]
    return " ".join(words)[:150]
