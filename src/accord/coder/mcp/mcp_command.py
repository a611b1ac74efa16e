"""`/mcp SERVER`, `/mcp restart SERVER`, `/mcp login SERVER` and `/mcp logout SERVER`."""

import asyncio
from typing import Final

from accord.agent.elicitation import UrlAnswer
from accord.agent.turn import Turn
from accord.clock import Clock, within
from accord.coder.library_imports import mcp_loaded
from accord.coder.mcp.host import McpHost, mention_name
from accord.coder.mcp.server import SessionMcpServer
from accord.coder.mcp.server_interface import McpServerFailure, clean_line
from accord.safe_text import one_line

_START_SECONDS: Final = 60.0
_ACTIONS: Final = ("restart", "login", "logout")


async def run_server_command(text: str, turn: Turn, host: McpHost, clock: Clock) -> str:
    """Run the command with the text after `/mcp`. Returns the reply."""
    words = text.split()
    action = words.pop(0) if words[0] in _ACTIONS else "show"
    name = " ".join(words)
    server = host.server(name)
    address = ""
    if server is None and action == "login" and len(words) > 1:
        *words, address = words
        name = " ".join(words)
        server = host.server(name)
    if server is None:
        names = ", ".join(f"`{state.name}`" for state in host.states)
        return f"There is no MCP server `{one_line(name, 60)}`; this session has {names}."
    if action == "show":
        return _details(server)
    if action == "restart":
        started = await server.reconnect()
        await within(clock, _START_SECONDS, started)
        return _details(server)
    if server.url is None:
        return f"`{server.name}` is a program on this machine: there is nothing to sign in to."
    if action == "logout":
        return await _sign_out(server)
    return await _sign_in(server, turn, address, clock)


def _details(server: SessionMcpServer) -> str:
    state, features = server.state, server.features
    lines = [f"`{one_line(state.name, 60)}` ({state.transport}): {state.status}"]
    if state.reason:
        lines[0] += f": {one_line(state.reason, 300)}"
    for title, names in (
        ("Tools", [tool.name for tool in features.tools]),
        ("Tools left out", list(features.left_out)),
        ("Prompts", [prompt.name for prompt in features.prompts]),
        ("Resources", [f"@{mention_name(server.name)}:{resource.uri}" for resource in features.resources]),
    ):
        if names:
            shown = ", ".join(f"`{clean_line(name, 100).replace('`', '')}`" for name in names)
            lines += ["", f"{title} ({len(names)}): {shown}"]
    return "\n".join(lines)


async def _sign_out(server: SessionMcpServer) -> str:
    await mcp_loaded()
    from accord.coder.mcp.oauth import TokenFile

    assert server.url is not None
    try:
        known = await asyncio.to_thread(TokenFile(server.url).remove)
    except McpServerFailure as failure:
        return str(failure)
    await server.reconnect()
    return f"Signed out of `{server.name}`." if known else f"You are not signed in to `{server.name}`."


async def _sign_in(server: SessionMcpServer, turn: Turn, returned: str, clock: Clock) -> str:
    if returned:
        if not server.sign_in.take_return(returned):
            return f"No sign-in waits for this address: type `/mcp login {server.name}` first."
        return await _wait_until_ready(server, server.started, clock)
    shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    answers: list[UrlAnswer] = []

    async def show(address: str) -> None:
        from accord.coder.mcp.server_connection import is_openable

        if not is_openable(address):
            raise McpServerFailure("its sign-in page has an address that is not https")
        if not turn.client.can_open_urls:
            shown.set_result(address)
            return
        answer = await turn.elicit_url(f"Sign in to the MCP server {server.name}", address)
        answers.append(answer)
        if not answer:
            raise McpServerFailure("you did not agree to sign in")

    started = await server.reconnect(show)
    await asyncio.wait((started, shown), return_when=asyncio.FIRST_COMPLETED)
    if shown.done() and not started.done():
        return (
            f"Open this page to sign in to `{server.name}`:\n\n{shown.result()}\n\n"
            "If your browser ends at an address that it cannot open, copy that address and type "
            f"`/mcp login {server.name} ADDRESS`."
        )
    reply = await _wait_until_ready(server, started, clock)
    for answer in answers:
        await answer.complete()
    return reply


async def _wait_until_ready(server: SessionMcpServer, started: "asyncio.Future[None]", clock: Clock) -> str:
    await within(clock, _START_SECONDS, started)
    if server.state.status == "ready":
        return f"Signed in to `{server.name}`."
    return f"The sign-in to `{server.name}` failed: {one_line(server.state.reason or 'it is not ready', 300)}"
