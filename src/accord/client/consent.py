"""Consent: whether what the agent wants is allowed, by the rules, by the person at the terminal, or not at all.

What decides by itself only ever picks `allow_once`, and only where the agent offers it; a refusal picks an option that
refuses. A person sees every option by its name, with none of them preselected. An "always" lasts as long as the session.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from accord.cleaning import one_line
from accord.client.given import Given
from accord.client.judging import refusal, request_of, verdict
from accord.client.permissions import Decision as Chosen
from accord.client.permissions import PermissionRequest
from accord.client.session import ClientSession
from accord.policy.asking import options_for, read_answer, remember
from accord.policy.grants import Grants
from accord.policy.policy import Policy
from accord.policy.request import Decision, Request
from accord.schema import PermissionOption

_ANYTHING: Final = "default all"
"""What decided where everything is allowed."""


class Asked(Protocol):
    """Somebody who attends to one question. They see every option, and none is chosen for them; None: went away."""

    async def permission(
        self, asked: PermissionRequest, request: Request, decision: Decision
    ) -> PermissionOption | None:
        """May this tool call run?"""
        ...

    async def access(
        self,
        session: ClientSession,
        what: str,
        extras: Sequence[str],
        decision: Decision,
        options: Sequence[PermissionOption],
    ) -> PermissionOption | None:
        """May the agent do this through this client?"""
        ...


class Person(Protocol):
    """Who can be asked. Questions wait for each other."""

    def asked(self) -> AbstractAsyncContextManager[Asked]:
        """Have the person's attention."""
        ...


class Consent:
    """The consent of one run. `person` is None where nobody can be asked."""

    def __init__(self, policy: Policy, person: Person | None, note: Callable[[str], None]) -> None:
        self.refused: list[str] = []
        """What was not allowed, in words."""
        self.done = 0
        """How often something was asked for at all."""
        self.caught_up: Callable[[ClientSession], Awaitable[None]] | None = None
        """Waits until what the agent said before its question has been shown."""
        self._policy = policy
        self._person = person
        self._note = note
        self._grants: dict[str, Grants] = {}
        self._given: list[Given] = []

    # -- permission requests ------------------------------------------------------------------------------------

    async def __call__(self, asked: PermissionRequest) -> Chosen:
        """Answer a permission request of the agent."""
        self.done += 1
        request = request_of(asked, self.grants_of(asked.session))
        decision = verdict(self._policy, request, asked)
        if decision.effect == "allow" and (option := asked.option("allow_once")) is not None:
            self._give(asked, request)
            return option
        if decision.effect == "deny":
            return self._refuse(asked, decision.reason)
        if self._person is None:
            return self._refuse(asked, self._why_not(decision))
        if self.caught_up is not None:
            await self.caught_up(asked.session)
        async with self._person.asked() as question:
            # The answer to another question may have settled this one.
            again = verdict(self._policy, request, asked)
            if again.effect != "ask" and not (again.allowed and asked.option("allow_once") is None):
                if again.allowed:
                    self._give(asked, request)
                    return asked.option("allow_once")
                return self._refuse(asked, again.reason)
            option = await question.permission(asked, request, decision)
        if option is None:
            return self._refuse(asked, "you did not choose")
        answer = read_answer(asked.options, option)
        remember(request, decision, answer)
        if answer.allowed:
            self._give(asked, request)
        else:
            self.refused.append(asked.call.label)
        return option

    def _refuse(self, asked: PermissionRequest, reason: str) -> Chosen:
        self.refused.append(asked.call.label)
        self._note(f"refused: {one_line(asked.call.label)}: {reason}")
        return refusal(asked)

    def _why_not(self, decision: Decision) -> str:
        if decision.allowed:
            return "the agent does not offer to allow it just once"
        return f"{decision.reason}, and there is no terminal to ask on (see --permissions)"

    # -- what the agent does through us -------------------------------------------------------------------------

    async def may(
        self, session: ClientSession, request: Request, what: str, extras: Sequence[str] = ()
    ) -> bool:
        """Whether the agent may read, write or run something through this client: what was agreed to is not asked twice.

        `extras` are lines about what no rule and no earlier yes speaks of, such as variables that change what a command does: with
        any of them only `all`, or a person who has seen them, says yes.
        """
        self.done += 1
        decision = self._policy.decide(request)
        if extras and decision.effect != "deny" and decision.rule != _ANYTHING:
            decision = Decision("ask", "it brings variables of its own", "variables")
        elif decision.allowed or (decision.effect == "ask" and self._covered(session, request, decision)):
            return True
        if decision.effect == "ask" and self._person is not None:
            return await self._ask(session, request, decision, what, extras)
        reason = decision.reason if decision.effect == "deny" else self._why_not(decision)
        self.refused.append(what)
        self._note(f"refused: {what}: {reason}")
        return False

    def grants_of(self, session: ClientSession) -> Grants:
        """What the person agreed to for a session."""
        return self._grants.setdefault(session.id, Grants())

    async def _ask(
        self, session: ClientSession, request: Request, decision: Decision, what: str, extras: Sequence[str]
    ) -> bool:
        assert self._person is not None
        options = options_for(request, decision)
        if self.caught_up is not None:
            await self.caught_up(session)
        async with self._person.asked() as question:
            if not extras and self._policy.decide(request).allowed:
                return True
            option = await question.access(session, what, extras, decision, options)
        answer = read_answer(options, option)
        remember(request, decision, answer)
        if not answer.allowed:
            self.refused.append(what)
        return answer.allowed

    def _covered(self, session: ClientSession, request: Request, decision: Decision) -> bool:
        """Whether a question about this would be one too many."""
        if request.kind == "read" and decision.rule.startswith("default"):
            return True  # that it may read in its folders is what it was offered
        return any(given.covers(session, request) for given in self._given)

    def _give(self, asked: PermissionRequest, request: Request) -> None:
        self._given = [*(given for given in self._given if given.lasts), Given(asked, request)]
