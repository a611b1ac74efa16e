"""Redaction by example: what is redacted, what stays, and that hostile input costs linear time."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.repetitions import ALL
from tests.trace.trace_files import entries_in, starts_in

from accord.gateway.access.access_tokens import TOKEN_PATTERN
from accord.policy.audit_log import redacted
from accord.policy.sandbox.command_environment import is_credential
from accord.trace.frame_buffer import FrameRing
from accord.trace.redaction import has_unique_keys, redact_command, redact_frame, redact_value
from accord.trace.secret_names import (
    _PASS_WORDS,
    _SECRET_ENDINGS,
    _SECRET_WORDS,
    is_secret,
    is_secret_member,
    pair_kind,
)
from accord.trace.text_redaction import redact_text
from accord.trace.trace_format import entry_line, frame_entry, frame_line
from accord.trace.trace_writer import FileSink

S = "hunter2SECRETvalue"
PEM = ["-----BEGIN RSA PRIVATE KEY-----", f"MII{S}", f"{S}==", "-----END RSA PRIVATE KEY-----"]


def recorded_line(frame: bytes) -> bytes:
    """The line of a trace file for a frame. Also checks the other way to write it."""
    line = frame_line(0.0, "client", frame, run="r")
    assert S.encode() not in entry_line(frame_entry(0.0, "client", frame, run="r"))
    return line


NAMES = [
    "PGPASSWORD",
    "SSHPASS",
    "dbpassword",
    "userpass",
    "encryptionkey",
    "MYSQL_PWD",
    "apiKeyValue",
    "tokenValue",
    "accountKey",
    "authtoken",
    "bottoken",
    "botToken",
    "apitokens",
    "DB_PASS2",
    "sessionToken",
    "clientsecret",
    "ACCESS_TOKEN_2",
    "pass_phrase",
    "X-Api-Key",
    "SSH_PRIVATE_KEY_BASE64",
    "registry.password",
    "spring.datasource.password",
]
PLAIN_NAMES = [
    "inputTokens",
    "outputTokens",
    "token_count",
    "tokenCount",
    "maxTokens",
    "max_tokens",
    "maxtokens",
    "totalTokens",
    "tokensUsed",
    "numTokens",
    "tokens_per_second",
    "tokenizer",
    "tokenType",
    "token_type",
    "nextPageToken",
    "author",
    "authors",
    "authority",
    "authorName",
    "keyboard",
    "keyword",
    "keywords",
    "monkey",
    "turkey",
    "hotkey",
    "publicKey",
    "public_key",
    "cacheKey",
    "primaryKey",
    "compass",
    "bypass",
    "passenger",
    "passed",
    "passing",
    "secretary",
    "signature",
    "functionSignature",
    "key",
    "keys",
    "cwd",
    "pathname",
    "hostname",
    "sessionId",
    "methodId",
    "authMethods",
    "configId",
    "toolCallId",
    "apiKeyEnv",
    "bytes",
    "code",
    "state",
]


@pytest.mark.parametrize("word", sorted(_SECRET_WORDS | _PASS_WORDS | {*_SECRET_ENDINGS}))
def test_a_value_after_every_secret_word_is_redacted_in_text(word: str) -> None:
    assert redact_text(f"{word.upper()}={S}") == f"{word.upper()}=[redacted]"


def test_a_gateway_token_is_redacted_in_text() -> None:
    token = f"acc_abcdefgh_{'x-_' * 14}y"
    assert TOKEN_PATTERN.fullmatch(token)
    assert redact_text(f"use {token} here") == "use [redacted] here"
    assert redacted(f"use {token} here") == "use *** here"
    assert is_credential("X", token)


@pytest.mark.parametrize("name", NAMES)
def test_secret_names_are_redacted(name: str):
    assert is_secret(name)
    assert S.encode() not in recorded_line(json.dumps({"params": {name: S}}).encode())


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_ordinary_names_are_not_secret(name: str):
    assert not is_secret(name)


@pytest.mark.parametrize("name", ["pass", "pwd", "auth", "oauth", "tokens", "Pwd"])
def test_names_that_are_secret_only_as_an_object_member(name: str):
    assert is_secret_member(name)
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        *(
            (name, "env")
            for name in [
                "env",
                "Env",
                "ENV",
                "envs",
                "envVars",
                "env_vars",
                "environment",
                "environmentVariables",
                "extraEnv",
            ]
        ),
        *(
            (name, "headers")
            for name in ["headers", "Headers", "requestHeaders", "http_headers", "extra-headers"]
        ),
        *(
            (name, "")
            for name in ["envelope", "environmental", "header", "environmentId", "settings", "apiKeyEnvName"]
        ),
    ],
)
def test_names_that_hold_env_or_header_pairs(name: str, holds: str):
    assert pair_kind(name) == holds


OBJECTS: list[Any] = [
    {f"sk-ant-api03-{S}0000": 1},
    {f"https://u:{S}@h/ sk-ant-api03-{S}0000": {"a": 1}},
    {"a" * 300 + f" apiKey={S}": 1},
    {"_meta": {"envVars": {"FOO": S}}},
    {"Env": {"FOO": S}},
    {"Headers": {"X-Foo": S}},
    {"requestHeaders": [{"name": "X-Foo", "value": S}]},
    {"env": {"PATH": f"sk-ant-api03-{S}0000"}},
    {"auth": {"user": "x", "value": S}},
    {"auth": S},
    {"oauth": {"data": S}},
    {"basicAuth": {"x": S}},
    {"_meta": {"terminal-auth": {"command": "a", "env": {"FOO": S}}}},
    {"name": "FOO_TOKEN", "currentValue": S},
    {"id": "api_key", "currentValue": S},
    {"configId": "token", "value": S},
    {"name": "FOO_TOKEN", "default": S},
    {"key": "db_password", "defaultValue": [S]},
    {"key": S},
    {"tokens": [S]},
    {"tokens": {"access": S, "expires": 12}},
    {"pass": S, "pwd": S},
    {"pin": "20262026"},
    {"kty": "RSA", "n": "public", "d": S},
    {"Authorization": ["Bearer " + S]},
    {"connectionString": f"Server=x;Password={S};Database=y"},
    {"args": ["--api-key", f"--{S}"]},
    {"args": ["-e", f"FOO={S}"]},
    {"args": [f"--env=FOO={S}"]},
    {"args": ["-e", "FOO_TOKEN", S]},
    {"args": ["-u", f"me:{S}"]},
    {"args": [f"-ume:{S}"]},
    {"args": ["--key", S]},
    {"args": ["--header", f"X-Api-Key: {S}"]},
    {"command": ["env", f"FOO={S}", "agent"]},
]


@pytest.mark.parametrize("document", OBJECTS, ids=lambda one: json.dumps(one)[:50])
def test_secrets_in_objects_are_redacted(document: Any):
    for indent in (None, 1):
        frame = json.dumps({"jsonrpc": "2.0", "params": {"x": [document]}}, indent=indent).encode()
        for cut in (frame, frame[:-1], b"noise " + frame):
            line = recorded_line(cut.replace(b"\n", b" "))
            assert S.encode() not in line
            assert b"20262026" not in line


TEXTS = [
    f"API key: {S}",
    f"Your OpenAI API key = {S}",
    f"my api key {S}",
    f"the password is {S}.",
    f"Token {S} was rejected",
    f"set OPENAI_API_KEY to {S}",
    f"PASSWORD=a,{S}",
    f"PASSWORD=a;b&{S}",
    f"PASSWORD=a$({S}",
    f"PASSWORD=a({S})",
    f"PASSWORD=abc\\ {S}",
    f"PASSWORD=abc|{S}",
    f'password: "pa {S}"',
    f"PGPASSWORD={S} psql",
    f"pass={S}",
    f"Server=x;Pwd={S};Database=y",
    f'Cookie: a=b; c="{S}"',
    f"curl -H 'Cookie: a=b; c=\"{S}\"' https://example.com",
    f'Authorization: Digest username="x", response="{S}"',
    f'{{\\"Authorization\\": \\"Basic {S}\\"}}',
    f"token: |\n  {S}\n  {S}\nother: 1",
    f"  private_key: >-\n    {S}\n\n    {S}",
    f"- password:\n    {S}",
    f'{{"apiKey":\n"{S}"}}',
    f"{{'apiKey' :\n    '{S}'}}",
    f"machine x login y password {S}",
    f"machine x\n  login y\n  password {S}\n",
    f"<password>{S}</password>",
    f'<ApiKey type="x">{S}</ApiKey>',
    f"<key>apiKey</key><string>{S}</string>",
    f'<add key="ApiKey" value="{S}"/>',
    f"setx OPENAI_API_KEY {S}",
    f"set -x OPENAI_API_KEY {S}",
    f"set --global -x OPENAI_API_KEY '{S}'",
    f"setenv OPENAI_API_KEY {S}",
    f"ENV OPENAI_API_KEY {S}",
    f"curl -uuser:{S} https://example.com",
    f"curl --user me:{S} https://example.com",
    f"mysql --password {S}",
    f"mysql -u root -p{S} db",
    f"sshpass -p {S} ssh host",
    f"docker run -e FOO={S} image",
    f"docker run --env FOO='{S}' image",
    f"env FOO={S} BAR='{S}' agent",
    f"/usr/bin/env -i FOO={S} agent",
    f'os.environ["OPENAI_API_KEY"] = "{S}"',
    f"AccountKey={S}==",
    f"$env:OPENAI_API_KEY = '{S}'",
    f"API_KEY=${{X:-{S}}}",
    f"token: {S} is what you need",
    f"password: {S} and more",
    f"--tls-key {S}",
    "\n".join(PEM),
    f"postgres://user:p@{S}@host/db",
    f"postgres://user:pa/{S}@host/db",
    f"https://user:p@{S}@host/x",
    f"https://user:pa/{S}@host/x",
    f"redis://:{S}@host:6379/0",
    f"https://hooks.slack.com/services/T00/B00/{S}",
    f"https://discord.com/api/webhooks/1/{S}",
    f"https://api.telegram.org/bot12:{S}/getMe",
    f"https://host/x?x=%68&api%5Fkey={S}",
    f"https://host/x#access_token={S}",
    f"https://host/cb?code={S}&state=x",
]


@pytest.mark.parametrize("text", TEXTS)
def test_secrets_in_text_are_redacted(text: str):
    assert S not in redact_text(text)
    assert S not in redact_text(f"before\n{text}\nafter")
    assert S not in redact_text("a line of words\n" * 100 + text + "\n" + "a line of words\n" * 2000)
    assert S.encode() not in recorded_line(json.dumps({"params": {"content": text}}).encode())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"Server=x;Password={S};Database=y", "Server=x;Password=[redacted];Database=y"),
        (f"f(token={S}, user=me)", "f(token=[redacted], user=me)"),
        (f"{{api_key: {S}, model: x}}", "{api_key: [redacted], model: x}"),
        (f"api_key={S},model=x", "api_key=[redacted],model=x"),
        (
            f'{{\\"apiKey\\": \\"{S}\\", \\"model\\": \\"x\\"}}',
            '{\\"apiKey\\": [redacted], \\"model\\": \\"x\\"}',
        ),
        (f"https://me:{S}@host/@scope/x@1.0", "https://[redacted]@host/@scope/x@1.0"),
        (f"https://host/?token={S}&page=2#top", "https://host/?token=[redacted]&page=2#top"),
        (f"token: |\n  {S}\nother: 1", "token: |\n  [redacted]\nother: 1"),
        (f"curl -H 'Cookie: a={S}' https://h", "curl -H 'Cookie: [redacted]' https://h"),
        (f"<password>{S}</password>", "<password>[redacted]</password>"),
        (f"docker run -e FOO={S} -e PATH=/bin x", "docker run -e FOO=[redacted] -e PATH=/bin x"),
        (f"API key: {S}, keep it", "API key: [redacted], keep it"),
    ],
)
def test_text_around_a_secret_is_unchanged(text: str, shown: str):
    assert redact_text(text) == shown


ORDINARY_TEXTS = [
    "a key: value store, the tokens: 5, total_tokens=100, max_tokens: 4096, token_count: 7",
    "The parser yields tokens: identifiers, numbers and signs.",
    "author: Jane, authority=none, keyboard: qwerty, monkey=banana, compass: north, secretary: Ann",
    "pass: 12, fail: 3; PASS=12 FAIL=3",
    "PWD=/home/me pwd=/tmp pwd=$HOME pwd: the working folder",
    "the password is wrong, the token is expired, a token is refreshed as needed",
    "Set OPENAI_API_KEY in your shell and export PATH again",
    "press any key: Enter; the key is 42; primary key: id",
    "password reset",
    "see https://example.com:8080/a@b and https://medium.com/@someone/post and ssh://git@example.com/x.git",
    "https://example.com/?page=2&sort=name&hashtag=x#section=2",
    "git commit -m 'x' --author someone",
    "make -unit:test; perl -e x=5; node --environment=x",
    "List<Token> tokens = parse(text); vector<token> x = y</div>",
    "<title>The key</title><name>token</name>",
    "env | sort; NODE_ENV=production; env PATH=/bin LANG=C make",
    "if token == other_token: pass",
    "def f(self) -> None:\n    '''A doc.'''\n    pass\nclass Token:\n    '''One word.'''\n",
    "inputTokens: 5, outputTokens: 7, tokens/s: 30",
    "The page comes without a token: it holds nothing. There is no OAuth: give a header.",
    "A form never asks for secrets: a field that looks like one is refused.",
    "def f(token: bytes, api_key: str | None = None, secret: Optional[str]) -> None: ...",
    "SECRET: Final = 5\nexcept CredentialsError:  # broken",
    "ANTHROPIC_API_KEY: ${{ secrets.ANTHROPIC_API_KEY }}",
    'export API_KEY=${TEAM_KEY} OTHER_KEY="${X}" MY_KEY=...',
]


@pytest.mark.parametrize("text", ORDINARY_TEXTS)
def test_ordinary_text_is_unchanged(text: str):
    assert redact_text(text) == text
    long = f"{text}\n" * 60
    assert redact_text(long) == long


# What a replay offers to the user: ids beside names that mention keys.
PROVIDER_OPTION = {
    "id": "api_key_provider",
    "name": "Provider API key",
    "type": "select",
    "currentValue": "google",
    "options": [
        {"value": "google", "name": "Google Gemini (API Key)", "description": "reads GEMINI_API_KEY"},
        {"value": "xai-grok-code-fast-1-0825-preview", "name": "Access token"},
    ],
}
GROUPED_OPTION = {
    **PROVIDER_OPTION,
    "options": [{"group": "keys", "name": "API keys", "options": PROVIDER_OPTION["options"]}],
}
FORM_FIELDS = {
    "apiKeySource": {"type": "string", "title": "API key", "enum": ["env", "google"], "default": "google"},
    "token": {"type": "string", "oneOf": [{"const": "short", "title": "Short token"}], "default": "short"},
    "secrets": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]},
    "keys": {"type": "array", "items": {"anyOf": [{"const": "c", "title": "Key"}]}, "default": ["c"]},
}


def test_a_value_that_no_choice_offers_is_redacted_and_a_secret_default_too() -> None:
    option = {**PROVIDER_OPTION, "currentValue": S}
    assert redact_value(option) == {**PROVIDER_OPTION, "currentValue": "[redacted]"}
    fields = {"apiKey": {"type": "string", "title": "Key", "default": S}}
    assert redact_value({"properties": fields}) == {
        "properties": {"apiKey": {"type": "string", "title": "Key", "default": "[redacted]"}}
    }
    for document in (
        {"properties": {"apiKey": S}},
        {"properties": {"token": {"type": "string", "oneOf": [{"const": "short"}], "default": S}}},
        {"properties": {"tokens": {"type": "array", "items": {"enum": ["a"]}, "default": ["a", S]}}},
        {"properties": {"apiKey": {"type": "plain", "value": S}}},
        {"options": [{"name": "API_KEY", "value": S}]},
        {"options": {"apiKey": S}},
        {"currentValue": "x", "options": [{"name": "A", "value": "x", "apiKey": S}]},
        {"sessionId": "s", "configId": "api_key", "value": S},
    ):
        assert S not in json.dumps(redact_value(document)), document


@pytest.mark.parametrize(
    "document",
    [
        {"tokens": 1234},
        {"usage": {"tokens": {"input": 5, "output": 7}, "inputTokens": 3, "token_count": 4, "maxTokens": 9}},
        {"author": "Jane", "authors": ["Jane"], "keyword": "x", "signature": "f(x)"},
        {
            "agentCapabilities": {"auth": {"logout": {}, "status": {}}},
            "clientCapabilities": {"auth": {"terminal": True}},
        },
        {"_meta": {"terminal-auth": {"command": "agent", "args": ["login"], "label": "Sign in"}}},
        {"id": "model", "name": "Model", "type": "select", "currentValue": "big", "default": "small"},
        {"id": "thinking_tokens", "name": "Thinking tokens", "currentValue": "high"},
        {"environment": "production", "nodeEnv": "test", "env": {"PATH": "/bin", "LC_ALL": "C"}, "envs": []},
        {"required": ["apiKey", "password", "model"]},
        PROVIDER_OPTION,
        {name: value for name, value in PROVIDER_OPTION.items() if name != "currentValue"},
        GROUPED_OPTION,
        {"sessionId": "s", "configId": "model", "value": "xai-grok-code-fast-1-0825-preview"},
        {"sessionId": "s", "modelId": "xai-grok-code-fast-1-0825-preview"},
        {"availableModels": [{"modelId": "glm-4-plus-20260101-preview", "name": "GLM (API key)"}]},
        {"type": "object", "properties": FORM_FIELDS},
        {"key": "Enter", "value": "Return"},
        {"key": "some-long-lower-case-name-1"},
        {"pwd": "/home/me", "pass": 12, "pin": True, "passed": True},
        {"args": ["-la", "src", "--color=auto", "-e", "s/a/b/", "-n", "5"]},
        {"d": "M 0 0", "p": "text", "k": "x"},
    ],
    ids=lambda one: json.dumps(one)[:50],
)
def test_ordinary_messages_are_unchanged(document: Any):
    frame = json.dumps(document).encode()
    assert redact_frame(frame) is frame
    assert redact_value(document) == document


COMMANDS = [
    (["env", f"FOO={S}", "a"], ["env", "FOO=[redacted]", "a"]),
    (
        ["/usr/bin/env", "-i", f"FOO={S}", "PATH=/bin", "a", "X=1"],
        ["/usr/bin/env", "-i", "FOO=[redacted]", "PATH=/bin", "a", "X=1"],
    ),
    (["docker", "run", "-e", f"FOO={S}", "i"], ["docker", "run", "-e", "FOO=[redacted]", "i"]),
    (["docker", "run", f"-eFOO_X={S}", "i"], ["docker", "run", "-eFOO_X=[redacted]", "i"]),
    (["a", "--env", f"FOO={S}"], ["a", "--env", "FOO=[redacted]"]),
    (["a", f"--env=FOO={S}"], ["a", "--env=FOO=[redacted]"]),
    (["a", "--key", S], ["a", "--key", "[redacted]"]),
    (["a", f"--key={S}"], ["a", "--key=[redacted]"]),
    (["a", "--pass", S, "-v"], ["a", "--pass", "[redacted]", "-v"]),
    (["a", "--api-key", f"--{S}"], ["a", "--api-key", "[redacted]"]),
    (["a", "--token", f"-{S}"], ["a", "--token", "[redacted]"]),
    (["a", "--key", "--token", S], ["a", "--key", "[redacted]", "[redacted]"]),
    (["curl", f"-ume:{S}"], ["curl", "-u[redacted]"]),
    (["sh", "-c", f"TOKEN={S} x"], ["sh", "-c", "TOKEN=[redacted] x"]),
    (["a", "--max-tokens", "500", "--author", "x"], ["a", "--max-tokens", "500", "--author", "x"]),
    (["a", "--log-level=debug", "--env", "PATH=/bin"], ["a", "--log-level=debug", "--env", "PATH=/bin"]),
]  # fmt: skip


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_secrets_in_recorded_commands_are_redacted(command: list[str], shown: list[str], tmp_path: Path):
    assert redact_command(command) == shown
    FileSink(tmp_path / "t", command=command).close()
    (start,) = starts_in(tmp_path / "t")
    assert list(start.command) == shown


@pytest.mark.parametrize(
    ("frame", "stored"),
    [
        (b'{"apiKey":"%b","apiKey":""}', b'{"apiKey":""}'),
        (b'{"x":{"env":[{"name":"X","value":"%b"}],"env":[]}}', b'{"x":{"env":[]}}'),
        (b'{"env":{"FOO":"%b","FOO":""}}', b'{"env":{"FOO":""}}'),
        (b'{"api\\u004bey":"%b", "apiKey" : ""}', b'{"apiKey":""}'),
        (b'{"apiKey":"%b","apiKey":"","a":"\\u0022:"}', b'{"apiKey":"","a":"\\":"}'),
        (b'{"apiKey":"%b","apiKey":"","a":"\\"\\u0020:"}', b'{"apiKey":"","a":"\\" :"}'),
        (b'{"apiKey":"%b","apiKey":"","a":"\\"\\u003a"}', b'{"apiKey":"","a":"\\":"}'),
    ],
)
def test_duplicate_members_are_dropped_from_the_stored_frame(frame: bytes, stored: bytes):
    """The last of two members with one name counts. The earlier one was not checked, so it is not stored."""
    entry = frame_entry(0.0, "client", frame % S.encode())
    assert (entry.data, entry.redacted) == (stored, True)
    assert S.encode() not in recorded_line(frame % S.encode())
    assert S.encode() not in recorded_line(b"noise " + frame % S.encode())


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"b":{"a":[{"a":2}]}}',
        b'{ "a" : "say \\"a\\": b", "b" : 1.50e2 }',
        b'{"a":"\\u0022:\\u0022","b":"\\u00e9\\u003a"}',
        b"[]",
    ],
)
def test_json_without_duplicate_members_is_stored_as_written(text: bytes):
    assert redact_frame(text) is text
    assert b'"frame":' + text + b"}" in frame_line(0.0, "agent", text, run="r")


def test_duplicate_members_are_found_at_any_depth():
    assert not has_unique_keys(b'[{"a":{"b":1,"b":1}}]', [{"a": {"b": 1}}])
    assert has_unique_keys(b'[{"b":1},{"b":1}]', [{"b": 1}, {"b": 1}])


@pytest.mark.parametrize("depth", [90, 99, 100, 101, 300, 480, 900, 3000, 100_000])
@pytest.mark.parametrize("inner", ['{"env":{"FOO":"%s"}}', '{"apiKey":"%s"}', '{"args":["--token","%s"]}'])
@pytest.mark.parametrize("opening", ['{"x":', '[{"y":1},'])
@pytest.mark.parametrize("whole", [True, False])
def test_a_secret_in_deep_nesting_is_redacted(depth: int, inner: str, opening: str, whole: bool):
    closing = ("}" if opening[0] == "{" else "]") * depth if whole else ""
    frame = (
        '{"method":"session/new","params":' + opening * depth + inner % S + closing + ("}" if whole else "")
    )
    line = recorded_line(frame.encode())
    assert S.encode() not in line
    assert b"session/new" in line


@pytest.mark.parametrize(
    "text",
    [
        '{"a":tru, "env":{"FOO":"%s"}}',
        "{'command': 'x', 'requestHeaders': {'X-Foo': '%s'}}",
        '{"env":[{"name":"FOO","value":"%s"}, oops',
        '{"ok":1} {"env":{"FOO":"%s"}} tail',
        '[1,2,{"env":{"FOO":"%s"}}',
        '{"a":1,"apiKey":"%s" oops',
        '{"env":{"FOO":"x","BAR":"%s" oops',
        '{"env":{"FOO":"x","BAR":["%s" oops',
        '{"a":NaN,"env":{"FOO":"%s","BAR":{"x":["%s"]}},"b":"stays"}',
    ],
)
def test_secrets_in_invalid_json_are_redacted(text: str):
    assert S.encode() not in recorded_line(text.replace("%s", S).encode())


@pytest.mark.parametrize(
    ("lines", "hidden"),
    [
        (["one", *PEM, "two"], 3),
        (["-----BEGIN PUBLIC KEY-----", "MIIpublic", "-----END PUBLIC KEY-----"], 0),
        (["token: |", f"  {S}", "", f"  {S}", "other: 1"], 2),
        (["config:", "  password:", f"    {S}", "  user: me"], 1),
        (["Authorization:", f"  Bearer {S}", "done"], 1),
        (["the key:", "  is here"], 0),
        (["-----BEGIN PRIVATE KEY-----", *["x"] * 160, "later"], 160),
    ],
)
def test_secrets_over_several_stderr_lines_are_redacted(lines: list[str], hidden: int, tmp_path: Path):
    sink, ring = FileSink(tmp_path / "t"), FrameRing()
    for line in lines:
        sink.add_bytes("stderr", f"{line}\n".encode())
        if line:
            ring.add_stderr(line)
    sink.close()
    for recorded in (entries_in(tmp_path / "t"), ring.trace_entries()):
        texts = [entry.text for entry in recorded]
        assert S not in str(texts)
        assert len(texts) == len(list(filter(None, lines)))
        assert texts[-1] == lines[-1] or S in lines[-1] or "END RSA" in lines[-1]
        first = 1 if lines[0].startswith("-----BEGIN") and hidden else 0
        begun = sum("BEGIN RSA" in line for line in lines)
        assert texts.count("[redacted]") == hidden + begun + first


def test_a_secret_after_thousands_of_objects_is_redacted():
    assert S.encode() not in recorded_line(b"{}" * 5000 + b'{"apiKey":"%b"}' % S.encode())


SIZE = 1_000_000 if ALL else 300_000
HOSTILE = {
    "assignments": "a=",
    "secret assignments": "token=",
    "escaped": 'token=\\"',
    "open quotes": 'token="x ',
    "brackets": "token=)))))))))",
    "closers": ")",
    "commas": "token=a,",
    "names": "token.",
    "dashes": "a-",
    "options": "--key ",
    "logins": "-u a",
    "addresses": "://a",
    "passwords": "://a:b/",
    "at signs": "://a@",
    "parameters": "?token",
    "pem": "-----BEGIN ",
    "pem keys": "-----BEGIN PRIVATE KEY-----",
    "bearer": "bearer ",
    "basic": "basic a",
    "headers": "cookie: a=\"",
    "elements": "<password>",
    "open elements": "<password ",
    "attributes": "key='token' value=",
    "env": "env A=b ",
    "env options": "env -i ",
    "docker": "-e A=",
    "fish": "set -x ",
    "said": "password is ",
    "mysql": "mysql -p",
    "netrc": "login a password ",
    "yaml": "token: |\n",
    "deeper yaml": "token:\n ",
    "blank lines": "token:\n\n",
    "below": 'token:\n"',
    "spaces": " ",
    "tabs": "\t- ",
    "base64": "A",
    "backslashes": "\\",
    "slack": "hooks.slack.com/services/",
    "braces": "{",
    "objects": "{}",
    "brackets of json": "[{",
    "broken env": '{"env":{"a":',
    "quotes": '"',
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_redacted_in_linear_time(name: str):
    """A pattern that backtracks over so long a text would reach the time limit of the test run."""
    piece = HOSTILE[name]
    text = piece * (SIZE // len(piece))
    redact_text(f"token={text}")
    redact_frame(text.replace("\n", " ").encode())
    part = text[: SIZE // 10]
    redact_frame(json.dumps({"params": {"text": f"secret {part} ://", part: 1}}).encode())
    redact_command([part, "--token", part])
