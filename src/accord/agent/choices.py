"""What the client sets in a session: modes and config options, checked first, then told to the application."""

from accord.errors import InvalidParams, MethodNotFound, UsageError
from accord.schema.config import (
    CurrentModeUpdate,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionModeRequest,
    SetSessionModeResponse,
)
from accord.schema.updates import SessionUpdate
from accord.wire.routes import Call

from .handlers import Handlers
from .pickers import UnknownChoice
from .service import Service
from .session import AgentSession


class Choices:
    """`session/set_mode` and `session/set_config_option`."""

    def __init__(self, handlers: Handlers, service: Service) -> None:
        self._handlers = handlers
        self._service = service

    async def set_mode(self, params: SetSessionModeRequest, call: Call) -> SetSessionModeResponse:
        """Change the mode."""
        session = self._service.session(params.session_id)
        pickers = session.pickers
        if pickers.modes is None:
            raise MethodNotFound("This session has no modes")
        try:
            mode_id = pickers.find_mode(params.mode_id)
        except UnknownChoice as error:
            raise InvalidParams(str(error)) from None
        await self._mode_chosen(session, mode_id)
        if pickers.mode_option is not None and pickers.own_mode_option:
            await self._option_chosen(session, pickers.mode_option.id, mode_id)
        updates = pickers.set_mode(mode_id)
        call.after_answer(lambda: _tell(session, updates))
        return SetSessionModeResponse()

    async def set_config_option(
        self, params: SetSessionConfigOptionRequest, call: Call
    ) -> SetSessionConfigOptionResponse:
        """Change an option; the answer lists all of them."""
        session = self._service.session(params.session_id)
        pickers = session.pickers
        if not pickers.options:
            raise MethodNotFound("This session has no config options")
        config_id = params.config_id
        if call.method == "session/set_model":
            config_id = pickers.find_model_option(config_id)
        try:
            value = pickers.find_value(config_id, params.value)
        except UnknownChoice as error:
            if config_id not in session.open_options or not isinstance(params.value, str):
                raise InvalidParams(str(error)) from None
            value = params.value
        is_mode = pickers.mode_option is not None and pickers.mode_option.id == config_id
        if is_mode and isinstance(value, str):
            await self._mode_chosen(session, value)
        if not is_mode or pickers.own_mode_option:
            await self._option_chosen(session, config_id, value)
        try:
            updates = pickers.set_option(config_id, value)
        except UsageError:
            updates = []  # the application has put other options in its place
        call.after_answer(lambda: _tell(session, [u for u in updates if isinstance(u, CurrentModeUpdate)]))
        return SetSessionConfigOptionResponse(pickers.shown())

    async def _mode_chosen(self, session: AgentSession, mode_id: str) -> None:
        hook = self._handlers.hooks.get("session/set_mode")
        if hook is not None:
            await self._service.app(hook, session, mode_id)

    async def _option_chosen(self, session: AgentSession, config_id: str, value: str | bool) -> None:
        hook = self._handlers.hooks.get("session/set_config_option")
        if hook is not None:
            await self._service.app(hook, session, config_id, value)


def _tell(session: AgentSession, updates: list[SessionUpdate]) -> None:
    if session.state != "closed":
        for update in updates:
            session.push(update)
