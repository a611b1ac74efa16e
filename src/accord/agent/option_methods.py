"""The built-in behavior of the requests for modes and options. Imported on first use."""

from typing import TYPE_CHECKING

from accord.agent.session_options import UnknownOption
from accord.errors import InvalidParams, MethodNotFound, UsageError
from accord.schema.session_requests import (
    CurrentModeUpdate,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionModeRequest,
    SetSessionModeResponse,
)
from accord.schema.updates import SessionUpdate
from accord.wire.calls import IncomingCall

if TYPE_CHECKING:
    from accord.agent.agent_session import AgentSessionCore
    from accord.agent.builtin_methods import BuiltinMethods
    from accord.agent.decorators import AgentHandlers


class OptionMethods:
    """`session/set_mode` and `session/set_config_option`."""

    def __init__(self, handlers: "AgentHandlers", methods: "BuiltinMethods") -> None:
        self._handlers = handlers
        self._methods = methods

    async def change(
        self, params: SetSessionModeRequest | SetSessionConfigOptionRequest, call: IncomingCall
    ) -> SetSessionModeResponse | SetSessionConfigOptionResponse:
        """Serve one of them."""
        if isinstance(params, SetSessionModeRequest):
            return await self.set_mode(params, call)
        return await self.set_config_option(params, call)

    async def set_mode(self, params: SetSessionModeRequest, call: IncomingCall) -> SetSessionModeResponse:
        session = self._methods.session(params.session_id)
        options = session.options
        if options.modes is None:
            raise MethodNotFound("This session has no modes")
        try:
            mode_id = options.find_mode(params.mode_id)
        except UnknownOption as error:
            raise InvalidParams(str(error)) from None
        await self._call_mode_handler(session, mode_id)
        if options.mode_option is not None and options.declared_mode_option:
            await self._call_option_handler(session, options.mode_option.id, mode_id)
        updates = options.set_mode(mode_id)
        call.after_answer(lambda: _push_all(session, updates))
        return SetSessionModeResponse()

    async def set_config_option(
        self, params: SetSessionConfigOptionRequest, call: IncomingCall
    ) -> SetSessionConfigOptionResponse:
        """Change an option; the response lists all options."""
        session = self._methods.session(params.session_id)
        options = session.options
        if not options.options:
            raise MethodNotFound("This session has no config options")
        config_id = params.config_id
        if call.method == "session/set_model":
            config_id = options.find_model_option(config_id)
        try:
            value = options.find_value(config_id, params.value)
        except UnknownOption as error:
            if config_id not in session.session.custom_value_options or not isinstance(params.value, str):
                raise InvalidParams(str(error)) from None
            value = params.value
        is_mode = options.mode_option is not None and options.mode_option.id == config_id
        if is_mode and isinstance(value, str):
            await self._call_mode_handler(session, value)
        if not is_mode or options.declared_mode_option:
            await self._call_option_handler(session, config_id, value)
        try:
            updates = options.set_option(config_id, value)
        except UsageError:
            updates = []  # the handler has replaced the options
        call.after_answer(
            lambda: _push_all(session, [u for u in updates if isinstance(u, CurrentModeUpdate)])
        )
        return SetSessionConfigOptionResponse(options.for_client())

    async def _call_mode_handler(self, session: "AgentSessionCore", mode_id: str) -> None:
        hook = self._handlers.hooks.get("session/set_mode")
        if hook is not None:
            await self._methods.call_handler(hook, session.session, mode_id)

    async def _call_option_handler(
        self, session: "AgentSessionCore", config_id: str, value: str | bool
    ) -> None:
        hook = self._handlers.hooks.get("session/set_config_option")
        if hook is not None:
            await self._methods.call_handler(hook, session.session, config_id, value)


def _push_all(session: "AgentSessionCore", updates: list[SessionUpdate]) -> None:
    if not session.closed:
        for update in updates:
            session.push(update)
