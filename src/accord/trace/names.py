"""Which names promise a secret: members of an object, environment variables, headers, options of a command.

Judged by the words of a name, so that `apiKey`, `API_KEY` and `--api-key` are one. In doubt a name promises a secret:
what is missing in a recording can be asked for, what is in it has left the house.
"""

import re
from functools import lru_cache
from typing import Final


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_ALWAYS: Final = frozenset(
    words(
        "secret secrets password passwords passwd passphrase passcode passkey credential credentials creds cookie cookies "
        "apikey apikeys apitoken authorization authtoken accesstoken refreshtoken bearer jwt dsn otp totp privatekey "
        "secretkey accesskey clientsecret sas pgpass htpasswd"
    )
)
# Words that promise one only as the last of several: `DB_PWD`, `github_pat`, `x-auth`.
_LAST: Final = frozenset(words("pwd pat pass auth signature sig dsns key keys"))
_PLAIN_KEYS: Final = frozenset(
    words(
        "public cache idempotency primary foreign sort partition hot shortcut group object row map dedupe lookup "
        "translation i18n route event index unique composite short registry arrow function modifier host"
    )
)
_PLAIN_TOKENS: Final = frozenset(
    words(
        "count counts limit limits max min maximum minimum usage budget total type types input output cached cache reasoning "
        "thought thinking completion prompt stop progress cancellation page continuation next rate per window cost price "
        "context size endpoint url uri path file expiry expires used left remaining saved env name"
    )
)

_PLAIN_VARIABLES: Final = frozenset(
    words(
        "PATH HOME USER LOGNAME SHELL HOSTNAME PWD OLDPWD TZ LANG LANGUAGE CI TERM COLORTERM COLUMNS LINES NO_COLOR "
        "FORCE_COLOR CLICOLOR PAGER EDITOR VISUAL TMPDIR TEMP TMP NODE_ENV DEBUG VERBOSE LOG_LEVEL RUST_LOG RUST_BACKTRACE "
        "PYTHONPATH PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONUTF8 VIRTUAL_ENV NODE_OPTIONS NODE_PATH GOPATH GOROOT "
        "JAVA_HOME CARGO_HOME RUSTUP_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME XDG_RUNTIME_DIR "
        "GIT_TERMINAL_PROMPT GIT_PAGER GIT_EDITOR ACCORD_HOME ACCORD_MODEL SYSTEMROOT WINDIR COMSPEC APPDATA LOCALAPPDATA "
        "USERPROFILE"
    )
)
_PLAIN_HEADERS: Final = frozenset(
    words(
        "accept accept-charset accept-encoding accept-language cache-control connection content-encoding content-language "
        "content-length content-type date expect host if-modified-since if-none-match keep-alive last-modified "
        "mcp-protocol-version origin range referer te trailer transfer-encoding upgrade user-agent vary via x-request-id "
        "anthropic-version anthropic-beta openai-beta"
    )
)


@lru_cache(4096)
def is_secret(name: str) -> bool:
    """Whether what is called so is kept out of recordings."""
    parts = [word.lower() for word in _WORDS.findall(name[-200:])]
    if not _ALWAYS.isdisjoint(parts):
        return True
    if not parts or len(parts) == 1:
        return parts == ["token"]
    if "token" in parts or "tokens" in parts:
        return _PLAIN_TOKENS.isdisjoint(parts)
    last = parts[-1] if not parts[-1].isdigit() else parts[-2]
    if last in ("key", "keys"):
        return _PLAIN_KEYS.isdisjoint(parts)
    return last in _LAST and parts != ["old", "pwd"]


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable is kept out: all are but those known to be harmless."""
    return name not in _PLAIN_VARIABLES and not name.startswith("LC_")


def is_secret_header(name: str) -> bool:
    """Whether an HTTP header is kept out: all are but those known to be harmless."""
    return name.lower() not in _PLAIN_HEADERS
