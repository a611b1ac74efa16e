"""Redaction properties: no secret with a known place, name or shape is kept, and nothing else is changed."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.trace.redaction import redact_command, redact_frame, redact_value
from accord.trace.secret_names import REDACTED, is_secret
from accord.trace.text_redaction import redact_text
from accord.trace.trace_format import entry_line, frame_entry, stderr_entry
from accord.trace.trace_writer import FileSink
from accord.wire.transport import OversizedFrame

LETTERS = st.text("abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ23456789", min_size=36, max_size=48)
WORDS = st.text("abcdefghijklmnopqrstuvwxyz ÄéЖ你👋\n\t.,(){}<>", max_size=40)


@st.composite
def shaped(draw: st.DrawFn) -> str:
    """A credential that is recognized by its shape alone."""
    body = draw(LETTERS)
    upper = body.upper()
    return draw(
        st.sampled_from(
            [
                f"sk-{body}",
                f"sk-ant-api03-{body}",
                f"sk-proj-{body[:20]}_{body[20:]}",
                f"sk_live_{body}",
                f"ghp_{body}",
                f"gho_{body}",
                f"github_pat_{body}",
                f"glpat-{body}",
                f"xoxb-{body[:12]}-{body[12:]}",
                f"AKIA{upper[:16]}",
                f"ASIA{upper[:16]}",
                f"AIza{body[:35]}",
                f"ya29.{body}",
                f"npm_{body}",
                f"pypi-{body}",
                f"hf_{body}",
                f"gsk_{body}",
                f"xai-{body}",
                f"eyJ{body[:12]}.eyJ{body[12:24]}.{body[24:]}",
                f"SG.{body[:18]}.{body[18:]}",
                f"hvs.{body}",
                f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n{body}\n-----END RSA PRIVATE KEY-----",
                f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}",
                f"Bearer {body}",
                f"Authorization: Basic {body}",
                f"https://me:{body}@example.com/x",
                f"postgres://user:{body}@db/x",
                f"https://example.com/?key={body}&x=1",
                f"https://example.com/?access_token={body}",
            ]
        )
    )


def secret_of(text: str) -> str:
    """The part of a planted text that must not survive."""
    return max("".join(c if c.isalnum() else " " for c in text.replace("PRIVATE KEY", "")).split(), key=len)


def _words(text: str) -> list[str]:
    return text.split()


NAMES = _words(
    "apiKey api_key API_KEY openaiApiKey OPENAI_API_KEY ANTHROPIC_AUTH_TOKEN accessToken access_token "
    "token refreshToken "
    "Authorization proxy-authorization X-Api-Key x-auth-token Cookie set-cookie password DB_PASSWORD "
    "passwd secret "
    "client_secret clientSecret GITHUB_TOKEN GITHUB_PAT AWS_SECRET_ACCESS_KEY privateKey private_key "
    "credentials "
    "SENTRY_DSN SSH_PASSPHRASE npm_token webhookSecret jwt DB_PWD encryption_key licenseKey id_token "
    "AWS_SESSION_TOKEN"
)


@st.composite
def documents(draw: st.DrawFn, secret: Any) -> Any:
    """JSON that contains the secret at some depth."""
    value: Any = secret
    for _ in range(draw(st.integers(0, 4))):
        name = draw(
            st.sampled_from(("params", "update", "content", "rawInput", "_meta", "text", "value", "x y", "é"))
        )
        value = draw(
            st.sampled_from(
                [
                    {name: value},
                    {"a": 1, name: value, "b": [True, None, 1.5]},
                    [value],
                    ["before", value, {"after": "after"}],
                ]
            )
        )
    return value


def survives(secret: str, document: Any) -> bool:
    """Whether the secret is in the recorded frame, in any of the ways to write that frame."""
    for ascii_only in (True, False):
        for separators in ((",", ":"), (", ", " : ")):
            frame = json.dumps(document, ensure_ascii=ascii_only, separators=separators).encode()
            for recording in (frame, frame[:-1], b"noise " + frame):
                if secret.encode() in entry_line(frame_entry(0.0, "client", recording)):
                    return True
    return False


@settings(deadline=None)
@given(st.data(), shaped(), WORDS, WORDS)
def test_a_credential_is_recognized_by_its_shape(
    data: st.DataObject, credential: str, before: str, after: str
):
    text = f"{before} {credential} {after}"
    document = data.draw(documents(text))
    assert not survives(secret_of(credential), {"jsonrpc": "2.0", "method": "x", "params": document})
    assert secret_of(credential) not in redact_text(text)
    assert secret_of(credential).encode() not in entry_line(stderr_entry(0.0, text.encode()))


@settings(deadline=None)
@given(st.data(), st.sampled_from(NAMES), LETTERS)
def test_a_secret_is_recognized_by_its_name(data: st.DataObject, name: str, secret: str):
    secret_value = data.draw(
        st.sampled_from(
            [
                secret,
                [secret],
                {"value": secret},
                [{"deep": [secret]}],
                int.from_bytes(secret[:6].encode(), "big"),
            ]
        )
    )
    document = data.draw(documents({name: secret_value, "other": "stays"}))
    shown = json.dumps(redact_value(document))
    assert (str(secret_value) if isinstance(secret_value, int) else secret) not in shown
    assert "stays" in shown


@settings(deadline=None)
@given(
    st.sampled_from(NAMES),
    LETTERS,
    st.sampled_from(
        [
            "{n}={s}",
            'export {n}="{s}"',
            "{n}: {s}",
            '"{n}": "{s}"',
            "'{n}' => '{s}'",
            "{n} = '{s}'",
            '\\"{n}\\": \\"{s}\\"',
            "x; {n}={s}; y",
            "{{{n}: {s}}}",
        ]
    ),
    WORDS,
)
def test_a_secret_is_recognized_by_the_name_before_it_in_text(name: str, secret: str, form: str, before: str):
    text = f"{before}\n{form.format(n=name, s=secret)}"
    assert secret not in redact_text(text)
    assert not survives(secret, {"params": {"content": text}})


@settings(deadline=None)
@given(
    LETTERS,
    st.sampled_from(["FOO", "MY_SETTING", "OPENAI_API_KEY", "x"]),
    st.sampled_from(["env", "headers"]),
)
def test_values_of_env_and_headers_are_redacted_unless_their_name_is_harmless(
    secret: str, name: str, kind: str
):
    for secret_value in (
        [{"name": name, "value": secret}],
        {name: secret},
        [f"{name}={secret}"],
        secret,
        [{"name": name, "value": secret, "x": secret}],
    ):
        assert not survives(
            secret, {"params": {"mcpServers": [{"name": "s", "command": "c", kind: secret_value}]}}
        )
    document = {
        "env": [{"name": "PATH", "value": "/bin"}, {"name": "LC_ALL", "value": "C"}],
        "headers": [{"name": "Content-Type", "value": "text/plain"}],
    }
    assert redact_value(document) is document


@settings(deadline=None)
@given(
    LETTERS,
    st.sampled_from(["--token", "--api-key", "--password", "-token", "--auth-token", "--client-secret"]),
)
def test_secrets_in_command_line_options_are_redacted(secret: str, option: str):
    assert secret not in str(redact_command(["agent", option, secret, "--verbose"]))
    assert secret not in str(redact_command(["agent", f"{option}={secret}"]))
    assert secret not in redact_text(f"agent {option} {secret} --verbose")
    assert secret not in redact_text(f"curl -u me:{secret} https://example.com")
    assert not survives(secret, {"params": {"command": "c", "args": [option, secret]}})


@settings(deadline=None)
@given(shaped(), st.integers(0, 300))
def test_a_secret_in_an_oversized_frame_is_redacted(credential: str, cut: int):
    head = (b'{"jsonrpc":"2.0","params":{"text":"' + json.dumps(credential)[1:-1].encode())[: 40 + cut]
    recording = entry_line(frame_entry(0.0, "agent", OversizedFrame(1 << 30, head, b"")))
    found = secret_of(credential).encode()
    assert found[:16] not in recording


@settings(deadline=None)
@given(st.data(), shaped())
def test_a_secret_in_a_long_text_is_redacted(data: st.DataObject, credential: str):
    filler = data.draw(st.sampled_from(["word ", "a=b; ", "line\n", "key: 1\n"]))
    text = filler * data.draw(st.integers(1000, 4000)) + credential + "\n" + filler * 2000
    assert secret_of(credential) not in redact_text(text)
    assert redact_text(text).startswith(filler * 1000)


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog.",
        "session/update agent_message_chunk tool_call_update end_turn",
        "a key: value store, the tokens: 5, total_tokens=100, max_tokens: 4096",
        "see https://example.com/path?page=2&sort=name#top and file:///home/me/x.py:12",
        "def main(arguments: list[str]) -> int: return len(arguments)",
        "sk-short, ghp_, AKIA, eyJ, a-b-c-d-e-f-g",
        "git commit -m 'message' --author someone",
        "class Token: pass",
        "keyboard: qwerty, monkey=banana, author: Jane",
        "3a0ef682-30d2-49d4-b638-1026135571fb call-c51ee9e6fc86-2",
        "é👋\x00\x1b[31m",
        "",
    ],
)
def test_ordinary_text_is_unchanged(text: str):
    assert redact_text(text) is text or redact_text(text) == text


@pytest.mark.parametrize(
    "document",
    [
        {"usage": {"totalTokens": 5, "inputTokens": 3, "tokensUsed": 9, "max_tokens": 4096}},
        {"agentCapabilities": {"auth": {"logout": {}}, "loadSession": True}},
        {"authMethods": [{"id": "api-key", "name": "API key", "description": "Set OPENAI_API_KEY"}]},
        {"methodId": "openai-api-key"},
        {"update": {"sessionUpdate": "usage_update", "used": 5, "size": 100}},
        {"progressToken": "abc", "nextPageToken": "x", "cacheKey": "y", "publicKey": "z", "sessionId": "s"},
        {"_meta": {"terminal-auth": {"command": "agent", "args": ["/login"]}}},
        {"name": "key", "value": "Enter"},
        {"token": "", "password": None, "secret": True, "apiKey": []},
    ],
)
def test_ordinary_messages_are_unchanged(document: Any):
    frame = json.dumps(document).encode()
    assert redact_frame(frame) is frame


@settings(deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=20,
    )
)
def test_redaction_is_idempotent(document: Any):
    once = redact_value(document)
    assert redact_value(once) == once


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_become_one_line(data: bytes):
    line = data.replace(b"\n", b"") or b"x"
    redact_frame(line)
    assert entry_line(frame_entry(0.0, "agent", line)).count(b"\n") == 1


@pytest.mark.parametrize("depth", [100, 300, 480, 900, 5000])
def test_a_secret_in_deep_nesting_is_redacted(depth: int):
    frame = b'{"a":' * depth + b'{"apiKey":"hunter22hunter22"}' + b"}" * depth
    line = entry_line(frame_entry(0.0, "agent", frame))
    assert b"hunter22" not in line


def test_a_secret_is_replaced_by_a_marker():
    assert redact_value({"apiKey": "hunter22", "n": [1]}) == {"apiKey": REDACTED, "n": [1]}


@pytest.mark.parametrize("name", NAMES)
def test_secret_names_are_recognized(name: str):
    assert is_secret(name)


def test_a_recording_contains_none_of_the_planted_secrets(tmp_path: Any):
    """Feeds the file sink byte by byte and searches the whole file."""
    secret = "Zx81hunter2hunter2hunter2Q"
    frames = [
        {"method": "authenticate", "params": {"methodId": "k", "_meta": {"api-key": secret}}},
        {
            "method": "session/new",
            "params": {
                "mcpServers": [
                    {
                        "type": "http",
                        "url": f"https://u:{secret}@h/",
                        "headers": [{"name": "X", "value": secret}],
                    }
                ]
            },
        },
        {
            "method": "terminal/create",
            "params": {
                "command": "deploy",
                "args": ["--token", secret],
                "env": [{"name": "E", "value": secret}],
            },
        },
        {"method": "providers/set", "params": {"id": "p", "headers": {"authorization": f"Bearer {secret}"}}},
        {"id": 1, "result": {"content": f"# .env\nexport DB_PASSWORD={secret}\nAPI_TOKEN: '{secret}'\n"}},
        {"method": "session/set_config_option", "params": {"configId": "api_key", "value": secret}},
        {
            "method": "session/update",
            "params": {
                "update": {
                    "rawInput": {"headers": {"Cookie": f"a={secret}"}},
                    "rawOutput": f"Cookie: s={secret}; t={secret}",
                }
            },
        },
    ]
    sink = FileSink(tmp_path / "t", command=["agent", f"--api-key={secret}"])
    for frame in frames:
        for byte in json.dumps(frame).encode() + b"\n":
            sink.add_bytes("client", bytes([byte]))
    for piece in (
        b"starting with OPENAI_",
        b"API_KEY=" + secret.encode()[:9],
        secret.encode()[9:] + b"\nrest",
    ):
        sink.add_bytes("stderr", piece)
    sink.end_stream("stderr")
    sink.close()
    recording = (tmp_path / "t").read_text()
    assert secret not in recording
    assert recording.count('"frame":') == len(frames)
