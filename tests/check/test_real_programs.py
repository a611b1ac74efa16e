"""The whole check on real programs: `accord agent`, `accord run`, and clients on the official SDKs.

docs/conformance.md has all results.
"""

import shutil
import sys

import pytest
from tests.check.client_conformance import ONE_TURN, PEERS, PLACEHOLDERS

from accord.check.agent.agent_under_test import AgentProcessLauncher
from accord.check.check_run import AGENTS, CLIENTS, CheckOptions, check_agent, check_client
from accord.check.check_script import ClientCheckScript, read_script
from accord.check.checked_connection import CheckTimeouts
from accord.check.client.client_process import ClientProcessLauncher
from accord.check.findings import RuleId
from accord.schema.conformance_rules import RULES

AGENT = (sys.executable, "-m", "accord.cli", "agent")
AGENT_WITHOUT_LOGIN = {
    "auth.authenticate",
    "auth.required-error",
    "auth.logout-requires-login",
    "option.boolean-needs-capability",
    "plan.update-needs-capability",
    "plan.fallback",
}
"""It needs no login, and has no boolean options and no plans with ids."""
AGENT_NOT_OFFERED = {
    *(
        "provider.disabled-not-current",
        "provider.required-stays",
        "provider.unknown-disabled",
        "provider.unknown-refused",
        "provider.headers-secret",
    ),
    *(
        "archive.needs-list",
        "archive.hides",
        "archive.cancels-turn",
        "archive.idempotent",
        "archive.unarchive-opens-nothing",
        "archive.filter",
        "archive.filter-invalid-refused",
        "archive.member-in-list",
    ),
    *(
        "status.changes-nothing",
        "status.open-or-saved",
        "status.unknown-session",
        "title.stored",
        "title.invalid-refused",
        "title.not-overwritten",
    ),
    *(
        "auth-status.changes-nothing",
        "auth-status.members",
        "auth-status.update-advertised",
        "auth-status.update-only-changes",
    ),
    "mcp.declared-server",
}
"""Providers, archive, status, titles, auth status, MCP over ACP."""
AGENT_UNSEEN = {
    "extension.trace-context",
    "cancel-request.agent-own-abort",
    "auth.terminal-login-exits",
    "session.list-page-size",
    "session.roots-forbidden-refused",
    "elicitation.no-secrets-without-url",
    "elicitation.unique-id",
    "elicitation.url",
    "elicitation.own-completions",
    "system-prompt.applied",
    "system-prompt.precedence",
    "mcp.result-counts",
    "subagent.absolute-paths",
}
"""Behavior that it does not have, or that cannot be seen from outside.

It lists no sessions without a prompt, so the pages of its list (124) are not seen.
"""
AGENT_MACHINE_DEPENDENT = {
    "notice.members",
    "notice.not-replayed",
    "notice.optional",
    "notice.needs-capability",
    "notice.text-as-fallback",
}
"""Its notices are about the sandbox for commands, which differs between machines."""
AGENT_PROVEN = [
    rule
    for rule in AGENTS.rules
    if rule in RULES.by_slug
    and rule not in AGENT_WITHOUT_LOGIN | AGENT_NOT_OFFERED | AGENT_UNSEEN | AGENT_MACHINE_DEPENDENT
]

RUN = (sys.executable, "-m", "accord.cli", "run", "{prompt}", "--", "{agent}")
RUN_NOT_OFFERED = {
    "file.unadvertised-method",
    "elicitation.unadvertised-mode",
    "notice.unadvertised",
    "mcp.result-or-error",
    "mcp.notification-of-active-request",
    "mcp.malformed-refused",
    "subagent.updates-accepted",
    "subagent.inherited-roots",
}
"""It offers files, terminals and forms, wants notices, is no MCP server, and has no subagents."""
RUN_NEVER_DOES = {
    "extension.client-announced",
    "auth.terminal-login",
    "auth.logout-needs-capability",
    "session.close-needs-capability",
    "session.delete-needs-capability",
    "fork.needs-capability",
    "provider.needs-capability",
    "archive.needs-capability",
    "archive.filter-kept-in-pages",
    "status.needs-capability",
    "title.needs-capability",
    "system-prompt.needs-capability",
    "auth-status.needs-capability",
}
"""Extensions of its own, login at a terminal (`accord agents login` does that) and logout, close, delete,
fork, providers, archive, status, titles, system prompts.
"""
RUN_PROVEN = [
    rule
    for rule in CLIENTS.rules
    if rule in RULES.by_slug and rule not in RUN_NOT_OFFERED | RUN_NEVER_DOES | set(CLIENTS.untested)
]

NODE = shutil.which("node") or ""
KEPT_BY_OFFICIAL_CLIENTS: list[RuleId] = [
    "framing.client-unknown-method",
    "initialize.first",
    "session.new-members",
    "prompt.client-serves-during-turn",
    "permission.served",
    "file.read-result",
    "terminal.exit-status",
    "fault-twice",
    "fault-pieces",
]


@pytest.mark.timeout(1800)
@pytest.mark.rule(*AGENT_PROVEN)
async def test_accord_agent_breaks_no_rule() -> None:
    launcher = AgentProcessLauncher(AGENT, exit_timeout=40.0)
    report = await check_agent(launcher, options=CheckOptions(timeouts=CheckTimeouts().scaled(5)))
    assert report.name == "accord"
    assert report.script == "accord agent on rehearsal"
    assert {one.rule.slug: (one.why, one.frames) for one in report.of("fail", "warn")} == {}
    passed = {one.rule.slug for one in report.of("pass")}
    assert {str(rule) for rule in AGENT_PROVEN} - passed == set()
    assert {rule for rule in AGENTS.rules if rule not in RULES.by_slug} <= passed


@pytest.mark.timeout(1800)
@pytest.mark.rule(*RUN_PROVEN)
async def test_accord_run_breaks_no_rule() -> None:
    options = CheckOptions(timeouts=CheckTimeouts().scaled(5), jobs=3)
    report = await check_client(ClientProcessLauncher(RUN), options=options)
    assert (report.kind, report.name, report.script) == ("client", "accord", "accord run")
    assert {one.rule.slug: (one.why, one.frames) for one in report.of("fail", "warn")} == {}
    passed = {one.rule.slug for one in report.of("pass")}
    assert {str(rule) for rule in RUN_PROVEN} - passed == set()
    assert {rule for rule in CLIENTS.rules if rule not in RULES.by_slug} <= passed


@pytest.mark.parametrize(
    "command",
    [
        pytest.param((sys.executable, str(PEERS / "official_python_client.py")), id="python"),
        pytest.param(
            (NODE, str(PEERS / "official_ts_client.mjs")),
            id="typescript",
            marks=pytest.mark.skipif(not NODE, reason="needs node"),
        ),
    ],
)
async def test_official_clients_pass_the_rules_they_keep(command: tuple[str, ...]) -> None:
    options = CheckOptions(
        script=read_script(ONE_TURN, ClientCheckScript), timeouts=CheckTimeouts().scaled(5)
    )
    launcher = ClientProcessLauncher((*command, *PLACEHOLDERS))
    report = await check_client(launcher, KEPT_BY_OFFICIAL_CLIENTS, options)
    assert {one.rule.slug: (one.verdict, one.why) for one in report.findings if one.verdict != "pass"} == {}
