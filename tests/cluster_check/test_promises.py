"""Histories and logs that break a promise, and what the check says of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cluster_check.history import History
from tests.cluster_check.promises import check

SUBJECT = "check.log.00.L1"


class Run:
    """A good run: one prompt with two chunks and a question that was allowed, seen by two clients."""

    def __init__(self) -> None:
        self.log: list[dict[str, Any]] = []
        self.node = [self.append(1, 1, [["gateway.owner", [{"session_id": "S", "node": "a"}]]], "a:1")]
        self.node.append(self.append(1, 2, [["event", [self.turn()]]], "a:1"))
        self.node.append(
            self.append(1, 3, [["event", [self.chunk(0), self.asked(), self.answered("allow_once")]]], "a:1")
        )
        self.node.append(self.append(1, 6, [["event", [self.chunk(1)]]], "a:1"))
        self.c1: list[dict[str, Any]] = [
            {"kind": "called", "id": 1, "method": "session/new", "session": None, "marks": []},
            {"kind": "answered", "id": 1, "result": {"sessionId": "S"}, "error": None},
            {"kind": "called", "id": 2, "method": "session/prompt", "session": "S", "marks": ["c1.1?"]},
            {"kind": "saw", "session": "S", "marks": ["c1.1:0"]},
            {"kind": "decided", "title": "c1.1!0", "option": "yes"},
            {"kind": "saw", "session": "S", "marks": ["c1.1:1"]},
            {"kind": "answered", "id": 2, "result": {"stopReason": "end_turn"}, "error": None},
            {"kind": "closed"},
        ]
        self.c2: list[dict[str, Any]] = [
            {"kind": "called", "id": 1, "method": "session/load", "session": "S", "marks": []},
            {"kind": "saw", "session": "S", "marks": ["c1.1?"]},
            {"kind": "answered", "id": 1, "result": {}, "error": None},
            {"kind": "saw", "session": "S", "marks": ["c1.1:0"]},
            {"kind": "saw", "session": "S", "marks": ["c1.1:1"]},
            {"kind": "listed", "sessions": ["S"]},
            {"kind": "closed"},
        ]
        self.agent: list[dict[str, Any]] = [
            {"kind": "prompted", "session": "S", "prompt": "c1.1"},
            {
                "kind": "answered",
                "session": "S",
                "title": "c1.1!0",
                "option": "allow_once",
                "reason": "selected",
            },
            {"kind": "ended", "session": "S", "prompt": "c1.1", "chunks": 2},
        ]

    def append(self, epoch: int, first: int, runs: list[Any], writer: str) -> dict[str, Any]:
        """Store a commit; return the entry of its node."""
        count = sum(len(payloads) for _, payloads in runs)
        head = f"1 {epoch} {first} {count} 1/1 {writer}"
        sequence = len(self.log) + 1
        self.log.append(
            {
                "kind": "message",
                "subject": SUBJECT,
                "sequence": sequence,
                "head": head,
                "data": json.dumps({"runs": runs}),
            }
        )
        return {"kind": "appended", "subject": SUBJECT, "sequence": sequence, "head": head}

    def turn(self) -> Any:
        return {"sessionUpdate": "_accord/turn_started", "prompt": [{"text": "c1.1? 2 1 0"}]}

    def chunk(self, number: int) -> Any:
        return {"sessionUpdate": "agent_message_chunk", "content": {"text": f"c1.1:{number} "}}

    def asked(self) -> Any:
        return {
            "sessionUpdate": "_accord/permission_asked",
            "permissionId": "1",
            "toolCall": {"title": "c1.1!0"},
        }

    def answered(self, option: str | None) -> Any:
        chosen = None if option is None else {"kind": option}
        return {"sessionUpdate": "_accord/permission_answered", "permissionId": "1", "option": chosen}

    def write(self, folder: Path) -> None:
        files = {
            "log": self.log,
            "node-a": self.node,
            "client-c1": self.c1,
            "client-c2": self.c2,
            "agent-1": self.agent,
        }
        for name, entries in files.items():
            history = History(folder, name)
            for entry in entries:
                history.write(**entry)
            history.close()


def lose_a_record(run: Run) -> None:
    del run.log[2]


def write_in_an_old_epoch(run: Run) -> None:
    run.append(2, 7, [["gateway.owner", [{"session_id": "S", "node": "b"}]]], "b:1")
    run.append(1, 8, [["event", [run.chunk(2)]]], "a:1")


def write_without_owning(run: Run) -> None:
    run.append(1, 7, [["event", [run.chunk(2)]]], "b:1")


def claim_without_an_owner_record(run: Run) -> None:
    run.append(2, 7, [["event", [run.chunk(2)]]], "b:1")


def answer_twice(run: Run) -> None:
    run.append(1, 7, [["event", [run.answered("reject_once")]]], "a:1")


def take_back_what_the_agent_got(run: Run) -> None:
    run.append(1, 7, [["event", [run.answered(None)]]], "a:1")


def answer_otherwise(run: Run) -> None:
    run.agent[1]["option"] = "reject_once"
    run.c1.append({"kind": "decided", "title": "c1.1!0", "option": "no"})


def allow_without_a_client(run: Run) -> None:
    del run.c1[4]


def prompt_twice(run: Run) -> None:
    run.agent.append(run.agent[0])


def show_what_is_not_logged(run: Run) -> None:
    run.c2.insert(5, {"kind": "saw", "session": "S", "marks": ["c1.1:2"]})


def show_twice(run: Run) -> None:
    run.c2.insert(5, run.c2[4])


def show_in_another_order(run: Run) -> None:
    run.c2[3], run.c2[4] = run.c2[4], run.c2[3]


def leave_a_gap(run: Run) -> None:
    del run.c2[3]


def answer_before_the_updates(run: Run) -> None:
    run.c1[5], run.c1[6] = run.c1[6], run.c1[5]


def lose_an_acknowledged_append(run: Run) -> None:
    run.node.append({**run.node[-1], "sequence": 99})


def list_nothing(run: Run) -> None:
    run.c2[5]["sessions"] = []


def never_answer(run: Run) -> None:
    run.c2.insert(5, {"kind": "unanswered", "id": 2, "method": "session/prompt", "session": "S"})


def list_what_was_deleted(run: Run) -> None:
    run.c1[-1:] = [
        {"kind": "called", "id": 3, "method": "session/delete", "session": "S", "marks": []},
        {"kind": "answered", "id": 3, "result": {}, "error": None},
    ]


@pytest.mark.parametrize(
    ("spoil", "promise"),
    [
        (lose_a_record, "numbers without gaps"),
        (write_in_an_old_epoch, "epochs never go back"),
        (write_without_owning, "one writer in an epoch"),
        (claim_without_an_owner_record, "begins without its owner"),
        (answer_twice, "a question is answered once"),
        (take_back_what_the_agent_got, "the agent's answer is in the log"),
        (answer_otherwise, "the agent's answer is in the log"),
        (allow_without_a_client, "only a client answers"),
        (prompt_twice, "a prompt reaches an agent once"),
        (show_what_is_not_logged, "what was shown is kept"),
        (show_twice, "each record once"),
        (show_in_another_order, "every record, in order"),
        (leave_a_gap, "every record, in order"),
        (answer_before_the_updates, "1 of 2 chunks were seen"),
        (lose_an_acknowledged_append, "acknowledged records are kept"),
        (list_nothing, "every session is listed"),
        (never_answer, "every call is answered"),
        (list_what_was_deleted, "deleted sessions stay deleted"),
    ],
)
def test_a_broken_promise_is_noticed(spoil: Callable[[Run], None], promise: str, tmp_path: Path) -> None:
    good = Run()
    (tmp_path / "good").mkdir()
    good.write(tmp_path / "good")
    assert check(tmp_path / "good").violations == []
    run = Run()
    spoil(run)
    run.write(tmp_path)
    assert promise in "\n".join(check(tmp_path).violations)
