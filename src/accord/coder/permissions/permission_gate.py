"""Decides whether a tool call may run: by the policy, or by asking the user. Explains a refusal to the model.

Every tool call of a session and of its sub-agents passes the gate. The policy decides, or leaves the decision
to the user. Several questions may be open at the same time. Every decision is written to the audit log; a
call whose decision cannot be written does not run. A question is withdrawn when an "always" answer or a new
mode decides it. After a yes of the user, the policy decides again and can still deny the call.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from accord.agent.tool_call_scope import PermissionAnswer
from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.tools.tool import CallSubject, PreparedCall, Tool, ToolFailure
from accord.errors import AccordError
from accord.policy.audit_log import DecisionLog, redacted
from accord.policy.mode_names import Mode, narrower
from accord.policy.permission_store import PermissionStore
from accord.policy.policy import Policy, only_reads
from accord.policy.request import ActionRequest, Category, Decision, Grants, SessionDirectories
from accord.policy.secret_files import is_secret
from accord.policy.user_answer import UserAnswer, options_for, read_answer, remember
from accord.safe_text import one_line
from accord.schema.client_requests import PermissionOption

_DENIED: Final = "Permission denied."
_CONTINUE_ADVICE: Final = "Do not repeat it; continue without it, or ask the user how to continue."
_WITHOUT_PERMISSION: Final = "Do the work that needs no permission, then end your turn and say what remains."
_REASON_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class PermissionRuling:
    """Whether a call may run."""

    allowed: bool
    message: str = ""
    """The text for the model in place of a result, if the call may not run."""
    rule: str = ""
    """The rule that decided, as in the audit log."""
    shown: str = ""
    """The text for the user, without advice to the model."""


def _allowed_ruling(decision: Decision) -> PermissionRuling:
    """The ruling of an allowed call."""
    return PermissionRuling(True, rule=decision.rule)


def _refusal(decision: Decision, reason: str, advice: str, shown: str = "") -> PermissionRuling:
    """The ruling of a call that may not run. The user does not see the advice to the model."""
    message = f"{_DENIED} {reason} {advice}".rstrip()
    return PermissionRuling(False, message, decision.rule, f"{_DENIED} {shown or reason}")


def _denied_ruling(decision: Decision) -> PermissionRuling:
    """The ruling of a call that the policy denied."""
    reason = f"{one_line(decision.reason, _REASON_CHARS)}."
    match decision.rule:
        case "floor":
            reason = f"{reason} This is never run, in any mode;"
            by_hand = "if it is needed, the user has to run it by hand."
            return _refusal(decision, reason, by_hand, f"{reason} if it is needed, run it by hand.")
        case "always":
            reason = "The user refused this for the rest of the session."
            shown = "You refused this for the rest of the session."
            return _refusal(decision, reason, _CONTINUE_ADVICE, shown)
        case "mode plan":
            advice = "Finish the plan and put it to the user with leave_plan_mode."
        case "mode read-only":
            advice = "Only the user can change the mode; say what you would have done."
        case "sandbox":
            advice = "Tell the user."
        case _:
            reason = f"{reason.removesuffix('.')} ({one_line(decision.rule, _REASON_CHARS)})."
            advice = "Find a way that the rules allow, or tell the user."
    return _refusal(decision, reason, advice)


def _refused_ruling(decision: Decision, answer: PermissionAnswer) -> PermissionRuling:
    """The ruling of a call that the user refused, or did not answer."""
    if answer.message:
        return _refusal(decision, f"The user said: {answer.message}", "", f"You said: {answer.message}")
    if answer.option is not None:
        what = "this for the rest of the session" if answer.always else "this call"
        return _refusal(
            decision, f"The user rejected {what}.", _CONTINUE_ADVICE, f"{what.capitalize()} was rejected."
        )
    if answer.reason == "timeout":
        reason, advice = "The user did not answer in time.", _WITHOUT_PERMISSION
        return _refusal(decision, reason, advice, "The question was not answered in time.")
    if answer.reason == "failed":
        reason = f"could not be asked ({one_line(str(answer.error), 200)})."
        return _refusal(decision, f"The user {reason}", _CONTINUE_ADVICE, f"You {reason}")
    return _refusal(decision, "The question was closed without a choice.", _CONTINUE_ADVICE)


def _unasked_ruling(decision: Decision) -> PermissionRuling:
    """The ruling of a call that is not asked about, because an earlier question of this turn timed out."""
    reason = "The user did not answer an earlier question, so this one was not asked."
    shown = "An earlier question was not answered, so this one was not asked."
    return _refusal(decision, reason, _WITHOUT_PERMISSION, shown)


def _unlogged_ruling(decision: Decision, error: Exception) -> PermissionRuling:
    """The ruling of a call whose decision could not be written to the audit log."""
    reason = f"{one_line(str(error), _REASON_CHARS)}. Calls that cannot be logged do not run;"
    return _refusal(decision, reason, "tell the user.", f"{reason.removesuffix(';')}.")


AskPermission: TypeAlias = Callable[[Sequence[PermissionOption], Decision], Awaitable[PermissionAnswer]]
"""Asks the user and shows what the call would do. The gate times the question.

Cancelling it withdraws the question.
"""

_LOG: Final = logging.getLogger("accord.coder.permissions")


class SandboxStatus(Protocol):
    """The state of the sandbox. `SessionSandbox` implements it."""

    @property
    def is_effective(self) -> bool:
        """Whether sandboxed commands may run without asking now."""
        ...

    @property
    def unavailable_reason(self) -> str:
        """Why no command may run: the user requires a sandbox that is unavailable. Else empty."""
        ...


class PermissionGate:
    """Rules on tool calls. One per session, shared with its sub-agents."""

    def __init__(
        self,
        *,
        policy: Policy,
        directories: SessionDirectories,
        audit: DecisionLog,
        session_id: str,
        mode: Callable[[], Mode],
        sandbox: SandboxStatus,
        question_seconds: float | None,
        kept_rules: PermissionStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`seconds` is the timeout of a question; None waits until the turn ends."""
        self.policy = policy
        """Replaced when the user trusts the project's rules; call `reconsider` after that."""
        self.directories = directories
        self.grants: Grants = Grants()
        self._kept_rules = kept_rules
        self._audit = audit
        self._session_id = session_id
        self._mode = mode
        self._sandbox = sandbox
        self._question_seconds = question_seconds
        self._clock = clock
        self._timed_out = False
        self._readable_paths: tuple[Path, ...] = ()
        self._changes = 0
        self._open_questions: set[asyncio.Event] = set()

    async def ruling(self, tool: Tool, call: PreparedCall, ask: AskPermission) -> PermissionRuling:
        """Whether the call may run; asks the user if needed. Cancelling it withdraws the question."""
        request, decision = await self._decide(tool, call)
        if decision.effect != "ask":
            return self._apply_decision(request, decision)
        if self._timed_out:
            self._log_decision(request, decision, UserAnswer(), "nobody there")
            return _unasked_ruling(decision)
        try:
            await call.check()
        except AccordError as failure:
            self._log_decision(request, decision, UserAnswer(), "not asked: it would fail")
            shown = failure.shown if isinstance(failure, ToolFailure) else str(failure)
            return PermissionRuling(False, str(failure), decision.rule, shown)
        except Exception as error:  # noqa: BLE001 - a defect of a tool must not end the turn
            _LOG.error("the check of %s failed", tool.name, exc_info=error)
        return await self._ask_user(tool, call, ask, request, decision)

    def may_show(self, path: str) -> bool:
        """Whether a search may show this file: no secrets, and nothing that rules deny or ask for.

        Thread-safe. The gate has already allowed the searched folder itself.
        """
        directories = replace(self.directories, roots=(*self.directories.roots, *self._readable_paths))
        if not self._has_rules():
            resolved = directories.resolve(path)
            return (
                resolved is not None
                and (directories.is_inside(resolved.real) or directories.is_readable(resolved.real))
                and (
                    directories.is_readable(resolved.real)
                    or not any(resolved.real.is_relative_to(folder) for folder in directories.accord_folders)
                )
                and not is_secret(resolved.real)
                and (resolved.path == resolved.real or not is_secret(resolved.path))
            )
        request = ActionRequest(
            directories=directories, category="read-only", mode=self._mode(), grants=self.grants
        )
        return all(
            self.policy.may_show(Path(path), replace(request, tool=tool, kind=kind))
            for tool, kind in (("grep", "search"), ("read_file", "read"))
        )

    async def only_reads(self, tool: Tool, call: PreparedCall) -> bool:
        """Whether the policy takes the call for one that changes nothing."""
        return await asyncio.to_thread(only_reads, self._request(tool, call.category, call.subject))

    def decide_for_agent(self, request: ActionRequest) -> Decision:
        """Decide what another agent asks for, under the rules and the mode of the session."""
        request = replace(request, mode=self._mode())
        decision = self.policy.decide(request)
        if self._log_decision(request, decision, note="another agent") is not None:
            return Decision("deny", "the decision cannot be logged", "audit")
        return decision

    def why_not_restored(self, path: str) -> str:
        """Why a file may not be brought back on the user's request: a rule denies it. Else empty."""
        request = ActionRequest(
            directories=self.directories,
            tool="write_file",
            category="write",
            kind="edit",
            paths=(path,),
            mode="full-access",  # the mode is for the agent; the user asked for this
            grants=self.grants,
        )
        decision = self.policy.decide(request)
        return "your rules deny changing it" if decision.effect == "deny" else ""

    def turn_started(self) -> None:
        """Ask again after a timeout in the last turn, and drop the read permissions of that turn."""
        self._timed_out = False
        self._readable_paths = ()
        self._load_kept_rules()

    def _load_kept_rules(self) -> None:
        """Read what the user always allows: another session or `accord agent rules` may have changed it."""
        if self._kept_rules is None:
            return
        try:
            self.grants.kept = self._kept_rules.grants(self.directories.cwd)
        except AccordError as error:
            self.grants.kept = frozenset()
            _LOG.error("%s", error)

    def reconsider(self) -> None:
        """Decide open questions again, because the mode, the rules or the sandbox changed."""
        self._changes += 1
        for event in self._open_questions:
            event.set()

    # -- decisions -------------------------------------------------------------------------------------------

    async def _decide(self, tool: Tool, call: PreparedCall) -> tuple[ActionRequest, Decision]:
        """The decision of the policy; decided again if something changed meanwhile."""
        while True:
            changes = self._changes
            request = self._request(tool, call.category, call.subject)
            if request.command is None:
                # In the event loop: its paths have just been resolved, so no disk access is needed.
                decision = self._decide_once(request, call.subject)
            else:
                decision = await asyncio.to_thread(self._decide_once, request, call.subject)
            if changes == self._changes and request.mode == self._mode_of(call.subject):
                return request, decision

    def _request(self, tool: Tool, category: Category, subject: CallSubject) -> ActionRequest:
        runs_command = subject.command is not None
        return ActionRequest(
            directories=self.directories,
            tool=tool.name,
            category=category,
            kind=tool.kind,
            paths=subject.paths,
            command=subject.command,
            cwd=subject.cwd,
            url=subject.url,
            read_only=subject.read_only,
            sandboxed=runs_command and subject.sandboxed and self._sandbox.is_effective,
            mode=self._mode_of(subject),
            grants=self.grants,
        )

    def _mode_of(self, subject: CallSubject) -> Mode:
        """The mode for a call: that of the session, or the narrower one of the custom agent that makes it."""
        mode = self._mode()
        return mode if subject.mode_limit is None else narrower(mode, subject.mode_limit)

    def _decide_once(self, request: ActionRequest, subject: CallSubject) -> Decision:
        decision = self.policy.decide(request)
        if subject.asks_itself and decision.effect != "allow" and decision.rule == f"mode {request.mode}":
            decision = Decision("allow", "each act of the sub-agent needs its own permission", "sub-agent")
        is_open_command = request.command is not None and not subject.sandboxed
        if is_open_command and decision.effect != "deny" and self._sandbox.unavailable_reason:
            return Decision("deny", self._sandbox.unavailable_reason, "sandbox")
        if subject.ask_reason and decision.effect == "allow":
            return Decision("ask", subject.ask_reason, "hook")
        return decision

    def _has_rules(self) -> bool:
        user, project = self.policy.user, self.policy.project
        user_restricts = user.deny or user.ask or user.permission_default == "none"
        return bool(user_restricts) or project is not None

    # -- questions -------------------------------------------------------------------------------------------

    async def _ask_user(
        self, tool: Tool, call: PreparedCall, ask: AskPermission, request: ActionRequest, decision: Decision
    ) -> PermissionRuling:
        options = options_for(request, decision, can_keep=self._kept_rules is not None)
        question = asyncio.ensure_future(_safe_ask(ask, options, decision))
        changed = asyncio.Event()
        self._open_questions.add(changed)
        timer = None

        def stop_asking() -> None:
            question.cancel()

        if self._question_seconds is not None:
            timer = self._clock.call_later(self._question_seconds, stop_asking)
        try:
            answer = await self._await_answer(question, changed, tool, call)
        except asyncio.CancelledError:
            self._log_decision(request, decision, UserAnswer(), "cancelled")
            raise
        finally:
            self._open_questions.discard(changed)
            if timer is not None:
                timer.cancel()
            await _withdraw(question)
        if isinstance(answer, PermissionAnswer):
            return await self._apply_answer(tool, call, request, decision, options, answer)
        return self._apply_decision(*answer)

    async def _await_answer(
        self,
        question: "asyncio.Future[PermissionAnswer]",
        changed: asyncio.Event,
        tool: Tool,
        call: PreparedCall,
    ) -> "PermissionAnswer | tuple[ActionRequest, Decision]":
        """The answer to the question, or the decision that replaced the question."""
        while True:
            change = asyncio.ensure_future(changed.wait())
            try:
                await asyncio.wait((question, change), return_when=asyncio.FIRST_COMPLETED)
            finally:
                change.cancel()
            if question.done():
                return PermissionAnswer(reason="timeout") if question.cancelled() else question.result()
            changed.clear()
            request, decision = await self._decide(tool, call)
            # An answer to this very call comes first.
            if decision.effect != "ask" and not question.done():
                return request, decision

    async def _apply_answer(
        self,
        tool: Tool,
        call: PreparedCall,
        request: ActionRequest,
        decision: Decision,
        options: Sequence[PermissionOption],
        answer: PermissionAnswer,
    ) -> PermissionRuling:
        self._timed_out = answer.reason == "timeout"
        # Only the kind of the offered option with this id counts.
        user_answer = read_answer(options, answer.option)
        if user_answer.allowed:
            # The mode may have changed, or the call was refused for the session meanwhile.
            latest_request, latest_decision = await self._decide(tool, call)
            if latest_decision.effect == "deny":
                self._log_decision(latest_request, latest_decision, user_answer)
                return _denied_ruling(latest_decision)
        note = redacted(answer.message) or ("" if answer.reason == "selected" else answer.reason)
        if user_answer.kept is not None:
            note = f"kept for the {user_answer.kept}"
        error = self._log_decision(request, decision, user_answer, note)
        if user_answer.allowed and error is not None:
            return _unlogged_ruling(decision, error)
        remember(request, decision, user_answer)
        self._keep(decision, user_answer)
        if user_answer.always or request.url is not None:
            self.reconsider()
        if not user_answer.allowed:
            return _refused_ruling(decision, answer)
        self._allow_reading(request)
        return _allowed_ruling(decision)

    def _keep(self, decision: Decision, answer: UserAnswer) -> None:
        """Keep an answer for the project or the user. If that fails, it still counts for the session."""
        if answer.kept is None or decision.scope is None or self._kept_rules is None:
            return
        try:
            self._kept_rules.keep(decision.scope, self.directories.cwd if answer.kept == "project" else None)
        except (OSError, AccordError) as error:
            _LOG.error("the answer counts for this session only: %s", error)
        self._load_kept_rules()

    # -- results ---------------------------------------------------------------------------------------------

    def _apply_decision(self, request: ActionRequest, decision: Decision) -> PermissionRuling:
        error = self._log_decision(request, decision)
        if decision.effect != "allow":
            return _denied_ruling(decision)
        if error is not None:
            return _unlogged_ruling(decision, error)
        self._allow_reading(request)
        return _allowed_ruling(decision)

    def _allow_reading(self, request: ActionRequest) -> None:
        """Let searches show the files that a call may read, until the turn ends."""
        if request.category == "read-only":
            outside = [path for path in map(Path, request.paths) if not self.directories.is_inside(path)]
            self._readable_paths = tuple(dict.fromkeys((*self._readable_paths, *outside)))

    def _log_decision(
        self, request: ActionRequest, decision: Decision, answer: UserAnswer | None = None, note: str = ""
    ) -> AccordError | None:
        extra: Mapping[str, Any] | None = {"note": note} if note else None
        try:
            self._audit.record(request, decision, answer, session=self._session_id, extra=extra)
        except AccordError as error:
            _LOG.error("%s", error)
            return error
        return None


async def _safe_ask(
    ask: AskPermission, options: Sequence[PermissionOption], decision: Decision
) -> PermissionAnswer:
    try:
        return await ask(options, decision)
    except AccordError as error:
        return PermissionAnswer(reason="failed", error=error)
    except Exception as error:  # noqa: BLE001 - a question that fails is never a yes
        _LOG.error("a permission request failed", exc_info=error)
        return PermissionAnswer(reason="failed", error=AccordError(type(error).__name__))


async def _withdraw(question: "asyncio.Future[PermissionAnswer]") -> None:
    if not question.done():
        question.cancel()
        await asyncio.wait((question,))
