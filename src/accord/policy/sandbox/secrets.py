"""What no sandboxed command may read: where keys and logins are kept, and the files inside the roots that hold them.

Files inside the roots are found by name in a walk that is bounded; whether it saw everything is part of the answer.
"""

import os
import re
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import iglob
from typing import Final

from accord.paths import HOME_VARIABLE, config_dir, data_dir
from accord.policy.sandbox.places import words

_IN_HOME: Final = words(
    ".ssh .gnupg .aws .azure .config/gcloud .config/gh .config/hub .config/glab-cli .config/op .config/sops .config/rclone "
    ".config/doctl .config/hcloud .config/containers/auth.json .config/git/credentials .config/google-chrome "
    ".config/chromium .config/BraveSoftware .config/Code .config/Cursor .config/zed .config/github-copilot .config/configstore "
    ".mozilla .thunderbird .netrc _netrc .git-credentials .pypirc .npmrc .yarnrc.yml .gem/credentials .cargo/credentials "
    ".cargo/credentials.toml .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .docker .kube .helm "
    ".terraform.d .terraformrc .vault-token .password-store .local/share/keyrings .local/share/kwalletd .pki .claude "
    ".claude.json .codex .gemini .config/opencode .local/share/opencode .config/anthropic .config/openai .huggingface "
    ".cache/huggingface/token .pgpass .my.cnf .mongorc.js .s3cfg .boto .fly .heroku .bash_history .zsh_history "
    ".python_history .node_repl_history .psql_history .mysql_history .Xauthority .ICEauthority .wine"
)
_ELSEWHERE: Final = words(
    # sockets that lead to keys or to other users' rights, and what only the system itself may read
    "/run/dbus /run/user /run/docker.sock /run/podman /run/containerd /run/systemd /run/secrets /var/run/secrets "
    "/tmp/.X11-unix /tmp/.ICE-unix /tmp/ssh-* /tmp/tmux-* /tmp/dbus-* /tmp/gpg-* /tmp/vscode-* /tmp/krb5cc_* "
    "/etc/shadow* /etc/gshadow* /etc/sudoers* /etc/ssh/ssh_host_*_key /etc/ssl/private /etc/krb5.keytab "
    "/etc/wireguard /etc/kubernetes /etc/rancher /etc/letsencrypt /etc/NetworkManager/system-connections"
)

NAMES_IN_ROOTS: Final = re.compile(
    r"""
    \.env | \.env\.(?!(?:example|sample|template|dist|defaults?|schema|test)$).+ | \.envrc
    | \.netrc | _netrc | \.git-credentials | \.pypirc | \.pgpass | \.my\.cnf | \.dockercfg | \.s3cfg | \.boto
    | \.vault-token | \.vault[-_]pass(?:word)? | id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)? | .+\.(?:p12|pfx|ppk|kdbx)
    | credentials\.json | service[-_]account.*\.json | client_secret.*\.json | master\.key
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Files with these names are hidden wherever they lie in the roots. Fewer than are asked about before the agent reads them:
what tests and tools of a project commonly need, such as certificates, stays."""

_HEAVY: Final = words(
    ".git node_modules .venv venv .tox .nox __pycache__ .mypy_cache .ruff_cache .pytest_cache .cache target .gradle "
    ".next .nuxt .terraform bower_components site-packages"
)
_LOOKED_AT: Final = 50_000
_HIDDEN: Final = 200  # each costs every command a mount


@dataclass(frozen=True, slots=True)
class InRoots:
    """What a walk through the roots found; not `complete` if it stopped at a bound."""

    secrets: tuple[str, ...] = ()
    complete: bool = True


def known_secrets(home: str) -> Iterator[str]:
    """The places of keys and logins that exist on this machine now, and Accord's own."""
    candidates = [os.path.join(home, relative) for relative in _IN_HOME]
    candidates += accord_places()
    for pattern in _ELSEWHERE:
        candidates += iglob(pattern) if "*" in pattern else (pattern,)
    for place in candidates:
        if os.path.lexists(place):
            yield os.path.realpath(place)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # Root may read what no other user may; a command it starts in a sandbox may not.
        yield from _kept_from_others("/etc", depth=3)


def accord_places() -> tuple[str, ...]:
    """Where Accord keeps credentials, settings, logs of sessions and of decisions: where it would by itself, too, if moved."""
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("accord", appauthor=False)
    standard = (dirs.user_config_dir, dirs.user_data_dir, dirs.user_state_dir, dirs.user_cache_dir)
    moved = (config_dir().parent,) if os.environ.get(HOME_VARIABLE) else (config_dir(), data_dir())
    return (*map(str, moved), *standard)


def look_through(roots: Sequence[str], names: re.Pattern[str] = NAMES_IN_ROOTS) -> InRoots:
    """Find the secrets inside the roots by name. Reads folders only; may take a while in large ones."""
    secrets: list[str] = []
    budget = _LOOKED_AT
    waiting = deque(roots)  # the upper folders first: if the bound is met, then far down
    while waiting:
        for entry in _entries(waiting.popleft()):
            budget -= 1
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _HEAVY:
                    waiting.append(entry.path)
            elif names.fullmatch(entry.name) and os.path.isfile(entry.path):
                secrets.append(os.path.realpath(entry.path))
        if budget <= 0 or len(secrets) > _HIDDEN:
            return InRoots(tuple(secrets[:_HIDDEN]), complete=False)
    return InRoots(tuple(dict.fromkeys(secrets)))


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # what cannot be listed by us cannot be listed by the command


def _kept_from_others(folder: str, depth: int) -> Iterator[str]:
    for entry in _entries(folder):
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            if not mode & stat.S_IXOTH:
                yield entry.path
            elif depth > 1:
                yield from _kept_from_others(entry.path, depth - 1)
        elif stat.S_ISREG(mode) and not mode & stat.S_IROTH:
            yield entry.path
