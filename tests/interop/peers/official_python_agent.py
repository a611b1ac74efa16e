"""The scripted agent on the official Python SDK: the first word of the prompt selects what it does.

The words and their data are in script.json; all scripted agents know the same words.
"""

import asyncio
from typing import Any

import acp
from acp import schema
from official_python_turns import SCRIPT, WORDS, Prompt, Session


class ScriptedAgent(acp.Agent):
    """Serves sessions; the turns are in official_python_turns.py."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}

    def on_connect(self, conn: acp.Client) -> None:
        self.client = conn

    def session(self, session_id: str) -> Session:
        """An open session, or an error for an unknown one."""
        session = self.sessions.get(session_id)
        if session is None or not session.open:
            raise acp.RequestError(-32002, "Resource not found", {"sessionId": session_id})
        return session

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, client_info: Any = None, **kwargs: Any
    ) -> acp.InitializeResponse:
        return acp.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[schema.AuthMethodAgent(**SCRIPT["sign_in"])],
            agent_info=schema.Implementation(**SCRIPT["agent"]),
        )

    async def authenticate(self, method_id: str, **kwargs: Any) -> acp.AuthenticateResponse | None:
        if method_id != SCRIPT["sign_in"]["id"]:
            raise acp.RequestError.invalid_params({"methodId": method_id})
        return acp.AuthenticateResponse()

    async def new_session(
        self, cwd: str, additional_directories: Any = None, mcp_servers: Any = None, **kwargs: Any
    ) -> acp.NewSessionResponse:
        session = Session(f"session-{len(self.sessions) + 1}", cwd)
        self.sessions[session.id] = session
        # Sent before the response: a client has to cope with that.
        commands = [schema.AvailableCommand.model_validate(command) for command in SCRIPT["commands"]]
        await self.client.session_update(
            session.id,
            schema.AvailableCommandsUpdate(
                session_update="available_commands_update", available_commands=commands
            ),
        )
        return acp.NewSessionResponse(
            session_id=session.id, modes=session.modes, config_options=session.options
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Any = None,
        additional_directories: Any = None,
        **kwargs: Any,
    ) -> acp.LoadSessionResponse:
        session = self._reopen(session_id)
        for update in session.history:
            await self.client.session_update(session_id, update)
        return acp.LoadSessionResponse(modes=session.modes, config_options=session.options)

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: Any = None,
        mcp_servers: Any = None,
        **kwargs: Any,
    ) -> schema.ResumeSessionResponse:
        session = self._reopen(session_id)
        return schema.ResumeSessionResponse(modes=session.modes, config_options=session.options)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> schema.ListSessionsResponse:
        """List one session per page, so that clients have to read several pages."""
        stored = [one for one in self.sessions.values() if cwd in (None, one.cwd)]
        start = int(cursor or 0)
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(session_id=one.id, cwd=one.cwd) for one in stored[start : start + 1]
            ],
            next_cursor=str(start + 1) if start + 1 < len(stored) else None,
        )

    async def close_session(self, session_id: str, **kwargs: Any) -> schema.CloseSessionResponse | None:
        self.session(session_id).open = False
        return schema.CloseSessionResponse()

    async def set_session_mode(
        self, session_id: str, mode_id: str, **kwargs: Any
    ) -> acp.SetSessionModeResponse | None:
        self.session(session_id).mode = mode_id
        return acp.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **kwargs: Any
    ) -> acp.SetSessionConfigOptionResponse | None:
        session = self.session(session_id)
        session.model = str(value)
        return acp.SetSessionConfigOptionResponse(config_options=session.options)

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> acp.PromptResponse:
        session = self.session(session_id)
        session.cancelled.clear()
        turn = Prompt(self.client, session, prompt)
        session.history.append(acp.update_user_message(prompt[0]))
        reason = await WORDS[turn.word](turn)
        return acp.PromptResponse.model_validate({"stopReason": reason or "end_turn"})

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        self.session(session_id).cancelled.set()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "interop/reverse":
            return {"text": params["text"][::-1]}
        raise acp.RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        pass

    async def fork_session(self, session_id: str, cwd: str, **kwargs: Any) -> schema.ForkSessionResponse:  # type: ignore[override]
        raise acp.RequestError.method_not_found("session/fork")

    def _reopen(self, session_id: str) -> Session:
        session = self.sessions.get(session_id)
        if session is None:
            raise acp.RequestError(-32002, "Resource not found", {"sessionId": session_id})
        session.open = True
        return session


if __name__ == "__main__":
    asyncio.run(acp.run_agent(ScriptedAgent(), use_unstable_protocol=True))
