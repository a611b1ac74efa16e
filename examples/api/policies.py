"""Permission rules and decisions, errors, and text that is safe to show."""

from pathlib import Path

import accord
from accord.errors import (
    BadSettings,
    InternalError,
    InvalidParams,
    InvalidRequest,
    LimitReached,
    MethodNotFound,
    MissingExtra,
    NotFound,
    ParseError,
    RequestCancelled,
    SessionInUse,
    StoreError,
)
from accord.frontend.policy_handler import action_request, by_policy, decide, refusal, session_directories
from accord.policy import (
    MODE_DESCRIPTIONS,
    MODES,
    ActionRequest,
    AuditFailed,
    BadRules,
    Category,
    Decision,
    DecisionLog,
    Effect,
    Grant,
    Grants,
    GrantScope,
    Mode,
    PermissionDefault,
    ResolvedPath,
    SessionDirectories,
    TrustStore,
    UserAnswer,
    category_of,
    host_of,
    is_secret,
    options_for,
    read_answer,
    read_permissions,
    redacted,
    remember,
)
from accord.safe_text import TextCleaner, clean_line, clean_text, one_line, visible
from accord.schema import PermissionOption
from accord.testing import ScriptedAgent, ask, tool


async def decide_by_rules() -> None:
    rules = accord.Rules(
        allow=(accord.Rule(kind="execute", command="pytest *"),),
        deny=(accord.Rule(path="deploy/**"),),
    )
    request = ActionRequest(
        directories=SessionDirectories.of(Path.cwd()), category="execute", kind="execute", command="pytest -q"
    )
    decision: Decision = accord.Policy(rules).decide(request)
    effect: Effect = decision.effect
    assert effect == "allow" and decision.allowed


async def read_rules_of_a_file() -> None:
    rules = read_permissions({"allow": ["read"], "default": "none"}, file="acp.json")
    default: PermissionDefault | None = rules.permission_default
    assert default == "none"
    try:
        read_permissions({"alow": []}, file="acp.json")
    except BadRules as error:
        assert "acp.json" in str(error)


async def list_the_modes() -> None:
    mode: Mode = "plan"
    assert mode in MODES and MODE_DESCRIPTIONS[mode]
    category: Category = category_of("edit")
    assert category == "write"


async def ask_and_remember() -> None:
    grants = Grants()
    request = ActionRequest(
        directories=SessionDirectories.of(Path.cwd()),
        category="execute",
        kind="execute",
        command="make",
        grants=grants,
    )
    decision = accord.Policy().decide(request)
    options = options_for(request, decision)
    answer: UserAnswer = read_answer(
        options, {"outcome": {"outcome": "selected", "optionId": options[0].option_id}}
    )
    remember(request, decision, answer)
    assert answer.allowed


async def grant_a_host() -> None:
    scope = GrantScope((Grant("host", ("docs.python.org",)),))
    grants = Grants()
    grants.allow(scope)
    assert grants.covers(scope.grants[0])
    assert host_of("https://docs.python.org/3/") == "docs.python.org"


async def log_decisions() -> None:
    request = ActionRequest(directories=SessionDirectories.of(Path.cwd()), category="read-only", kind="read")
    log = DecisionLog(Path.cwd().parent / "decisions.jsonl")
    try:
        log.record(request, accord.Policy().decide(request))
    except AuditFailed as error:
        print(error)


async def trust_a_file() -> None:
    trusted = TrustStore(Path("trust").resolve())
    trusted.trust("acp.json", b"{}")
    assert trusted.is_trusted("acp.json", b"{}") and not trusted.is_trusted("acp.json", b"[]")


async def resolve_a_path() -> None:
    found: ResolvedPath | None = SessionDirectories.of(Path.cwd()).resolve("a.txt")
    assert found is not None and found.path.name == "a.txt" and is_secret(Path(".env"))
    assert "hunter2" not in redacted("password=hunter2")


async def decide_with_a_reason() -> None:
    policy = accord.Policy(accord.Rules(default="reads"))
    reasons: list[str] = []

    def answer(request: accord.PermissionRequest) -> PermissionOption | str | None:
        decision = decide(policy, action_request(request, Grants()), request)
        reasons.append(f"{decision.reason} ({session_directories(request.session).cwd.name})")
        return request.option("allow_once") if decision.allowed else refusal(request)

    agent = ScriptedAgent([[tool("Edit a.txt", ask(), kind="edit")]])
    handlers = accord.ClientHandlers(permissions=answer)
    async with accord.connect_transport(agent.transport(), handlers=handlers) as remote:
        await (await remote.new_session(".")).ask("edit")
    assert agent.outcomes == [False] and len(reasons) == 1


async def decide_without_a_user() -> None:
    handlers = accord.ClientHandlers(permissions=by_policy(accord.Policy()))
    assert handlers.permissions is not None


async def raise_a_protocol_error() -> None:
    codes = {
        kind.code
        for kind in (
            ParseError(),
            InvalidRequest(),
            MethodNotFound(),
            InvalidParams(),
            InternalError(),
            RequestCancelled(),
            NotFound(),
        )
    }
    assert codes == {-32700, -32600, -32601, -32602, -32603, -32800, -32002}


def explain(error: accord.AccordError) -> str:
    """Return whose fault an error is."""
    match error:
        case MissingExtra() | BadSettings():
            return "the installation or the settings"
        case SessionInUse():
            return "another process"
        case StoreError():
            return "the session log"
        case LimitReached():
            return "a time limit"
        case _:
            return "see the message"


async def explain_an_error() -> None:
    assert explain(accord.TurnSilent("silent")) == "a time limit"


async def show_text_of_an_agent() -> None:
    assert clean_text("\x1b[31mred\x1b[0m") == "red"
    assert clean_line("one\x07 line") == "one line"
    assert "\x1b" not in visible("\x1b[2J") and "\n" not in one_line("two\nlines")
    cleaner = TextCleaner()
    assert cleaner.feed("\x1b[3") + cleaner.feed("1mred") == "red"
