"""Keys reach only their provider: never errors, logs, representations or the history."""

import json
import logging
import traceback
from pathlib import Path
from typing import Any

import pytest
from tests.coder.models.harness import KEY, KINDS, ask_with_retries, remote_model, request

from accord.coder.model_history import user_message
from accord.coder.models import ModelRegistry
from accord.coder.models.credentials import Secret, read_keys, save_key
from accord.coder.models.model_name import ModelName
from accord.coder.user_config import (
    ConfigError,
    EndpointConfig,
    Kind,
    ModelsConfig,
    RequestConfig,
    models_config,
)
from accord.schema.codec import encode
from accord.testing import FakeClock
from accord.testing.model_script import (
    DroppedConnection,
    ModelAnswer,
    ModelFault,
    ModelToolCall,
    RawBytes,
    Thought,
)
from accord.testing.model_server import ModelServer


def full_text_of(error: BaseException | None) -> str:
    if error is None:
        return ""
    assert error.__cause__ is None
    assert error.__context__ is None
    return "".join([repr(error), str(error), repr(vars(error)), *traceback.format_exception(error)])


@pytest.mark.parametrize("kind", KINDS)
async def test_key_never_appears_in_events_errors_or_logs(
    kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = f"the key {KEY} in {{'Authorization': 'Bearer {KEY}'}} is wrong"
    scripts: list[list[Any]] = [
        [ModelAnswer(Thought("hm"), "fine", ModelToolCall("read_file", {"path": "a"}))],
        [ModelFault(401, echo, "auth" if kind == "google" else "")],
        [ModelFault(400, echo)],
        [ModelFault(500, echo), ModelFault(500, body=echo.encode())],
        [ModelAnswer("half", DroppedConnection())] * 2,
        [ModelAnswer("half", ModelFault(500, echo), DroppedConnection())] * 2,
        [ModelAnswer("half", RawBytes(f"data: {{{echo}\n\n".encode()), DroppedConnection())] * 2,
        [ModelAnswer(RawBytes(echo.encode() + b"\n\n"), DroppedConnection()), ModelAnswer("ok")],
    ]
    seen: list[str] = []
    for script in scripts:
        clock = FakeClock()
        async with (
            ModelServer(script) as server,
            remote_model(server, kind, clock=clock, requests=RequestConfig(attempts=2)) as model,
        ):
            events, failure = await ask_with_retries(model, clock, request(user_message("hi")))
            assert all(KEY in json.dumps(request.headers) for request in server.requests)
        seen += [repr(events), full_text_of(failure), repr(model), repr(vars(model))]
    assert KEY not in "".join(seen)
    assert KEY not in caplog.text
    assert KEY not in "".join(
        repr(vars(record)) for record in caplog.records if record.name.startswith("accord")
    )


async def test_failed_model_list_does_not_show_the_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with ModelServer(listing=ModelFault(401, f"wrong key {KEY}")) as server:
        for provider in ("openai", "anthropic", "google"):
            models = ModelRegistry(
                ModelsConfig(), environment=server.environment(provider, KEY), keys=Path("/nowhere")
            )
            assert await models.list_models(provider) == []
            await models.aclose()
        assert len(server.listings) == 3
        assert all(KEY in json.dumps(dict(head.headers)) for head in server.listings)
    assert KEY not in caplog.text


def test_objects_with_keys_do_not_show_them(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    save_key("openai", KEY, file)
    models = ModelRegistry(ModelsConfig(), environment={"ANTHROPIC_API_KEY": KEY}, keys=file)
    shown = [
        repr(Secret(KEY)),
        str(Secret(KEY)),
        f"{Secret(KEY)}",
        repr(read_keys(file)),
        repr(models.choose()),
        repr(models.endpoints.get("openai")),
        repr(models.endpoints.get("anthropic")),
    ]
    assert KEY not in "".join(shown)


@pytest.mark.parametrize(
    ("key", "shown"), [("k", "unknown key"), ("know", "un***n key"), ("", "unknown key")]
)
def test_a_key_that_is_only_a_placeholder_masks_no_letters(key: str, shown: str) -> None:
    assert Secret(key).redact("unknown key") == shown
    assert Secret(KEY).reveal() == KEY


@pytest.mark.parametrize("address", [f"http://me:{KEY}@127.0.0.1:1/v1", f"http://127.0.0.1:1/v1?token={KEY}"])
def test_secrets_in_an_address_are_refused_and_not_shown(address: str) -> None:
    with pytest.raises(ConfigError, match="an address must not have a name, password or query") as caught:
        models_config({"endpoints": {"mine": {"base_url": address}}}, "config.toml")
    models = ModelRegistry(ModelsConfig(), environment={"OPENAI_BASE_URL": address}, keys=Path("/nowhere"))
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL") as also:
        models.endpoints.get("openai")
    assert KEY not in f"{caught.value}{also.value}"


@pytest.mark.parametrize("kind", KINDS)
async def test_stored_history_has_no_key_and_no_address(kind: Kind) -> None:
    async with (
        ModelServer([ModelAnswer(Thought("hm"), "fine")]) as server,
        remote_model(server, kind) as model,
    ):
        events = [event async for event in model.stream(request())]
        stored = encode(events[-1].message).decode()  # type: ignore[union-attr]
    assert KEY not in stored
    assert "127.0.0.1" not in stored


async def test_provider_environment_is_not_sent_to_other_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", f"org-{KEY}")
    monkeypatch.setenv("OPENAI_PROJECT_ID", f"proj-{KEY}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    async with ModelServer([ModelAnswer("ok")] * 4, models=["m"]) as server:
        config = ModelsConfig(
            endpoints={
                "chat": EndpointConfig(base_url=server.base_url("openai")),
                "responses": EndpointConfig(kind="openai-responses", base_url=server.base_url("openai")),
                "claude": EndpointConfig(kind="anthropic", base_url=server.base_url("anthropic")),
                "gem": EndpointConfig(kind="google", base_url=server.base_url("google")),
            }
        )
        models = ModelRegistry(config, keys=Path("/nowhere"))
        for provider in config.endpoints:
            model = await models.resolve(ModelName(provider, "m"))
            assert [event async for event in model.stream(request())]
            assert [model.name for model in await models.list_models(provider)] == ["m"]
        await models.aclose()
    heads = [seen.headers for seen in server.requests] + [head.headers for head in server.listings]
    assert len(heads) == 8
    assert KEY not in json.dumps([dict(head) for head in heads])
