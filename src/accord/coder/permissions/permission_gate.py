"""Decides whether a tool call may run: policy, question to the user, ruling in words the model can use."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from accord.agent.tool_call_scope import PermissionAnswer
from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.tools.tool import CallSubject, PreparedCall, Tool
from accord.errors import AccordError
from accord.policy.audit_log import DecisionLog, redacted
from accord.policy.policy import Policy
from accord.policy.request import ActionRequest, Category, Decision, Grants, Mode, SessionDirectories
from accord.policy.secret_files import is_secret
from accord.policy.user_answer import UserAnswer, options_for, read_answer, remember
from accord.safe_text import one_line
from accord.schema.client_requests import PermissionOption

# MERGED coder.permissions.ruling: What became of a call: it may run, or the model is told why not, in words it can act on.

DENIED: Final = "Permission denied."
_GO_ON: Final = "Do not repeat it; go on without it, or ask the user how to go on."
_LONGEST_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class PermissionRuling:
    """Whether a call may run."""

    allowed: bool
    told: str = ""
    """What the model reads in place of a result, if not."""
    rule: str = ""
    """What decided, as the audit names it."""


def allowed(decision: Decision) -> PermissionRuling:
    """It may run."""
    return PermissionRuling(True, rule=decision.rule)


def denied(decision: Decision) -> PermissionRuling:
    """It may not, and nobody was asked."""
    reason = one_line(decision.reason, _LONGEST_REASON)
    if decision.rule == "floor":
        why = f"{reason}. This is never run, in any mode; if it is really wanted, the user has to do it by hand."
    elif decision.rule == "always":
        why = f"The user refused this for the rest of the session. {_GO_ON}"
    elif decision.rule == "mode plan":
        why = f"{reason}. Finish the plan and put it to the user with leave_plan_mode."
    elif decision.rule == "mode read-only":
        why = f"{reason}. Only the user can change the mode; say what you would have done."
    elif decision.rule == "sandbox":
        why = f"{reason}. Tell the user."
    else:
        by = one_line(decision.rule, _LONGEST_REASON)
        why = f"{reason} ({by}). Find a way that the rules allow, or tell the user."
    return PermissionRuling(False, f"{DENIED} {why}", decision.rule)


def refused(decision: Decision, answer: PermissionAnswer) -> PermissionRuling:
    """The user, or nobody, said no."""
    if answer.message:
        why = f"The user said: {answer.message}"
    elif answer.option is not None and answer.always:
        why = f"The user rejected this for the rest of the session. {_GO_ON}"
    elif answer.option is not None:
        why = f"The user rejected this call. {_GO_ON}"
    elif answer.reason == "timeout":
        why = "Nobody answered the question in time. Do what needs no permission, then end your turn and say what is left."
    elif answer.reason == "failed":
        why = f"The user could not be asked ({one_line(str(answer.error), 200)}). {_GO_ON}"
    else:
        why = f"The question was closed without a choice. {_GO_ON}"
    return PermissionRuling(False, f"{DENIED} {why}", decision.rule)


def unanswered(decision: Decision) -> PermissionRuling:
    """An earlier question of this turn found nobody, so this one is not asked."""
    why = (
        "Nobody answered an earlier question, so the user was not asked again. Do what needs no permission, "
        "then end your turn and say what is left."
    )
    return PermissionRuling(False, f"{DENIED} {why}", decision.rule)


def unwritten(decision: Decision, error: Exception) -> PermissionRuling:
    """The decision could not be written down, so it does not count."""
    why = f"{one_line(str(error), _LONGEST_REASON)}. Nothing runs that cannot be written down; tell the user."
    return PermissionRuling(False, f"{DENIED} {why}", decision.rule)


# MERGED coder.permissions.gate: The permissions of one session. Every call of its loop and of its sub-agents passes here before it runs.
#
# The policy decides; what it leaves to the user is asked, several questions at a time if need be; what came of it is
# written down, and what cannot be written down is not run. A question that has become idle, because an "always" or another
# mode has settled it meanwhile, is withdrawn. A yes counts only if by then nothing forbids the call.

Ask: TypeAlias = Callable[[Sequence[PermissionOption], Decision, float | None], Awaitable[PermissionAnswer]]
"""Puts a question to the user for so many seconds: `ToolCallScope.ask_permission`, with what the call would do shown
before. It may be cancelled, and then takes the question back; after its time it is."""

_LOG: Final = logging.getLogger("accord.coder.permissions")


class SandboxStatus(Protocol):
    """What confines commands; `Confinement` is one."""

    @property
    def holds(self) -> bool:
        """Whether a command may run in it unasked, right now."""
        ...

    @property
    def missing(self) -> str:
        """Why commands must not run at all: the sandbox that the user insists on is not there. Else empty."""
        ...


class PermissionGate:
    """Rules on calls. One for each session, shared with its sub-agents."""

    def __init__(
        self,
        *,
        policy: Policy,
        bounds: SessionDirectories,
        audit: DecisionLog,
        session_id: str,
        mode: Callable[[], Mode],
        confinement: SandboxStatus,
        seconds: float | None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`seconds` bounds how long a question waits; None waits as long as the turn does."""
        self.policy = policy
        """May be replaced, once the user trusts the project's rules; `reconsider` then."""
        self.bounds = bounds
        self.grants = Grants()
        self._audit = audit
        self._session_id = session_id
        self._mode = mode
        self._confinement = confinement
        self._seconds = seconds
        self._clock = clock
        self._nobody_there = False
        self._opened: tuple[Path, ...] = ()
        self._changes = 0
        self._waiting: set[asyncio.Event] = set()

    async def ruling(self, tool: Tool, call: PreparedCall, ask: Ask) -> PermissionRuling:
        """Whether the call may run; may ask. Cancelling it takes the question back."""
        request, decision = await self._decide(tool, call)
        if decision.effect != "ask":
            return self._settle(request, decision)
        if self._nobody_there:
            self._write(request, decision, UserAnswer(), "nobody there")
            return unanswered(decision)
        return await self._question(tool, call, ask, request, decision)

    def may_show(self, path: str) -> bool:
        """Whether a search may show this file; no secrets, and nothing that rules deny or ask for. From any thread.

        The folder that is searched has been ruled on already.
        """
        bounds = replace(self.bounds, roots=(*self.bounds.roots, *self._opened))
        if not self._has_rules():
            place = bounds.resolve(path)
            return (
                place is not None
                and bounds.is_inside(place.real)
                and not any(place.real.is_relative_to(folder) for folder in bounds.accord_folders)
                and not is_secret(place.real)
                and (place.path == place.real or not is_secret(place.path))
            )
        plain = ActionRequest(directories=bounds, category="read-only", mode=self._mode(), grants=self.grants)
        return all(
            self.policy.may_show(Path(path), replace(plain, tool=tool, kind=kind))
            for tool, kind in (("grep", "search"), ("read_file", "read"))
        )

    def turn_started(self) -> None:
        """The user is there again, and what was opened for one turn is closed."""
        self._nobody_there = False
        self._opened = ()

    def reconsider(self) -> None:
        """The mode, the rules or the sandbox are others now: open questions may have become idle."""
        self._changes += 1
        for event in self._waiting:
            event.set()

    # -- deciding --------------------------------------------------------------------------------------------

    async def _decide(self, tool: Tool, call: PreparedCall) -> tuple[ActionRequest, Decision]:
        """What the policy says now; decided again if something changed while it was being decided."""
        while True:
            changes = self._changes
            request = self._request(tool, call.category, call.subject)
            if request.command is None:
                decision = self._judge(
                    request, call.subject
                )  # its paths have just been looked up: no disk to wait for
            else:
                decision = await asyncio.to_thread(self._judge, request, call.subject)
            if changes == self._changes and request.mode == self._mode():
                return request, decision

    def _request(self, tool: Tool, category: Category, subject: CallSubject) -> ActionRequest:
        runs = subject.command is not None
        return ActionRequest(
            directories=self.bounds,
            tool=tool.name,
            category=category,
            kind=tool.kind,
            paths=subject.paths,
            command=subject.command,
            cwd=subject.cwd,
            url=subject.url,
            read_only=subject.read_only,
            sandboxed=runs and subject.sandboxed and self._confinement.holds,
            mode=self._mode(),
            grants=self.grants,
        )

    def _judge(self, request: ActionRequest, subject: CallSubject) -> Decision:
        decision = self.policy.decide(request)
        if request.command is None or subject.sandboxed or decision.effect == "deny":
            return decision
        if missing := self._confinement.missing:
            return Decision("deny", missing, "sandbox")
        return decision

    def _has_rules(self) -> bool:
        user, project = self.policy.user, self.policy.project
        tightens = user.deny or user.ask or user.permission_default == "none"
        return bool(tightens) or project is not None

    # -- asking ----------------------------------------------------------------------------------------------

    async def _question(
        self, tool: Tool, call: PreparedCall, ask: Ask, request: ActionRequest, decision: Decision
    ) -> PermissionRuling:
        options = options_for(request, decision)
        asking = asyncio.ensure_future(_asked(ask, options, decision, self._seconds))
        changed = asyncio.Event()
        self._waiting.add(changed)
        timer = (
            None if self._seconds is None else self._clock.call_later(self._seconds, lambda: _give_up(asking))
        )
        try:
            answer = await self._answer(asking, changed, tool, call)
        except asyncio.CancelledError:
            self._write(request, decision, UserAnswer(), "cancelled")
            raise
        finally:
            self._waiting.discard(changed)
            if timer is not None:
                timer.cancel()
            await _taken_back(asking)
        if isinstance(answer, PermissionAnswer):
            return await self._answered(tool, call, request, decision, options, answer)
        return self._settle(*answer)

    async def _answer(
        self,
        asking: "asyncio.Future[PermissionAnswer]",
        changed: asyncio.Event,
        tool: Tool,
        call: PreparedCall,
    ) -> "PermissionAnswer | tuple[ActionRequest, Decision]":
        """The answer to the question, or what has settled it meanwhile."""
        while True:
            news = asyncio.ensure_future(changed.wait())
            try:
                await asyncio.wait((asking, news), return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
            if asking.done():
                return PermissionAnswer(reason="timeout") if asking.cancelled() else asking.result()
            changed.clear()
            request, decision = await self._decide(tool, call)
            if (
                decision.effect != "ask" and not asking.done()
            ):  # what was said about this very call comes first
                return request, decision

    async def _answered(
        self,
        tool: Tool,
        call: PreparedCall,
        request: ActionRequest,
        decision: Decision,
        options: Sequence[PermissionOption],
        answer: PermissionAnswer,
    ) -> PermissionRuling:
        self._nobody_there = answer.reason == "timeout"
        # By the kind of what was offered under that id, whatever the answer itself says about it.
        read = read_answer(options, answer.option)
        if read.allowed:
            # The mode may be another by now, or somebody refused this for the session.
            now, latest = await self._decide(tool, call)
            if latest.effect == "deny":
                self._write(now, latest, read)
                return denied(latest)
        said = redacted(answer.message) or ("" if answer.reason == "selected" else answer.reason)
        error = self._write(request, decision, read, said)
        if read.allowed and error is not None:
            return unwritten(decision, error)
        remember(request, decision, read)
        if read.always or request.url is not None:
            self.reconsider()
        if not read.allowed:
            return refused(decision, answer)
        self._open(request)
        return allowed(decision)

    # -- what came of it -------------------------------------------------------------------------------------

    def _settle(self, request: ActionRequest, decision: Decision) -> PermissionRuling:
        error = self._write(request, decision)
        if decision.effect != "allow":
            return denied(decision)
        if error is not None:
            return unwritten(decision, error)
        self._open(request)
        return allowed(decision)

    def _open(self, request: ActionRequest) -> None:
        """What was allowed to be searched may also be shown, until the turn is over."""
        if request.category == "read-only":
            outside = [path for path in map(Path, request.paths) if not self.bounds.is_inside(path)]
            self._opened = tuple(dict.fromkeys((*self._opened, *outside)))

    def _write(
        self, request: ActionRequest, decision: Decision, answer: UserAnswer | None = None, note: str = ""
    ) -> AccordError | None:
        more: Mapping[str, Any] | None = {"note": note} if note else None
        try:
            self._audit.record(request, decision, answer, session=self._session_id, extra=more)
        except AccordError as error:
            _LOG.error("%s", error)
            return error
        return None


async def _asked(
    ask: Ask, options: Sequence[PermissionOption], decision: Decision, seconds: float | None
) -> PermissionAnswer:
    try:
        return await ask(options, decision, seconds)
    except AccordError as error:
        return PermissionAnswer(reason="failed", error=error)
    except Exception as error:  # noqa: BLE001 - the boundary of consent: whatever happens to a question, it is no yes
        _LOG.error("a permission could not be asked for", exc_info=error)
        return PermissionAnswer(reason="failed", error=AccordError(type(error).__name__))


def _give_up(asking: "asyncio.Future[PermissionAnswer]") -> None:
    asking.cancel()


async def _taken_back(asking: "asyncio.Future[PermissionAnswer]") -> None:
    if not asking.done():
        asking.cancel()
        await asyncio.wait((asking,))
