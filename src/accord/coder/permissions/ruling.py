"""What became of a call: it may run, or the model is told why not, in words it can act on."""

from dataclasses import dataclass
from typing import Final

from accord.agent.permission import PermissionAnswer
from accord.coder.tools.tool import one_line
from accord.policy.request import Decision

DENIED: Final = "Permission denied."
_GO_ON: Final = "Do not repeat it; go on without it, or ask the user how to go on."
_LONGEST_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether a call may run."""

    allowed: bool
    told: str = ""
    """What the model reads in place of a result, if not."""
    rule: str = ""
    """What decided, as the audit names it."""


def allowed(decision: Decision) -> Ruling:
    """It may run."""
    return Ruling(True, rule=decision.rule)


def denied(decision: Decision) -> Ruling:
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
    return Ruling(False, f"{DENIED} {why}", decision.rule)


def refused(decision: Decision, answer: PermissionAnswer) -> Ruling:
    """The user, or nobody, said no."""
    if answer.word:
        why = f"The user said: {answer.word}"
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
    return Ruling(False, f"{DENIED} {why}", decision.rule)


def unanswered(decision: Decision) -> Ruling:
    """An earlier question of this turn found nobody, so this one is not asked."""
    why = (
        "Nobody answered an earlier question, so the user was not asked again. Do what needs no permission, "
        "then end your turn and say what is left."
    )
    return Ruling(False, f"{DENIED} {why}", decision.rule)


def unwritten(decision: Decision, error: Exception) -> Ruling:
    """The decision could not be written down, so it does not count."""
    why = f"{one_line(str(error), _LONGEST_REASON)}. Nothing runs that cannot be written down; tell the user."
    return Ruling(False, f"{DENIED} {why}", decision.rule)
