"""The environment of commands: what of ours they inherit, and that credentials never are among it.

`clean_env` is for commands in a sandbox: only names that tools are known to need pass. `without_credentials` is for
commands that run outside with the user's consent: everything passes but what looks like a credential. Names are judged
first, then values; a name the user listed in `keep` passes both.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from accord.policy.sandbox.places import words

_NAMES: Final = words(
    # the user and the machine
    "PATH HOME USER LOGNAME SHELL HOSTNAME PWD TZ TZDIR LANG LANGUAGE MANPATH INFOPATH CI "
    # how output is shown
    "TERM TERMINFO TERMINFO_DIRS COLORTERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE LS_COLORS "
    "PAGER LESS EDITOR VISUAL "
    # where things are kept
    "XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME XDG_CONFIG_DIRS XDG_DATA_DIRS "
    # ways to the network and whom to believe there
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NIX_SSL_CERT_FILE GIT_SSL_CAINFO "
    # git, without what can carry configuration or run programs
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE "
    "GIT_PAGER GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS "
    # building
    "CC CXX CPP LD AR AS NM RANLIB STRIP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBS CPATH C_INCLUDE_PATH "
    "CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH PKG_CONFIG PKG_CONFIG_PATH MAKEFLAGS MAKE SOURCE_DATE_EPOCH "
    # languages that use few names
    "GOPATH GOROOT GOBIN GOPROXY GOFLAGS GOCACHE GOMODCACHE GOPRIVATE GOSUMDB GOOS GOARCH GOTOOLCHAIN GOMAXPROCS GOENV "
    "JAVA_HOME JDK_HOME JAVA_TOOL_OPTIONS M2_HOME MAVEN_OPTS MAVEN_HOME GRADLE_HOME GRADLE_OPTS GRADLE_USER_HOME "
    "BUNDLE_PATH BUNDLE_GEMFILE GEM_HOME GEM_PATH RUBYLIB RUBYOPT COMPOSER_HOME PERL5LIB NUGET_PACKAGES NIX_PATH "
    "VIRTUAL_ENV VIRTUAL_ENV_PROMPT CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE MAMBA_ROOT_PREFIX PNPM_HOME NVM_DIR NVM_BIN "
    "DJANGO_SETTINGS_MODULE FLASK_APP FLASK_ENV RAILS_ENV RACK_ENV MIX_ENV NODE_ENV DEBUG VERBOSE"
)
_PREFIXES: Final = words(
    "LC_ PYTHON PYTEST_ PIP_ UV_ POETRY_ PDM_ TOX_ NOX_ COVERAGE_ PYENV_ NODE_ NPM_CONFIG_ npm_config_ YARN_ COREPACK_ "
    "VOLTA_ FNM_ DENO_ BUN_ CGO_ CARGO_ RUST RBENV_ ASDF_ MISE_ SDKMAN_ DOTNET_ CMAKE_ CCACHE_ SCCACHE_ "
    "ELIXIR_ ERL_ HEX_ MIX_ OPAM OCAML GHCUP_ STACK_ CABAL_"
)
_NEVER: Final = re.compile(
    r"(?:^|_)(?:API|ACCESS|PRIVATE|SECRET|SIGNING|ENCRYPTION|DEPLOY|MASTER|LICENSE)_?KEYS?(?:_|$)"
    r"|TOKEN|SECRET|PASSW(?:OR)?D|PASSPHRASE|CREDENTIAL|COOKIE"
    r"|(?:^|_)(?:PASS|PAT|HTTP_BASIC|DSN|KEY)(?:_|$)|_AUTH$"
    r"|:_|(?:^|_)DATABASE_URL$",
    re.IGNORECASE,
)
# Ways to somebody else's rights: agents that hold keys, buses, servers that run as another user.
_CHANNELS: Final = re.compile(
    r"^(?:SSH_|DBUS_|DOCKER_|CONTAINER_HOST|PODMAN_|GPG_|GNOME_KEYRING|KRB5|KUBECONFIG|SUDO_|XAUTHORITY|DISPLAY|"
    r"WAYLAND_|XDG_RUNTIME_DIR|XDG_SESSION|VSCODE_|NVIM|TMUX|STY|I3SOCK|SWAYSOCK|LISTEN_|NOTIFY_SOCKET|BASH_ENV|ENV$|"
    r"BASH_FUNC|LD_PRELOAD|LD_AUDIT|GIT_CONFIG|GIT_ASKPASS|GIT_SSH|TMPDIR$|TEMP$|TMP$)"
)
_CREDENTIAL_VALUE: Final = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@"  # a password inside a URL
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16}|gh[opsur]_[A-Za-z0-9]{20}|github_pat_|glpat-|xox[abprs]-|AKIA[A-Z0-9]{12}"
    r"|ASIA[A-Z0-9]{12}|AIza[A-Za-z0-9_-]{30}|npm_[A-Za-z0-9]{30}|pypi-[A-Za-z0-9_-]{30}|hf_[A-Za-z0-9]{30}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ)"
)


def clean_env(env: Mapping[str, str], *, keep: Collection[str] = ()) -> dict[str, str]:
    """What a sandboxed command inherits: the names tools need, without credentials and ways around the sandbox."""
    return {name: value for name, value in env.items() if name in keep or _is_plain(name, value)}


def without_credentials(env: Mapping[str, str], *, keep: Collection[str] = ()) -> dict[str, str]:
    """What a command outside the sandbox inherits: everything but credentials."""
    return {name: value for name, value in env.items() if name in keep or not is_credential(name, value)}


def is_credential(name: str, value: str) -> bool:
    """Whether a variable looks like a credential, by its name or by its value."""
    return _NEVER.search(name) is not None or holds_credential(value)


def holds_credential(text: str) -> bool:
    """Whether there is something in the text that has the shape of a credential."""
    return _CREDENTIAL_VALUE.search(text) is not None


def _is_plain(name: str, value: str) -> bool:
    known = name in _NAMES or name.startswith(_PREFIXES)
    return known and _CHANNELS.search(name) is None and not is_credential(name, value)
