"""`accord run --output-schema`: an answer in JSON, checked and asked for once more."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.run.run_harness import RunHarness, odd_agent
from tests.coder.models.harness import KINDS, NAMES

from accord.cli.output_schema import OutputMismatch, OutputSchema
from accord.coder.user_config import Kind
from accord.errors import UsageError
from accord.testing.model_script import ModelAnswer, ScriptedUsage
from accord.testing.model_server import ModelServer

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


@pytest.fixture
def schema(harness: RunHarness) -> str:
    (harness.cwd / "schema.json").write_text(json.dumps(SCHEMA))
    return "schema.json"


def configure(harness: RunHarness, server: ModelServer, kind: Kind) -> None:
    file = harness.home / "config" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    endpoint = f'[endpoints.scripted]\nkind = "{kind}"\nbase_url = "{server.base_url(kind)}"\n'
    file.write_text(f"[sandbox]\nenabled = false\n{endpoint}needs_key = false\n")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_wrong_answer_is_asked_for_once_more(harness: RunHarness, schema: str, kind: Kind) -> None:
    right = 'Here it is:\n```json\n{"ok": true}\n```\n'
    script = [
        ModelAnswer("It is fine.", usage=ScriptedUsage(1000, 20)),
        ModelAnswer(right, usage=ScriptedUsage(3000, 7)),
    ]
    async with ModelServer(script) as server:
        configure(harness, server, kind)
        words = ["look", "--model", f"scripted:{NAMES[kind]}", "--format", "json", "--output-schema", schema]
        ran = await asyncio.to_thread(harness.run, *words)
    assert (ran.code, ran.result["output"]) == (0, {"ok": True}), ran.err
    assert (ran.result["usage"]["inputTokens"], ran.result["usage"]["outputTokens"]) == (4000, 27)
    assert "does not match --output-schema schema.json: it is not JSON" in ran.err
    assert json.dumps(SCHEMA) in json.dumps(server.requests[0].body).replace('\\"', '"')
    assert "Answer again, with the JSON value alone" in json.dumps(server.requests[1].body)


def test_an_answer_that_never_matches_exits_with_1_and_prints_nothing(
    harness: RunHarness, schema: str
) -> None:
    ran = harness.run("hello", "--format", "quiet", "--output-schema", schema, *odd_agent("polite"))
    assert (ran.code, ran.out) == (1, "")
    first, last = ran.err.splitlines()
    assert first.endswith("asking once more")
    assert last.startswith(
        "accord run: the answer does not match --output-schema schema.json: it is not JSON"
    )


def test_an_answer_that_is_nested_too_deeply_to_be_checked_does_not_match(harness: RunHarness) -> None:
    (harness.cwd / "schema.json").write_text('{"type": "array", "items": {"$ref": "#"}}')
    words = ["say: " + "[" * 400 + "]" * 400, "--model", "rehearsal", "--format", "quiet"]
    ran = harness.run(*words, "--output-schema", "schema.json")
    assert (ran.code, ran.out) == (1, "")
    assert "it is nested too deeply to be checked; asking once more" in ran.err


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("1e999", "it is not JSON (1e999 is too large for a number)"),
        ("1" * 400, "a number that is too large"),
    ],
)
def test_a_number_that_is_too_large_does_not_match(harness: RunHarness, answer: str, problem: str) -> None:
    (harness.cwd / "schema.json").write_text('{"multipleOf": 0.5}')
    with pytest.raises(OutputMismatch, match=re.escape(problem)):
        OutputSchema(str(harness.cwd / "schema.json")).read(answer)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not a JSON Schema: it must be an object"),
        ('{"type": "text"}', "is not a JSON Schema: 'text' is not valid"),
        (None, "cannot read --output-schema"),
        ('{"$schema": 5}', "$schema must be a string"),
        ('{"items": {"$ref": "#/nope"}}', "refers to '/nope', which is not in the file"),
        ('{"$ref": "https://127.0.0.1:9/x"}', "refers to 'https://127.0.0.1:9/x', which is not in the file"),
        ('{"prefixItems": [{"$ref": "#/prefixItems/q"}]}', "refers to '#/prefixItems/q', which is not in"),
        ('{"maximum": 1e999}', "1e999 is too large for a number"),
        ('{"not": ' * 300 + "true" + "}" * 300, "is nested too deeply"),
    ],
)
def test_an_unusable_schema_exits_with_2_before_the_agent_starts(
    harness: RunHarness, content: Any, problem: str
) -> None:
    file = Path(harness.cwd, "schema.json")
    if content is not None:
        file.write_text(content)
    ran = harness.run("hello", "--output-schema", str(file), *odd_agent("polite"))
    assert (ran.code, ran.out) == (2, "")
    assert problem in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_pattern_that_takes_for_ever_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"pattern": "^(a+)+$"}')
    monkeypatch.setattr("accord.cli.output_schema._SECONDS", 0.01)
    with pytest.raises(UsageError, match=r"took more than 0\.01 s; simplify its patterns"):
        OutputSchema(str(file)).read(json.dumps("a" * 100 + "!"))
