"""Examples of the reference: a proxy between a client and an agent."""

import asyncio
import sys
from typing import Any

import accord
from accord.errors import UsageError
from accord.proxy import CallNext, Middleware, Peers, Proxy, hook, run_chain, run_proxy
from accord.schema import PromptRequest, PromptResponse
from accord.wire.memory_transport import memory_pair


async def change_prompts_in_a_program() -> None:
    class Polite(Middleware):
        async def prompt(
            self, request: PromptRequest, call_next: CallNext[PromptRequest, PromptResponse]
        ) -> PromptResponse:
            request.prompt.append(accord.TextContent(", please"))
            return await call_next(request)

    agent = accord.Agent("echo", version="1.0")

    @agent.prompt
    async def reply(turn: accord.Turn) -> None:
        await turn.say(turn.text)

    (client_side, client), (agent_side, far_side) = memory_pair(), memory_pair()
    connection = agent.connect(far_side)
    proxy = asyncio.create_task(Proxy(client_side, agent_side, [Polite()]).run())
    async with accord.connect_transport(client) as remote:
        session = await remote.new_session(cwd="/")
        assert "please" in (await session.ask("Sit")).text
    await connection.aclose()
    await proxy


async def add_a_hook_for_any_message() -> None:
    class Usage(Middleware):
        @hook("_vendor/usage", to="agent")
        async def usage(self, params: Any, call_next: CallNext[Any, Any]) -> Any:
            return {**await call_next(params), "source": "proxy"}

    assert isinstance(Usage(), Middleware)


async def send_messages_of_a_middleware() -> None:
    async def read_notes(peers: Peers, session_id: str) -> str:
        params = {"sessionId": session_id, "path": "/project/notes.txt"}
        answer = await peers.ask_client("fs/read_text_file", params)
        return str(answer.content)

    assert callable(read_notes)


async def run_a_proxy_on_stdin_and_stdout() -> None:
    def main() -> None:
        sys.exit(run_proxy(Middleware(), command=sys.argv[1:]))

    assert callable(main)
    try:
        run_proxy(Middleware(), command=[])
    except UsageError as error:
        assert "the agent's command" in str(error)


async def connect_proxies_that_are_programs() -> None:
    def main() -> None:
        sys.exit(run_chain(["python", "house_proxy.py"], ["node", "audit.mjs"], agent=["accord", "agent"]))

    assert callable(main)
