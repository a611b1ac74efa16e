"""What a client finds on this machine: agents it can launch, and terminals for what they run."""

import os

from accord.cli.health import BROKEN, Finding
from accord.errors import UsageError


def surroundings() -> list[Finding]:
    """All of it."""
    return [*_agents(), _terminal()]


def _agents() -> list[Finding]:
    from accord.cleaning import visible
    from accord.client.servers import leave_out, load

    try:
        servers = load(".", trust=leave_out)
    except UsageError as error:
        return [Finding("agents", BROKEN, f"{error}; put it right: no agent is launched like this")]
    found = [server.name for server in servers if server.origin != "built-in" and server.installed()]
    missing = [
        server.name for server in servers.configured if server.origin != "built-in" and not server.installed()
    ]
    default = f"{visible(servers.default.name)} runs by default"
    names = f", here are {visible(', '.join(found))}" if found else ""
    findings = [
        Finding(
            "agents", str(len(found) + 1), f"{default}{names}; accord agents list tells how to get others"
        )
    ]
    if missing:
        remark = f"{visible(', '.join(missing))}: accord agents show NAME tells which program is not there"
        findings.append(Finding("agents", "missing", remark))
    if servers.left_out is not None:
        path = visible(str(servers.left_out.path))
        findings.append(
            Finding("acp.json", "waiting", f"{path} counts once you agree to it: accord agents trust")
        )
    return findings


def _terminal() -> Finding:
    """Whether commands can run in a terminal of their own, after trying to have one."""
    if not hasattr(os, "openpty"):
        return Finding("terminals", "missing", "this system has none that programs can make")
    try:
        ends = os.openpty()
    except OSError as error:
        return Finding("terminals", "missing", f"none can be made ({error.strerror}): mount /dev/pts")
    for end in ends:
        os.close(end)
    return Finding("terminals", "work", "agents can be given commands in terminals of their own")
