"""The modes of a session, and the four words of a client: what happens to what no rule and no agreement speaks of."""

from .acts import Act
from .request import STRICTNESS, Effect, Mode, Request
from .rules import Word

Verdict = tuple[Effect, str]


def posture(act: Act, request: Request, word: Word | None) -> Verdict:
    """What the mode says; a default from the rules can only make it stricter. Without a mode the default decides."""
    if request.mode is None:
        return _by_word(act, word or "ask")
    verdict = _by_mode(act, request, request.mode)
    if word == "none":
        return ("deny", "the rules allow nothing else")
    if word in ("ask", "reads") and request.mode == "full-access":
        asked = _by_mode(act, request, "ask")
        return asked if STRICTNESS[asked[0]] > STRICTNESS[verdict[0]] else verdict
    return verdict


def forbidden(act: Act, request: Request) -> str | None:
    """Why the mode forbids this whatever else is allowed."""
    if request.mode not in ("read-only", "plan") or _only_reads(act, request) or act.sort == "fetch":
        return None
    if request.kind == "switch_mode":
        return None
    return f"{request.mode} mode changes nothing: {act.label}"


def runs_anything(request: Request) -> bool:
    """Whether even a command that nobody can read may run: everything may, or nothing gets out of the sandbox."""
    return request.mode == "full-access" or (request.mode == "workspace-write" and request.sandboxed)


def _only_reads(act: Act, request: Request) -> bool:
    return act.sort == "read" or act.only_reads or (act.sort == "use" and request.read_only)


def _by_word(act: Act, word: Word) -> Verdict:
    if word == "all":
        return ("allow", "everything is allowed")
    if word == "none":
        return ("deny", "nothing is allowed")
    if word == "reads" and act.sort == "read" and not act.in_line:
        return ("allow", "reading is allowed")
    return ("ask", f"{act.label} needs your permission")


def _by_mode(act: Act, request: Request, mode: Mode) -> Verdict:
    if mode == "full-access":
        return ("allow", "full-access mode allows it")
    if request.kind == "switch_mode":
        return ("ask", "changing the mode needs your permission")
    if _only_reads(act, request):
        return ("allow", "reading is allowed")
    if act.sort == "fetch":
        return ("ask", f"{act.label} for the first time in this session")
    if mode == "workspace-write":
        if act.sort == "write" and not act.in_line and act.places:
            return ("allow", "workspace-write mode allows writing in the session's folders")
        if act.in_line and request.sandboxed:
            return ("allow", "it runs inside the sandbox")
        if act.sort == "run" and not request.sandboxed:
            return ("ask", f"{act.label} would run without a sandbox")
    return ("ask", f"{act.label} needs your permission")
