"""The real process with real provider code: OpenAI's two APIs, Anthropic's and Google's, against a server that is scripted here.

One agent with a key for each talks to all of them; each test has a session of its own.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from tests.coder.process.editor import Chat, Editor, started
from tests.coder.process.lifeline import Lifeline, lifeline

from accord.testing.models import Answer, Call, Drop, Fault, Gate, ModelServer, Refusal, Thought, Tokens

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


class Scene(NamedTuple):
    """Everything that is shared."""

    home: Path
    log: Path
    server: ModelServer
    editor: Editor


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Scene]:
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
            yield Scene(home, log, server, editor)
            server.add(Answer("the canary sings"))
            await (await editor.new()).turn("sing")
    said = log.read_bytes() + b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    said += b"\n".join([*editor.wire.lines, editor.wire.end.stderr.encode() if editor.wire.end else b""])
    assert said.count(b"canary") >= 3, (
        "what was said is in the recording, in the store and on the wire as it was said"
    )
    for key in KEYS.values():
        assert key.encode() not in said, "a key is on the wire, in a log or in the store"


class Talk:
    """A session with one provider's model."""

    def __init__(self, scene: Scene, chat: Chat, kind: str) -> None:
        self.server = scene.server
        self.chat = chat
        self.kind = kind
        self._before = len(scene.server.requests)

    def will(self, *replies: Any) -> None:
        """What the provider answers next."""
        self.server.add(*replies)

    @property
    def requests(self) -> list[Any]:
        """What it was asked since the session began."""
        return [seen.body for seen in self.server.requests[self._before :]]

    @property
    def seen(self) -> int:
        return len(self.server.requests)


@pytest_asyncio.fixture(loop_scope="module", params=MODELS)
async def talk(request: pytest.FixtureRequest, scene: Scene, project: Path) -> AsyncGenerator[Talk]:
    scene.editor.choose = "allow_once"
    chat = await scene.editor.new(project)
    model = MODELS[request.param]
    told = await chat.do("session/set_config_option", configId="model", value=model)
    assert {option["id"]: option for option in told["configOptions"]}["model"]["currentValue"] == model
    yield Talk(scene, chat, request.param)
    assert scene.server.unexpected == []
    await chat.do("session/close")


async def test_a_turn_of_text(talk: Talk) -> None:
    talk.will(Answer("Hel", "lo ", "wörld", usage=Tokens(input=1000, output=100)))
    told = await talk.chat.turn("Say hello")
    assert (told.text, told.stop) == ("Hello wörld", "end_turn")
    usage = told.result["usage"]
    assert (usage["inputTokens"], usage["outputTokens"], usage["totalTokens"]) == (1000, 100, 1100)
    [window] = told.of("usage_update")
    assert (window["used"], window["size"]) == (1100, 100000)
    assert window["cost"] == {"amount": 0.002, "currency": "USD"}
    assert "Say hello" in json.dumps(talk.requests[0])


async def test_the_result_of_a_tool_goes_back_and_the_answer_goes_on(talk: Talk) -> None:
    talk.will(
        Answer(
            "Let me look.",
            Call("read_file", {"path": "a.py"}),
            Call("list_files", {"path": "src"}),
            usage=Tokens(100, 10),
        ),
        Answer(Call("write_file", {"path": "new.txt", "content": "made"}), usage=Tokens(200, 20)),
        Answer("All done.", usage=Tokens(300, 30)),
    )
    told = await talk.chat.turn("Look, then write")
    assert [call["title"] for call in told.calls] == ["Read a.py", "List src", "Write new.txt"]
    assert {call["status"] for call in told.calls} == {"completed"}
    assert (talk.chat.folder / "new.txt").read_text() == "made"
    assert told.text == "Let me look.All done."
    second, third = (json.dumps(body) for body in talk.requests[1:])
    assert "alpha = 1" in second
    assert "b.py" in second
    assert "new.txt" in third
    assert told.result["usage"]["totalTokens"] == 660
    assert told.of("usage_update")[-1]["used"] == 330


async def test_thoughts_are_shown_as_thoughts(talk: Talk) -> None:
    talk.will(Answer(Thought("Hmm, "), "Four."), Answer("Yes."))
    told = await talk.chat.turn("2+2?")
    assert (told.thoughts, told.text) == ("Hmm, ", "Four.")
    await talk.chat.turn("Sure?")
    assert "Hmm, " in json.dumps(talk.requests[1]), "they are the model's own words"


async def test_a_provider_that_asks_to_wait_is_asked_again_visibly(talk: Talk) -> None:
    talk.will(Fault(429, "slow down", retry_after=0), Answer("Here I am."))
    told = await talk.chat.turn("Hello?")
    assert told.stop == "end_turn"
    assert "Trying again" in told.text
    assert told.text.endswith("Here I am.")
    ids = list(dict.fromkeys(update["messageId"] for update in told.of("agent_message_chunk")))
    assert len(ids) == 2, "what the agent says of itself is no part of the answer"
    talk.will(Answer("Again."))
    await talk.chat.turn("And?")
    assert "Trying again" not in json.dumps(talk.requests[-1]), "the model did not say that"


async def test_a_final_failure_ends_the_turn_and_not_the_session(talk: Talk) -> None:
    talk.will(Answer("The first."), Fault(500, "kaputt", retry_after=0), Fault(500, "kaputt", retry_after=0))
    await talk.chat.turn("number one")
    failed = await talk.chat.turn("number two")
    assert failed.error["code"] == -32603
    assert "tried 2 times" in failed.error["message"]
    assert failed.error["data"]["reason"] == "model_error"
    talk.will(Answer("Back again."))
    told = await talk.chat.turn("number three")
    assert (told.text, told.stop) == ("Back again.", "end_turn")
    sent = json.dumps(talk.requests[-1])
    assert sent.index("number one") < sent.index("The first.") < sent.index("number three")


async def test_a_key_that_is_refused_is_said_so_without_the_key(talk: Talk) -> None:
    talk.will(Fault(401, "bad key", kind="auth"))
    failed = await talk.chat.turn("hello")
    assert failed.error["code"] == -32000
    assert not any(key in json.dumps(failed.answer) for key in KEYS.values())
    talk.will(Answer("Now it works."))
    assert (await talk.chat.turn("hello")).text == "Now it works."


async def test_a_stream_that_breaks_off_keeps_what_had_come(talk: Talk) -> None:
    talk.will(Answer("I was about to", Drop()))
    failed = await talk.chat.turn("Tell me")
    assert failed.text == "I was about to"
    assert failed.error["code"] == -32603
    talk.will(Answer("say this."))
    assert (await talk.chat.turn("Go on")).stop == "end_turn"
    assert "I was about to" in json.dumps(talk.requests[-1])


async def test_a_stream_that_breaks_before_anything_came_is_asked_for_again(talk: Talk) -> None:
    talk.will(Answer(Drop()), Answer("Second try."))
    told = await talk.chat.turn("Tell me")
    assert told.stop == "end_turn"
    assert told.text.endswith("Second try.")


async def test_a_refused_prompt_leaves_the_context(talk: Talk) -> None:
    talk.will(Answer("Hello."), Answer(Refusal("I will not.")))
    await talk.chat.turn("harmless")
    told = await talk.chat.turn("something terrible")
    assert told.stop == "refusal"
    talk.will(Answer("Gladly."))
    assert (await talk.chat.turn("something nice")).stop == "end_turn"
    sent = json.dumps(talk.requests[-1])
    assert "harmless" in sent
    assert "something nice" in sent
    assert "terrible" not in sent


async def test_an_answer_at_the_limit_of_tokens_says_so(talk: Talk) -> None:
    talk.will(Answer("And so on and", stop="max_tokens"))
    told = await talk.chat.turn("Count")
    assert (told.stop, told.text) == ("max_tokens", "And so on and")


async def test_a_stalled_stream_is_closed_by_a_cancel(talk: Talk) -> None:
    gate = Gate()
    talk.will(Answer("Wait for", gate, " it"))
    before = talk.seen
    turn = talk.chat.prompt("A long story")
    await gate.reached()
    await talk.chat.update("agent_message_chunk")
    talk.chat.cancel()
    told = await talk.chat.told(turn)
    assert told.stop == "cancelled"
    assert await talk.server.requests[before].ended() == "abandoned"
    talk.will(Answer("Yes?"))
    assert (await talk.chat.turn("Another one")).stop == "end_turn"
    sent = json.dumps(talk.requests[-1])
    assert "Wait for" in sent
    assert "cancelled" in sent


async def test_malformed_arguments_come_back_to_the_model_as_an_error(talk: Talk) -> None:
    malformed: Any = {"file": 7} if talk.kind == "google" else '{"path": '  # Google's calls are always JSON
    talk.will(Answer(Call("read_file", malformed)), Answer("I see."))
    told = await talk.chat.turn("Read it")
    assert (told.stop, told.call["status"]) == ("end_turn", "failed")
    assert talk.requests[1] != talk.requests[0]


async def test_a_denied_call_is_told_to_the_model_and_the_turn_goes_on(talk: Talk) -> None:
    talk.chat.editor.choose = "reject_once"
    talk.will(Answer(Call("write_file", {"path": "new.txt", "content": "x"})), Answer("A pity."))
    told = await talk.chat.turn("Write")
    assert (told.stop, told.text) == ("end_turn", "A pity.")
    assert "Permission denied." in json.dumps(talk.requests[1])


async def test_commands_do_not_see_the_keys(talk: Talk) -> None:
    talk.will(Answer(Call("bash", {"command": "env; cat /proc/$PPID/environ || true"})), Answer("Well."))
    told = await talk.chat.turn("Look around")
    output = told.call["rawOutput"]["output"]
    assert "PATH=" in output
    assert not any(key in output for key in KEYS.values())


SYSTEM = {
    "openai-chat": lambda body: body["messages"][0],
    "openai-responses": lambda body: body["instructions"],
    "anthropic": lambda body: body["system"],
    "google": lambda body: body["systemInstruction"],
}


@pytest.mark.rule(354, 355)
async def test_what_the_client_tells_the_model_has_the_rank_of_a_system_prompt(
    scene: Scene, talk: Talk
) -> None:
    talk.will(Answer("Plain."))
    await talk.chat.turn("hello")
    plain = talk.requests[0]
    for mode in ("append", "override"):
        words = {"mode": mode, "content": [{"type": "text", "text": "Answer in Latin only."}]}
        chat = await scene.editor.new(talk.chat.folder, systemPrompt=words)
        await chat.do("session/set_config_option", configId="model", value=MODELS[talk.kind])
        talk.will(Answer("Salve."))
        await chat.turn("hello")
        body = talk.requests[-1]
        system = json.dumps(SYSTEM[talk.kind](body))
        assert "Answer in Latin only." in system
        assert json.dumps(body).count("Answer in Latin only.") == 1
        assert body["tools"] == plain["tools"]
        await chat.do("session/close")


async def test_the_model_can_be_changed_on_the_way_and_remembers(talk: Talk) -> None:
    other = next(name for kind, name in MODELS.items() if kind != talk.kind)
    talk.will(Answer(Thought("Hm."), "The word is swordfish."), Answer("Swordfish."))
    await talk.chat.turn("What is the word?")
    answer = await talk.chat.do("_agentao.cn/set_model", model=other)
    assert answer == {"model": other.partition(":")[2]}
    assert (await talk.chat.turn("Again?")).text == "Swordfish."
    assert "The word is swordfish." in json.dumps(talk.requests[-1])


async def test_sessions_do_not_wait_for_each_other(scene: Scene, talk: Talk) -> None:
    gate = Gate()
    talk.will(Answer("slow", gate, " but sure"))
    turn = talk.chat.prompt("first")
    await gate.reached()
    other = await scene.editor.new(talk.chat.folder)
    talk.will(Answer("quick"))
    assert (await other.turn("second")).text == "quick"
    gate.open()
    assert (await talk.chat.told(turn)).text == "slow but sure"


async def test_a_loaded_session_gives_the_model_its_history_back(scene: Scene, talk: Talk) -> None:
    talk.will(Answer(Call("read_file", {"path": "a.py"})), Answer("It says alpha."))
    await talk.chat.turn("What does it say?")
    await talk.chat.do("session/close")
    chat, told = await scene.editor.open("session/load", talk.chat.id, talk.chat.folder)
    assert [update["sessionUpdate"] for update in told][:2] == ["user_message_chunk", "tool_call"]
    talk.will(Answer("As I said."))
    await chat.turn("Again?")
    before, after = (json.dumps(body) for body in talk.requests[-2:])
    assert "alpha = 1" in before
    assert "alpha = 1" in after
    assert "It says alpha." in after


async def test_what_runs_in_the_background_outlives_its_turn_and_ends_with_its_session(
    scene: Scene, project: Path
) -> None:
    scene.editor.choose = "allow_once"
    chat = await scene.editor.new(project)
    command = Lifeline.COMMAND.removeprefix("run ")
    scene.server.add(Answer(Call("bash", {"command": command, "background": True})), Answer("It runs."))
    async with lifeline(project) as line:
        assert (await chat.turn("Start it")).text == "It runs."
        await line.up()
        scene.server.add(Answer("Still there."))
        assert (await chat.turn("And?")).stop == "end_turn"
        await chat.do("session/close")
        await line.gone()


async def test_many_turns_at_once_with_all_providers(scene: Scene, project: Path) -> None:
    chats = [await scene.editor.new(project) for _ in range(8)]
    for number, chat in enumerate(chats):
        name = list(MODELS.values())[number % len(MODELS)]
        await chat.do("session/set_config_option", configId="model", value=name)

    def echo(seen: Any) -> Answer:
        text = json.dumps(seen.body)
        return Answer(*(f"turn {number} " for number in range(8) if f"number-{number}" in text))

    scene.server.add(*[echo] * 8)
    told = await asyncio.gather(*(chat.turn(f"number-{number}") for number, chat in enumerate(chats)))
    assert [one.text for one in told] == [f"turn {number} " for number in range(8)]
