"""The environment of a command without credentials, and the tool folders it may read.

Imported on first use.
"""

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from accord.trace.secret_names import is_credential_variable

# Folders that every command may read, so that the tools of the machine and of the user work. Everything else
# (other projects, the rest of the home folder, /var, /mnt, other users) is readable in a sandbox only if it
# is named. A home folder holds tools and secrets, so its tool folders are listed one by one.


def words(text: str) -> tuple[str, ...]:
    """Split a table that is written as text."""
    return tuple(text.split())


SYSTEM_FOLDERS: Final = words(
    "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix /gnu /snap /sys /home/linuxbrew/.linuxbrew "
    "/run/current-system /run/opengl-driver /var/lib/ca-certificates /var/lib/dpkg /var/cache/fontconfig"
)

_TOOLS_IN_HOME: Final = words(
    # version managers and toolchains
    ".pyenv .rbenv .nodenv .goenv .jenv .asdf .nvm .fnm .volta .sdkman .rustup .cargo/bin .cargo/env "
    ".ghcup/bin .elan "
    ".juliaup .opam .dotnet .deno/bin .bun/bin .yarn/bin .npm-global .linuxbrew go/bin miniconda3 "
    "anaconda3 miniforge3 "
    "mambaforge micromamba .local/bin .local/lib .local/pipx .local/share/uv .local/share/mise "
    ".local/share/fnm "
    ".local/share/nvm .local/share/pipx .local/share/pnpm .local/share/virtualenv .local/share/virtualenvs "
    # settings of tools
    ".bashrc .bash_profile .profile .zshrc .zshenv .inputrc .editorconfig .config/git/ignore "
    ".config/git/attributes "
    ".config/pip .config/ruff .config/nix"
)

GIT_CONFIGS: Final = (".gitconfig", ".config/git/config")
"""They contain the name and address for commits. A file with a token stays hidden."""


def tool_folders(home: str, search_path: str) -> Iterator[str]:
    """Yield existing tool folders and files besides `SYSTEM_FOLDERS`: the user's, and those on PATH."""
    for relative in _TOOLS_IN_HOME:
        tool = os.path.join(home, relative)
        if os.path.exists(tool):
            yield tool
    for folder in dict.fromkeys(search_path.split(os.pathsep)):
        if os.path.isabs(folder) and os.path.isdir(folder):
            yield from _installation_of(os.path.normpath(folder), home)
    yield from {sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))}


def name_service_files() -> Iterator[str]:
    """Yield the files for name lookup, if /etc contains only links to them."""
    for link in ("/etc/resolv.conf", "/etc/hosts", "/etc/localtime"):
        if os.path.islink(link) and os.path.exists(link):
            yield os.path.realpath(link)


def _installation_of(folder: str, home: str) -> Iterator[str]:
    """Yield a folder on PATH, and its installation if that contains nothing else."""
    prefix = os.path.dirname(folder)
    is_environment = any(
        os.path.exists(os.path.join(prefix, marker)) for marker in ("pyvenv.cfg", "conda-meta")
    )
    contains_home = is_within(home, prefix)
    if is_environment and not contains_home:
        yield prefix
        return
    if not is_within(home, folder):
        yield folder
    if not contains_home and not is_within(prefix, home) and os.path.isdir(os.path.join(prefix, "lib")):
        yield prefix


def is_within(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies below it. Both must be absolute and normal."""
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


# Environment variables. `clean_env` is for commands in a sandbox and passes only names that tools need.
# `without_credentials` is for commands outside of it and passes everything that does not look like a
# credential. Names are checked first, then values. A name in `keep` passes both.

_ALLOWED_NAMES: Final = words(
    # the user and the machine
    "PATH HOME USER LOGNAME SHELL HOSTNAME PWD TZ TZDIR LANG LANGUAGE MANPATH INFOPATH CI "
    # output
    "TERM TERMINFO TERMINFO_DIRS COLORTERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE "
    "LS_COLORS "
    "PAGER LESS EDITOR VISUAL "
    # folders
    "XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME XDG_CONFIG_DIRS XDG_DATA_DIRS "
    # proxies and certificates
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NIX_SSL_CERT_FILE GIT_SSL_CAINFO "
    # git, without variables that carry configuration or run programs
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL "
    "GIT_COMMITTER_DATE "
    "GIT_PAGER GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS "
    # building
    "CC CXX CPP LD AR AS NM RANLIB STRIP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBS CPATH C_INCLUDE_PATH "
    "CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH PKG_CONFIG PKG_CONFIG_PATH MAKEFLAGS MAKE "
    "SOURCE_DATE_EPOCH "
    # languages with few names
    "GOPATH GOROOT GOBIN GOPROXY GOFLAGS GOCACHE GOMODCACHE GOPRIVATE GOSUMDB GOOS GOARCH GOTOOLCHAIN "
    "GOMAXPROCS GOENV "
    "JAVA_HOME JDK_HOME JAVA_TOOL_OPTIONS M2_HOME MAVEN_OPTS MAVEN_HOME GRADLE_HOME GRADLE_OPTS "
    "GRADLE_USER_HOME "
    "BUNDLE_PATH BUNDLE_GEMFILE GEM_HOME GEM_PATH RUBYLIB RUBYOPT COMPOSER_HOME PERL5LIB NUGET_PACKAGES "
    "NIX_PATH "
    "VIRTUAL_ENV VIRTUAL_ENV_PROMPT CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE MAMBA_ROOT_PREFIX PNPM_HOME "
    "NVM_DIR NVM_BIN "
    "DJANGO_SETTINGS_MODULE FLASK_APP FLASK_ENV RAILS_ENV RACK_ENV MIX_ENV NODE_ENV DEBUG VERBOSE"
)
_ALLOWED_PREFIXES: Final = words(
    "LC_ PYTHON PYTEST_ PIP_ UV_ POETRY_ PDM_ TOX_ NOX_ COVERAGE_ PYENV_ NODE_ NPM_CONFIG_ npm_config_ "
    "YARN_ COREPACK_ "
    "VOLTA_ FNM_ DENO_ BUN_ CGO_ CARGO_ RUST RBENV_ ASDF_ MISE_ SDKMAN_ DOTNET_ CMAKE_ CCACHE_ SCCACHE_ "
    "ELIXIR_ ERL_ HEX_ MIX_ OPAM OCAML GHCUP_ STACK_ CABAL_"
)
# Ways to other rights: agents that hold keys, buses, servers that run as another user.
_ESCAPE_ROUTES: Final = re.compile(
    r"^(?:SSH_|DBUS_|DOCKER_|CONTAINER_HOST|PODMAN_|GPG_|GNOME_KEYRING|KRB5|KUBECONFIG|SUDO_|"
    r"XAUTHORITY|DISPLAY|"
    r"WAYLAND_|XDG_RUNTIME_DIR|XDG_SESSION|VSCODE_|NVIM|TMUX|STY|I3SOCK|SWAYSOCK|LISTEN_|NOTIFY_SOCKET|"
    r"BASH_ENV|ENV$|"
    r"BASH_FUNC|LD_PRELOAD|LD_AUDIT|GIT_CONFIG|GIT_ASKPASS|GIT_SSH|TMPDIR$|TEMP$|TMP$)"
)


def clean_env(env: Mapping[str, str], *, keep: Collection[str] = ()) -> dict[str, str]:
    """Return what a sandboxed command inherits: known names, without credentials and escape routes."""
    return {name: value for name, value in env.items() if name in keep or _may_pass(name, value)}


def without_credentials(env: Mapping[str, str], *, keep: Collection[str] = ()) -> dict[str, str]:
    """Return what a command outside the sandbox inherits: everything except credentials."""
    return {name: value for name, value in env.items() if name in keep or not is_credential(name, value)}


def is_credential(name: str, value: str) -> bool:
    """Whether a variable looks like a credential, by its name or by its value."""
    return is_credential_variable(name) or holds_credential(value)


def holds_credential(text: str) -> bool:
    """Whether a part of the text is a known credential, a private key or a password in a URL."""
    from accord.trace.text_redaction import holds_credential  # on first use: it compiles many patterns

    return holds_credential(text)


def _may_pass(name: str, value: str) -> bool:
    known = name in _ALLOWED_NAMES or name.startswith(_ALLOWED_PREFIXES)
    return known and _ESCAPE_ROUTES.search(name) is None and not is_credential(name, value)
