"""A session with a model of a server on this machine."""

from tests.agent.agent_client import EVERYTHING
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, configure
from tests.coder.models.test_local_servers import ollama

from accord.testing.model_script import ModelAnswer
from accord.testing.model_server import ModelServer


async def test_models_are_listed_and_a_small_loaded_window_is_reported(harness: AgentHarness) -> None:
    configure(harness, SANDBOX_OFF)
    async with ModelServer([ModelAnswer("hello")], pages=ollama(("qwen3:8b", 4096))) as server:
        environment = {"OLLAMA_HOST": server.base_url(), "ACCORD_MODEL": "ollama:qwen3:8b"}
        async with harness.client(environment=environment, capabilities=EVERYTHING) as client:
            session = await client.new_session(harness.cwd)
            listed, _ = await client.turn(session, "/model")
            client.prompt(session, "hi")
            while (notice := await client.update("notice"))["title"] != "Small context":
                pass
    text = str(listed)
    assert "`ollama:qwen3:8b` **(current)**: 4k tokens, tools" in text
    assert "`ollama:llava`: 4k tokens, no tools: unusable for agents, images" in text
    assert "ollama:qwen3:8b is loaded with 4096 tokens" in notice["description"]
    assert "authorization" not in server.requests[0].headers
