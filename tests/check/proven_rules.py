"""The rules that `make conform` needs to see kept: `python -m tests.check.proven_rules agent` prints them."""

import sys

from accord.check.check_run import AGENTS, CLIENTS
from accord.schema.conformance_rules import RULES

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


if __name__ == "__main__":
    sys.stdout.write(",".join(AGENT_PROVEN if sys.argv[1] == "agent" else RUN_PROVEN))
