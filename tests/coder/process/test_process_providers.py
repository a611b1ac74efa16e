"""The real process with the provider code for OpenAI, Anthropic and Google, against a scripted server.

One agent has a key for each provider. Each test has its own session.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from tests.coder.process.editor import Chat, Editor, started
from tests.coder.process.long_command import LongCommand, watch_command

from accord.testing.model_script import (
    DroppedConnection,
    ModelAnswer,
    ModelFault,
    ModelToolCall,
    Refusal,
    ScriptedUsage,
    StreamPause,
    Thought,
)
from accord.testing.model_server import ModelServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODELS = {
    "openai-chat": "openai-chat:gpt-5",
    "openai-responses": "openai-responses:gpt-5",
    "anthropic": "anthropic:claude-sonnet-5-5",
    "google": "google:gemini-2.5-pro",
}
KEYS = {
    "OPENAI_API_KEY": "sk-openai-0123456789-secret",
    "ANTHROPIC_API_KEY": "sk-ant-0123456789-secret",
    "GOOGLE_API_KEY": "AIza-0123456789-secret",
}
CONFIG = "[requests]\nattempts = 2\n" + "".join(
    f'[models."{name}"]\ncontext = 100000\ninput = 1.0\noutput = 10.0\n' for name in MODELS.values()
)


class Shared(NamedTuple):
    """The state shared by all tests."""

    home: Path
    log: Path
    server: ModelServer
    editor: Editor


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Shared]:
    folder = tmp_path_factory.mktemp("agent")
    home, log = folder / "home", folder / "wire.log"
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text(CONFIG)
    async with ModelServer() as server:
        addresses = {
            "OPENAI_BASE_URL": server.base_url("openai"),
            "ANTHROPIC_BASE_URL": server.base_url("anthropic"),
            "GOOGLE_BASE_URL": server.base_url("google"),
        }
        words = ("--model", MODELS["anthropic"], "--log", str(log))
        async with started(home, folder, *words, variables={**KEYS, **addresses}) as editor:
            yield Shared(home, log, server, editor)
            server.add(ModelAnswer("the canary sings"))
            await (await editor.new()).turn("sing")
    written_bytes = log.read_bytes() + b"".join(
        path.read_bytes() for path in home.rglob("*") if path.is_file()
    )
    written_bytes += b"\n".join(
        [*editor.wire.lines, editor.wire.end.stderr.encode() if editor.wire.end else b""]
    )
    assert written_bytes.count(b"canary") >= 3, (
        "the text must be in the recording, in the store and on the wire"
    )
    for key in KEYS.values():
        assert key.encode() not in written_bytes, "a key is on the wire, in a log or in the store"


class ProviderSession:
    """A session with the model of one provider."""

    def __init__(self, shared: Shared, chat: Chat, kind: str) -> None:
        self.server = shared.server
        self.chat = chat
        self.kind = kind
        self._before = len(shared.server.requests)

    def script(self, *replies: Any) -> None:
        """Set the next replies of the provider."""
        self.server.add(*replies)

    @property
    def requests(self) -> list[Any]:
        """Bodies of the requests since the session started."""
        return [seen.body for seen in self.server.requests[self._before :]]

    @property
    def request_count(self) -> int:
        return len(self.server.requests)


@pytest_asyncio.fixture(loop_scope="module", params=MODELS)
async def provider(
    request: pytest.FixtureRequest, shared: Shared, project: Path
) -> AsyncGenerator[ProviderSession]:
    shared.editor.choose = "allow_once"
    chat = await shared.editor.new(project)
    model = MODELS[request.param]
    result = await chat.do("session/set_config_option", configId="model", value=model)
    assert {option["id"]: option for option in result["configOptions"]}["model"]["currentValue"] == model
    yield ProviderSession(shared, chat, request.param)
    assert shared.server.unexpected == []
    await chat.do("session/close")


async def test_text_turn_reports_text_usage_and_cost(provider: ProviderSession) -> None:
    provider.script(ModelAnswer("Hel", "lo ", "wörld", usage=ScriptedUsage(input=1000, output=100)))
    record = await provider.chat.turn("Say hello")
    assert (record.text, record.stop) == ("Hello wörld", "end_turn")
    usage = record.result["usage"]
    assert (usage["inputTokens"], usage["outputTokens"], usage["totalTokens"]) == (1000, 100, 1100)
    [window] = record.of("usage_update")
    assert (window["used"], window["size"]) == (1100, 100000)
    assert window["cost"] == {"amount": 0.002, "currency": "USD"}
    assert "Say hello" in json.dumps(provider.requests[0])


async def test_tool_results_are_sent_back_and_the_turn_continues(provider: ProviderSession) -> None:
    provider.script(
        ModelAnswer(
            "Let me look.",
            ModelToolCall("read_file", {"path": "a.py"}),
            ModelToolCall("list_files", {"path": "src"}),
            usage=ScriptedUsage(100, 10),
        ),
        ModelAnswer(
            ModelToolCall("write_file", {"path": "new.txt", "content": "made"}), usage=ScriptedUsage(200, 20)
        ),
        ModelAnswer("All done.", usage=ScriptedUsage(300, 30)),
    )
    record = await provider.chat.turn("Look, then write")
    assert [call["title"] for call in record.calls] == ["Read a.py", "List src", "Write new.txt"]
    assert {call["status"] for call in record.calls} == {"completed"}
    assert (provider.chat.folder / "new.txt").read_text() == "made"
    assert record.text == "Let me look.All done."
    second, third = (json.dumps(body) for body in provider.requests[1:])
    assert "alpha = 1" in second
    assert "b.py" in second
    assert "new.txt" in third
    assert record.result["usage"]["totalTokens"] == 660
    assert record.of("usage_update")[-1]["used"] == 330


async def test_thoughts_are_shown_and_sent_back(provider: ProviderSession) -> None:
    provider.script(ModelAnswer(Thought("Hmm, "), "Four."), ModelAnswer("Yes."))
    record = await provider.chat.turn("2+2?")
    assert (record.thoughts, record.text) == ("Hmm, ", "Four.")
    await provider.chat.turn("Sure?")
    assert "Hmm, " in json.dumps(provider.requests[1]), "the thoughts must be in the next request"


async def test_rate_limit_is_retried_with_a_visible_message(provider: ProviderSession) -> None:
    provider.script(ModelFault(429, "slow down", retry_after=0), ModelAnswer("Here I am."))
    record = await provider.chat.turn("Hello?")
    assert record.stop == "end_turn"
    assert "Trying again" in record.text
    assert record.text.endswith("Here I am.")
    ids = list(dict.fromkeys(update["messageId"] for update in record.of("agent_message_chunk")))
    assert len(ids) == 2, "the retry message must have its own message id"
    provider.script(ModelAnswer("Again."))
    await provider.chat.turn("And?")
    assert "Trying again" not in json.dumps(provider.requests[-1]), (
        "the retry message must stay out of the history"
    )


async def test_final_failure_ends_the_turn_and_not_the_session(provider: ProviderSession) -> None:
    provider.script(
        ModelAnswer("The first."),
        ModelFault(500, "kaputt", retry_after=0),
        ModelFault(500, "kaputt", retry_after=0),
    )
    await provider.chat.turn("number one")
    failed = await provider.chat.turn("number two")
    assert failed.error["code"] == -32603
    assert "tried 2 times" in failed.error["message"]
    assert failed.error["data"]["reason"] == "model_error"
    provider.script(ModelAnswer("Back again."))
    record = await provider.chat.turn("number three")
    assert (record.text, record.stop) == ("Back again.", "end_turn")
    sent = json.dumps(provider.requests[-1])
    assert sent.index("number one") < sent.index("The first.") < sent.index("number three")


async def test_refused_key_is_reported_without_the_key(provider: ProviderSession) -> None:
    provider.script(ModelFault(401, "bad key", kind="auth"))
    failed = await provider.chat.turn("hello")
    assert failed.error["code"] == -32000
    assert not any(key in json.dumps(failed.answer) for key in KEYS.values())
    provider.script(ModelAnswer("Now it works."))
    assert (await provider.chat.turn("hello")).text == "Now it works."


async def test_broken_stream_keeps_the_text_received_before(provider: ProviderSession) -> None:
    provider.script(*[ModelAnswer("I was about to", DroppedConnection())] * 2)
    failed = await provider.chat.turn("Tell me")
    assert failed.text.startswith("I was about to")
    assert failed.error["code"] == -32603
    provider.script(ModelAnswer("say this."))
    assert (await provider.chat.turn("Go on")).stop == "end_turn"
    assert "I was about to" in json.dumps(provider.requests[-1])


async def test_stream_broken_before_any_text_is_retried(provider: ProviderSession) -> None:
    provider.script(ModelAnswer(DroppedConnection()), ModelAnswer("Second try."))
    record = await provider.chat.turn("Tell me")
    assert record.stop == "end_turn"
    assert record.text.endswith("Second try.")


async def test_refused_prompt_leaves_the_history(provider: ProviderSession) -> None:
    provider.script(ModelAnswer("Hello."), ModelAnswer(Refusal("I will not.")))
    await provider.chat.turn("harmless")
    record = await provider.chat.turn("something terrible")
    assert record.stop == "refusal"
    provider.script(ModelAnswer("Gladly."))
    assert (await provider.chat.turn("something nice")).stop == "end_turn"
    sent = json.dumps(provider.requests[-1])
    assert "harmless" in sent
    assert "something nice" in sent
    assert "terrible" not in sent


async def test_token_limit_is_the_stop_reason(provider: ProviderSession) -> None:
    provider.script(ModelAnswer("And so on and", stop="max_tokens"))
    record = await provider.chat.turn("Count")
    assert (record.stop, record.text) == ("max_tokens", "And so on and")


async def test_cancel_closes_a_stalled_stream(provider: ProviderSession) -> None:
    pause = StreamPause()
    provider.script(ModelAnswer("Wait for", pause, " it"))
    before = provider.request_count
    turn = provider.chat.prompt("A long story")
    await pause.reached()
    await provider.chat.update("agent_message_chunk")
    provider.chat.cancel()
    record = await provider.chat.finish(turn)
    assert record.stop == "cancelled"
    assert await provider.server.requests[before].ended() == "abandoned"
    provider.script(ModelAnswer("Yes?"))
    assert (await provider.chat.turn("Another one")).stop == "end_turn"
    sent = json.dumps(provider.requests[-1])
    assert "Wait for" in sent
    assert "cancelled" in sent


async def test_malformed_arguments_return_an_error_to_the_model(provider: ProviderSession) -> None:
    malformed: Any = (
        {"file": 7} if provider.kind == "google" else '{"path": '
    )  # Google's calls are always JSON
    provider.script(ModelAnswer(ModelToolCall("read_file", malformed)), ModelAnswer("I see."))
    record = await provider.chat.turn("Read it")
    assert (record.stop, record.call["status"]) == ("end_turn", "failed")
    assert provider.requests[1] != provider.requests[0]


async def test_denied_call_is_reported_to_the_model_and_turn_continues(provider: ProviderSession) -> None:
    provider.chat.editor.choose = "reject_once"
    provider.script(
        ModelAnswer(ModelToolCall("write_file", {"path": "new.txt", "content": "x"})), ModelAnswer("A pity.")
    )
    record = await provider.chat.turn("Write")
    assert (record.stop, record.text) == ("end_turn", "A pity.")
    assert "Permission denied." in json.dumps(provider.requests[1])


async def test_commands_do_not_see_the_keys(provider: ProviderSession) -> None:
    provider.script(
        ModelAnswer(ModelToolCall("bash", {"command": "env; cat /proc/$PPID/environ || true"})),
        ModelAnswer("Well."),
    )
    record = await provider.chat.turn("Look around")
    output = record.call["rawOutput"]["output"]
    assert "PATH=" in output
    assert not any(key in output for key in KEYS.values())


SYSTEM = {
    "openai-chat": lambda body: body["messages"][0],
    "openai-responses": lambda body: body["instructions"],
    "anthropic": lambda body: body["system"],
    "google": lambda body: body["systemInstruction"],
}


@pytest.mark.rule("system-prompt.precedence", "system-prompt.override-keeps-permissions")
async def test_client_system_prompt_is_sent_as_system_prompt(
    shared: Shared, provider: ProviderSession
) -> None:
    provider.script(ModelAnswer("Plain."))
    await provider.chat.turn("hello")
    plain = provider.requests[0]
    for mode in ("append", "override"):
        words = {"mode": mode, "content": [{"type": "text", "text": "Answer in Latin only."}]}
        chat = await shared.editor.new(provider.chat.folder, systemPrompt=words)
        await chat.do("session/set_config_option", configId="model", value=MODELS[provider.kind])
        provider.script(ModelAnswer("Salve."))
        await chat.turn("hello")
        body = provider.requests[-1]
        system = json.dumps(SYSTEM[provider.kind](body))
        assert "Answer in Latin only." in system
        assert json.dumps(body).count("Answer in Latin only.") == 1
        assert body["tools"] == plain["tools"]
        await chat.do("session/close")


async def test_history_survives_a_model_change(provider: ProviderSession) -> None:
    other = next(name for kind, name in MODELS.items() if kind != provider.kind)
    provider.script(ModelAnswer(Thought("Hm."), "The word is swordfish."), ModelAnswer("Swordfish."))
    await provider.chat.turn("What is the word?")
    answer = await provider.chat.do("_agentao.cn/set_model", model=other)
    assert answer == {"model": other.partition(":")[2]}
    assert (await provider.chat.turn("Again?")).text == "Swordfish."
    assert "The word is swordfish." in json.dumps(provider.requests[-1])


async def test_sessions_do_not_wait_for_each_other(shared: Shared, provider: ProviderSession) -> None:
    pause = StreamPause()
    provider.script(ModelAnswer("slow", pause, " but sure"))
    turn = provider.chat.prompt("first")
    await pause.reached()
    other = await shared.editor.new(provider.chat.folder)
    provider.script(ModelAnswer("quick"))
    assert (await other.turn("second")).text == "quick"
    pause.release()
    assert (await provider.chat.finish(turn)).text == "slow but sure"


async def test_load_restores_the_history_for_the_model(shared: Shared, provider: ProviderSession) -> None:
    provider.script(ModelAnswer(ModelToolCall("read_file", {"path": "a.py"})), ModelAnswer("It says alpha."))
    await provider.chat.turn("What does it say?")
    await provider.chat.do("session/close")
    chat, replayed = await shared.editor.open("session/load", provider.chat.id, provider.chat.folder)
    assert [update["sessionUpdate"] for update in replayed][:2] == ["user_message_chunk", "tool_call"]
    provider.script(ModelAnswer("As I said."))
    await chat.turn("Again?")
    before, after = (json.dumps(body) for body in provider.requests[-2:])
    assert "alpha = 1" in before
    assert "alpha = 1" in after
    assert "It says alpha." in after


async def test_background_command_outlives_its_turn_and_ends_with_its_session(
    shared: Shared, project: Path
) -> None:
    shared.editor.choose = "allow_once"
    chat = await shared.editor.new(project)
    command = LongCommand.COMMAND.removeprefix("run ")
    shared.server.add(
        ModelAnswer(ModelToolCall("bash", {"command": command, "background": True})), ModelAnswer("It runs.")
    )
    async with watch_command(project) as line:
        assert (await chat.turn("Start it")).text == "It runs."
        await line.started()
        shared.server.add(ModelAnswer("Still there."))
        assert (await chat.turn("And?")).stop == "end_turn"
        await chat.do("session/close")
        await line.ended()


async def test_parallel_turns_with_all_providers(shared: Shared, project: Path) -> None:
    chats = [await shared.editor.new(project) for _ in range(8)]
    for number, chat in enumerate(chats):
        name = list(MODELS.values())[number % len(MODELS)]
        await chat.do("session/set_config_option", configId="model", value=name)

    def echo(seen: Any) -> ModelAnswer:
        text = json.dumps(seen.body)
        return ModelAnswer(*(f"turn {number} " for number in range(8) if f"number-{number}" in text))

    shared.server.add(*[echo] * 8)
    records = await asyncio.gather(*(chat.turn(f"number-{number}") for number, chat in enumerate(chats)))
    assert [one.text for one in records] == [f"turn {number} " for number in range(8)]
