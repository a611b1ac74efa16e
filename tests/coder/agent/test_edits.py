"""Edits that other agents' models send, over the wire, in all four provider formats."""

import json
from typing import Any

import pytest
from tests.coder.agent.harness import AgentHarness, choose, provider_client
from tests.coder.models.harness import KINDS

from accord.coder.user_config import Kind
from accord.testing.model_script import ModelAnswer, ModelToolCall
from accord.testing.model_server import ModelServer

pytestmark = pytest.mark.parametrize("kind", KINDS)

PATCH = """\
*** Begin Patch
*** Update File: a.py
@@ def f():
-    return 1
+    return 2
*** Update File: b.txt
*** Move to: sub/c.txt
 one
+two
*** Add File: new.txt
+hello
*** Delete File: old.txt
*** End Patch
"""


def diffs(request: Any) -> list[str]:
    return [
        content["newText"] for content in request["params"]["toolCall"]["content"] if "newText" in content
    ]


async def test_loose_edit_asks_with_the_real_diff_and_says_what_differed(
    harness: AgentHarness, kind: Kind
) -> None:
    (harness.project / "a.py").write_text("def f():\n    return 1\n")
    script = [
        ModelAnswer(ModelToolCall("read_file", {"path": "a.py"})),
        ModelAnswer(
            ModelToolCall(
                "edit_file",
                {"path": "a.py", "old_text": " " * 6 + "return 1\n", "new_text": " " * 6 + "return 2\n"},
            )
        ),
        ModelAnswer("Done."),
    ]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        turn = client.prompt(await client.new_session(harness.cwd), "go")
        question = await client.asked("session/request_permission")
        assert diffs(question) == ["def f():\n    return 2\n"]
        assert "differs from the file in indentation" in json.dumps(question)
        choose(client, question, "allow_once")
        await client.turn_of(turn)
        assert "differs from the file in indentation" in json.dumps(server.requests[-1].body)
    assert (harness.project / "a.py").read_text() == "def f():\n    return 2\n"


@pytest.mark.parametrize("form", ["tool", "command"])
async def test_patch_asks_for_each_file_and_stops_at_a_refusal(
    harness: AgentHarness, kind: Kind, form: str
) -> None:
    for name, text in {"a.py": "def f():\n    return 1\n", "b.txt": "one\n", "old.txt": "x\n"}.items():
        (harness.project / name).write_text(text)
    script = [
        ModelAnswer(*[ModelToolCall("read_file", {"path": name}) for name in ("a.py", "b.txt")]),
        ModelAnswer(
            ModelToolCall("apply_patch", {"input": PATCH})
            if form == "tool"
            else ModelToolCall("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}EOF"]})
        ),
        ModelAnswer("Done."),
    ]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        turn = client.prompt(await client.new_session(harness.cwd), "go")
        titles: list[str] = []
        for kind_of_answer in ("allow_once",) * 4 + ("reject_once",):
            question = await client.asked("session/request_permission")
            titles.append(question["params"]["toolCall"]["title"])
            choose(client, question, kind_of_answer)
        await client.turn_of(turn)
        assert "4 of its 5 changes were made" in json.dumps(server.requests[-1].body)
    assert titles == ["Edit a.py", "Edit b.txt", "Move b.txt to sub/c.txt", "Write new.txt", "Delete old.txt"]
    files = {path.name: path.read_text() for path in harness.project.rglob("*") if path.is_file()}
    assert files == {
        "a.py": "def f():\n    return 2\n",
        "c.txt": "one\ntwo\n",
        "new.txt": "hello\n",
        "old.txt": "x\n",
    }
