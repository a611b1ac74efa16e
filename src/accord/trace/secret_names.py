"""Names that announce a secret: members of objects, environment variables, headers, command options.

A name is judged by its words, so `apiKey`, `API_KEY` and `--api-key` are the same. In doubt a name counts as
secret: a redacted value can be requested later, a leaked one cannot be taken back.
"""

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final


def words(text: str) -> tuple[str, ...]:
    """Split a text into its words."""
    return tuple(text.split())


REDACTED: Final = "[redacted]"
HARMLESS_VALUES: Final = frozenset(
    ("", REDACTED, *words("true false null none 0 1 yes no on off pass str string"))
)
"""Values that are not worth redacting, in lower case."""

_WORD_IN_NAME: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_SECRET_WORDS: Final = frozenset(
    words(
        "secret secrets passkey credential credentials creds cookie cookies authorization bearer jwt dsn "
        "otp totp sas pgpass htpasswd netrc"
    )
)
# Endings of words that are written together: `PGPASSWORD`, `dbpassword`, `clientsecret`.
_SECRET_ENDINGS: Final = words(
    "password passwords passwd passphrase passcode clientsecret appsecret sharedsecret"
)
_PASS_WORDS: Final = frozenset(
    words("sshpass userpass dbpass mypass rootpass adminpass smtppass mailpass ftppass httppass")
)
# Words before `key` and `token` that make them secret: `API key`, `encryptionkey`, `bot token`.
KEY_KINDS: Final = frozenset(
    words(
        "access account admin api app application auth aws azure bot client consumer crypto decryption "
        "deploy encryption gpg hmac id jwt licence license login machine master oauth personal private "
        "refresh root secret security server service session shared signing ssh storage subscription user "
        "webhook openai anthropic gemini google github gitlab mistral groq openrouter slack stripe npm pypi"
    )
)
# Words that announce a secret only as the last of several: `DB_PWD`, `github_pat`, `x-auth`.
_SECRET_LAST_WORDS: Final = frozenset(words("pwd pat pass auth signature sig dsns"))
# Trailing words that do not change the meaning: `apiKeyValue`.
_NEUTRAL_TRAILING_WORDS: Final = frozenset(
    words("value values val string str raw plain plaintext text b64 base hex header")
)
# Secret as a member or an option, but ordinary words in a text.
_SECRET_MEMBERS: Final = frozenset(words("pass pwd auth oauth tokens"))
_SECRET_OPTIONS: Final = frozenset(words("key keys"))
_HARMLESS_KEYS: Final = frozenset(
    words(
        "public cache idempotency primary foreign sort partition hot shortcut group object row map dedupe "
        "lookup translation i18n route event index unique composite short registry arrow function modifier "
        "host press stop accelerator self this entry item node"
    )
)
_HARMLESS_TOKENS: Final = frozenset(
    words(
        "count counts limit limits max min maximum minimum usage budget total type types input output "
        "cached cache reasoning thought thinking completion prompt stop progress cancellation page "
        "continuation next rate per window cost price average avg budgets new old delta sum num number "
        "length len estimate estimated image audio video text completions prompts inputs outputs special "
        "vocabulary vocab bos eos pad unk mask separator delimiter design color syntax lexer context size "
        "endpoint url uri path file expiry expires used left remaining saved env name"
    )
)

_HARMLESS_VARIABLES: Final = frozenset(
    words(
        "PATH HOME USER LOGNAME SHELL HOSTNAME PWD OLDPWD TZ LANG LANGUAGE CI TERM COLORTERM COLUMNS LINES "
        "NO_COLOR FORCE_COLOR CLICOLOR PAGER EDITOR VISUAL TMPDIR TEMP TMP NODE_ENV DEBUG VERBOSE LOG_LEVEL "
        "RUST_LOG RUST_BACKTRACE PYTHONPATH PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONUTF8 VIRTUAL_ENV "
        "NODE_OPTIONS NODE_PATH GOPATH GOROOT JAVA_HOME CARGO_HOME RUSTUP_HOME XDG_CONFIG_HOME "
        "XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME XDG_RUNTIME_DIR GIT_TERMINAL_PROMPT GIT_PAGER "
        "GIT_EDITOR ACCORD_HOME ACCORD_MODEL SYSTEMROOT WINDIR COMSPEC APPDATA LOCALAPPDATA USERPROFILE"
    )
)
_HARMLESS_HEADERS: Final = frozenset(
    words(
        "accept accept-charset accept-encoding accept-language cache-control connection content-encoding "
        "content-language content-length content-type date expect host if-modified-since if-none-match "
        "keep-alive last-modified mcp-protocol-version origin range referer te trailer transfer-encoding "
        "upgrade user-agent vary via x-request-id anthropic-version anthropic-beta openai-beta"
    )
)


_HARMLESS_SIGNATURES: Final = frozenset(words("function method type call text class operator"))


def is_secret(name: str) -> bool:
    """Tell whether a value of this name is redacted, wherever it occurs."""
    return _is_secret(name[-200:])


@lru_cache(4096)
def _is_secret(name: str) -> bool:
    parts = _split_name(name)
    if not _SECRET_WORDS.isdisjoint(parts) or any(map(_is_secret_word, parts)):
        return True
    if "token" in parts or ("tokens" in parts and len(parts) > 1):
        return _HARMLESS_TOKENS.isdisjoint(parts)
    if len(parts) < 2:
        return False
    last = parts[-1]
    if last in ("key", "keys"):
        return _HARMLESS_KEYS.isdisjoint(parts)
    if last in ("signature", "sig"):
        return _HARMLESS_SIGNATURES.isdisjoint(parts)
    return (last in _SECRET_LAST_WORDS and parts != ["old", "pwd"]) or parts[-2:] == ["pass", "phrase"]


def is_secret_member(name: str) -> bool:
    """Tell whether a member of this name is redacted."""
    return is_secret(name) or name.lower() in _SECRET_MEMBERS


def is_secret_option(name: str) -> bool:
    """Tell whether the value of a command option is redacted."""
    return is_secret_member(name) or name.lstrip("-").lower() in (_SECRET_MEMBERS | _SECRET_OPTIONS)


def counts_tokens(name: str) -> bool:
    """Tell whether a number under this name counts tokens and is not a token itself."""
    return "token" in name.lower()


def _split_name(name: str) -> list[str]:
    """Split a name into lower-case words, also words written together, without meaningless trailing words."""
    parts: list[str] = []
    for word in _WORD_IN_NAME.findall(name.replace("OAuth", "Oauth")):
        word = word.lower()
        for ending in ("token", "tokens", "key", "keys"):
            stem = word.removesuffix(ending)
            if stem != word and (stem in KEY_KINDS or (ending[0] == "t" and stem)):
                parts += (stem, ending)
                break
        else:
            parts.append(word)
    while len(parts) > 1 and (
        parts[-1].isdigit() or (len(parts) > 2 and parts[-1] in _NEUTRAL_TRAILING_WORDS)
    ):
        parts.pop()
    return parts


def _is_secret_word(word: str) -> bool:
    return word.endswith(_SECRET_ENDINGS) or word in _PASS_WORDS


def is_secret_variable(name: str) -> bool:
    """Tell whether an environment variable is redacted: all are, except known harmless ones."""
    return name not in _HARMLESS_VARIABLES and not name.startswith("LC_")


def is_secret_header(name: str) -> bool:
    """Tell whether an HTTP header is redacted: all are, except known harmless ones."""
    return name.lower() not in _HARMLESS_HEADERS


@lru_cache(4096)
def pair_kind(name: str) -> str:
    """Return which pairs a member of this name contains: "env", "headers" or ""."""
    parts = [word.lower() for word in _WORD_IN_NAME.findall(name)]
    if parts[-1:] == ["headers"]:
        return "headers"
    while len(parts) > 1 and parts[-1] in ("vars", "variables", "values", "map", "overrides"):
        parts.pop()
    if parts and parts[-1] in ("env", "envs", "environ", "environment", "envvars"):
        return "env"
    return ""


_CREDENTIAL_VARIABLE: Final = re.compile(
    r"(?:^|_)(?:API|ACCESS|PRIVATE|SECRET|SIGNING|ENCRYPTION|DEPLOY|MASTER|LICENSE)_?KEYS?(?:_|$)"
    r"|TOKEN|SECRET|PASSW(?:OR)?D|PASSPHRASE|CREDENTIAL|COOKIE"
    r"|(?:^|_)(?:PASS|PAT|HTTP_BASIC|DSN|KEY)(?:_|$)|_AUTH$|^OTEL_\w*HEADERS$"
    r"|:_|(?:^|_)DATABASE_URL$",
    re.IGNORECASE,
)


def is_credential_variable(name: str) -> bool:
    """Tell whether an environment variable is kept from commands: its name announces a credential."""
    return _CREDENTIAL_VARIABLE.search(name) is not None or is_secret(name)


_SECRET_FIELD_WORDS: Final = frozenset(
    words("password passwd passphrase passcode secret token credential credentials cvv cvc otp apikey")
)
_SECRET_FIELD_PAIRS: Final = frozenset(
    map(words, ("api key", "private key", "access key", "recovery code", "card number", "seed phrase"))
)


def is_secret_field(name: str) -> bool:
    """Tell whether a form must not ask for a value of this name, because forms are shown and stored."""
    parts = [word.lower() for word in _WORD_IN_NAME.findall(name)]
    return not _SECRET_FIELD_WORDS.isdisjoint(parts) or not _SECRET_FIELD_PAIRS.isdisjoint(pairwise(parts))
