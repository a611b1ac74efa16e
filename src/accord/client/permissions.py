"""Permission requests, ready-made handlers, and the open requests of a session.

Consent fails closed: only an option that the agent offered is ever selected. The ready-made handlers look
only at kinds that the agent sent in the official spelling, and approve only with `allow_once`.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias

from accord.errors import RequestCancelled
from accord.schema import (
    CancelledOutcome,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
)
from accord.schema.dialects import display_kind, must_cancel, official_kind
from accord.session import PermissionAnswered, PermissionAsked, ToolCallState
from accord.session.protocol_v1 import permission_event

if TYPE_CHECKING:
    from accord.client.client_session import ClientSession
    from accord.client.session_core import SessionCore

PermissionChoice: TypeAlias = str | PermissionOption | None
"""The id of an offered option, the option itself, or None for no decision."""

READ_ONLY_KINDS: Final[frozenset[str]] = frozenset(("read", "search"))
"""Tool kinds that change nothing and do not reach the network."""


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """Asks whether a tool call may run. The agent waits for the answer."""

    session: "ClientSession"
    call: ToolCallState
    """The current state of the tool call, updated by the request."""
    params: RequestPermissionRequest
    """The parameters of the agent's request."""

    @property
    def options(self) -> list[PermissionOption]:
        """The offered options, in the agent's order."""
        return self.params.options

    @property
    def official_kind(self) -> str | None:
        """The tool kind if the agent sent an official one. Automatic decisions may look only at this kind."""
        tool_call = self.params.tool_call
        if tool_call.kind:
            return official_kind(tool_call)
        # If the request has a nonstandard kind, ignore the kind of earlier updates too.
        return official_kind(self.call) if display_kind(tool_call) == "other" else None

    def option(self, kind: PermissionOptionKind) -> PermissionOption | None:
        """Return the first option that the agent sent with this official kind."""
        return next((option for option in self.options if official_kind(option) == kind), None)


PermissionHandler: TypeAlias = Callable[[PermissionRequest], PermissionChoice | Awaitable[PermissionChoice]]


def reject_all(request: PermissionRequest) -> PermissionChoice:
    """Refuse, with the option `reject_once` if it is offered. The default."""
    return request.option("reject_once")


def allow_reads(request: PermissionRequest) -> PermissionChoice:
    """Allow `read` and `search` calls once; refuse all others."""
    if request.official_kind in READ_ONLY_KINDS:
        return allow_all(request)
    return reject_all(request)


def allow_all(request: PermissionRequest) -> PermissionChoice:
    """Allow every call once. Refuse if `allow_once` is not offered: `allow_always` is never picked."""
    return request.option("allow_once") or reject_all(request)


class PendingPermissions:
    """The open permission requests of one session.

    Several can be open at once. Each is answered exactly once. If the handler raises, the request is refused.
    """

    def __init__(self, core: "SessionCore") -> None:
        self._core = core
        self._numbers = count(1)

    async def answer(self, params: RequestPermissionRequest) -> RequestPermissionResponse:
        """Answer one request of the agent with the decision of the client's handler.

        If the turn is stopped, the handler is canceled and the answer is `cancelled`.
        """
        core = self._core
        permission_id = str(next(self._numbers))
        event = core.publish(permission_event(permission_id, params))
        call = event.call if isinstance(event, PermissionAsked) else None
        if call is None:
            call = ToolCallState(params.tool_call.tool_call_id)
        request = PermissionRequest(core.session, call, params)
        option: PermissionOption | None = None
        try:
            choice = await core.turn_requests.admit(permission=True).run(lambda: self._decide(request))
            option = _chosen_option(params.options, choice)
        except RequestCancelled:
            pass  # answered as canceled
        finally:
            core.publish(PermissionAnswered(permission_id, option))
        info = core.handle.connection.initialize_response.agent_info
        if option is None or (info and must_cancel(info.name, option.kind)):
            return RequestPermissionResponse(CancelledOutcome())
        return RequestPermissionResponse(SelectedPermissionOutcome(option.option_id))

    async def _decide(self, request: PermissionRequest) -> PermissionChoice:
        handle = self._core.handle
        try:
            choice = handle.handlers.permissions(request)
            return await choice if inspect.isawaitable(choice) else choice
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handler
            handle.report_failure("the permission handler", error)
            return None


def _chosen_option(options: list[PermissionOption], choice: object) -> PermissionOption | None:
    """The offered option that a handler chose, or None for everything else.

    An id shared by several options selects none: the agent could read a refusal as an approval.
    """
    if isinstance(choice, PermissionOption):
        choice = choice.option_id
    if not isinstance(choice, str):
        return None
    matches = [option for option in options if option.option_id == choice]
    return matches[0] if len(matches) == 1 else None
