"""What the wire formats share: the contract of a format, and the reader of a streamed answer."""

from base64 import b64encode
from collections.abc import Hashable, Iterator, Sequence
from secrets import token_hex
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec

from accord.coder.model_history import (
    AnswerPart,
    AssistantMessage,
    ImagePart,
    Opaque,
    Part,
    TextPart,
    ThoughtPart,
    ToolUse,
    is_nested_too_deeply,
)
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import (
    ModelError,
    ModelEvent,
    ModelRequest,
    RequestUsage,
    StopCause,
    Stopped,
    TextDelta,
    ThoughtDelta,
)
from accord.coder.models.provider_errors import ProviderFailure
from accord.coder.user_config import ModelFacts

Finish: TypeAlias = Literal["stop", "length", "refusal", "error"]

T = TypeVar("T")


class WireFormat:
    """Builds the requests to one model in its provider's format, and reads the answers.

    A provider with the same format at another address overrides `path` and `headers`; one that signs its
    requests gets the complete request from `ProviderRequest.http_request`.
    """

    official_address: str
    list_path: str

    def __init__(self, endpoint: Endpoint, model: str, facts: ModelFacts) -> None:
        self.endpoint = endpoint
        self.name = model
        self.facts = facts

    def path(self) -> str:
        """The path of a streamed request, appended to the address."""
        raise NotImplementedError

    def headers(self) -> dict[str, str]:
        """The headers of every request, with the key."""
        raise NotImplementedError

    def body(self, asked: ModelRequest, sees_images: bool) -> dict[str, Any]:
        """The body of a streamed request."""
        raise NotImplementedError

    def reader(self) -> "AnswerReader":
        """A reader for one answer."""
        raise NotImplementedError

    def owns(self, message: AssistantMessage) -> bool:
        """Whether the opaque data of a message came from this provider."""
        return message.provider is not None and message.provider in (self.endpoint.family, self.endpoint.name)


_DraftKind: TypeAlias = Literal["text", "thought", "call"]


class _PartDraft:
    """A part of the answer that is still being streamed."""

    def __init__(self, kind: _DraftKind) -> None:
        self.kind: _DraftKind = kind
        self.pieces: list[str] = []
        self.arguments: dict[str, Any] | None = None
        """Arguments that arrived as an object; `pieces` has those that are streamed as text."""
        self.id = ""
        self.name = ""
        self.signature = ""
        self.details: dict[str, Any] = {}


_ID_CHARS: Final = 200


class AnswerReader:
    """Collects the events of one streamed answer. A wire format implements `read`.

    Parts keep the order of their first pieces. Tool calls are passed on at the end, when they are complete.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.usage: RequestUsage | None = None
        """The tokens that the provider has reported so far."""
        self.finish: Finish | None = None
        """Why the answer ended; None if it was cut off."""
        self.finish_word: str = ""
        """The provider's own word for it."""
        self.refusal_text: str = ""
        self.done: bool = False
        """Whether the provider has sent the last event of its format."""
        self._response_id = ""
        self._response_model = ""
        self._provider = endpoint.family
        self._drafts: dict[tuple[_DraftKind, Hashable], _PartDraft] = {}
        self._last: _PartDraft | None = None
        self._run = 0
        self._run_kind = ""

    def read(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the text and the thoughts in the data of one server-sent event."""
        raise NotImplementedError

    def identify(self, response_id: Any, model: Any) -> None:
        """Keep the id of the answer and the model that gave it; the first ones count."""
        if not self._response_id and isinstance(response_id, str):
            self._response_id = response_id[:_ID_CHARS]
        if not self._response_model and isinstance(model, str):
            self._response_model = model[:_ID_CHARS]

    def add_text(self, key: Hashable, text: str, details: Opaque | None = None) -> Iterator[ModelEvent]:
        """Add a piece of text to the part of this key."""
        if not (text or details):
            return
        draft = self._draft("text", key)
        draft.details |= details or {}
        if text:
            text = replace_surrogates(text)
            draft.pieces.append(text)
            yield TextDelta(text)

    def add_thought(
        self,
        key: Hashable,
        text: str,
        *,
        part_id: str = "",
        signature: str = "",
        details: Opaque | None = None,
    ) -> Iterator[ModelEvent]:
        """Add a piece of a thought, or its signature, to the part of this key."""
        if not (text or signature or details):
            return
        after_thought = self._last is not None and self._last.kind == "thought" and bool(self._last.pieces)
        is_new = ("thought", key) not in self._drafts
        draft = self._draft("thought", key)
        draft.id = part_id or draft.id
        draft.signature += signature
        draft.details |= details or {}
        if text:
            text = replace_surrogates(text)
            draft.pieces.append(text)
            yield ThoughtDelta(f"\n\n{text}" if is_new and after_thought else text)

    def add_call(
        self,
        key: Hashable,
        *,
        call_id: str = "",
        name: str = "",
        arguments: str | dict[str, Any] = "",
        details: Opaque | None = None,
    ) -> None:
        """Add a piece of a tool call."""
        draft = self._draft("call", key)
        draft.id = draft.id or call_id
        draft.name = draft.name or name
        draft.details |= details or {}
        if isinstance(arguments, str):
            draft.pieces.append(arguments)
        else:
            draft.arguments = arguments

    def replace_arguments(self, key: Hashable, arguments: str) -> None:
        """Set the complete arguments of a tool call, in place of the streamed pieces."""
        if arguments:
            self._draft("call", key).pieces = [arguments]

    def run_key(self, kind: str) -> Hashable:
        """A key for formats without one: the same as long as pieces of this kind follow each other."""
        if kind != self._run_kind:
            self._run, self._run_kind = self._run + 1, kind
        return kind, self._run

    def end_run(self) -> None:
        """Let the next piece begin a new part."""
        self._run_kind = ""

    def call_id(self, key: Hashable) -> str | None:
        """The id of a tool call, possibly empty; None if there is no such call yet."""
        draft = self._drafts.get(("call", key))
        return draft.id if draft else None

    def end(self, label: str) -> Iterator[ModelEvent]:
        """Yield the tool calls, the usage and the complete answer. Raises ModelError if it broke off."""
        if self.finish is None:
            raise ModelError("network", f"{label}: the answer ended too early")
        if self.finish == "error":
            word = self.finish_word or "error"
            raise ModelError("other", f"{label}: the provider broke off the answer ({word})")
        parts = tuple(self._parts())
        uses = [part for part in parts if isinstance(part, ToolUse)]
        yield from uses
        if self.usage is not None:
            yield self.usage
        refusal_text = (self.refusal_text or self.finish_word) if self.finish == "refusal" else ""
        message = AssistantMessage(parts, self._provider)
        yield Stopped(
            self._stop_cause(bool(uses)),
            message,
            replace_surrogates(refusal_text),
            self._response_id,
            self._response_model,
        )

    def _stop_cause(self, has_calls: bool) -> StopCause:
        if self.finish == "length":
            return "max_tokens"
        if self.finish == "refusal":
            return "refusal"
        return "tool_use" if has_calls else "end_turn"

    def _draft(self, kind: _DraftKind, key: Hashable) -> _PartDraft:
        draft = self._drafts.get((kind, key))
        if draft is None:
            draft = self._drafts[kind, key] = _PartDraft(kind)
            self._last = draft
        return draft

    def _parts(self) -> Iterator[AnswerPart]:
        """Yield the parts for the history, with unique ids of tool calls.

        Item ids are kept only for thoughts. OpenAI refuses a history in which an item with an id lacks its
        neighbors, and only the signature of a thought needs the id.
        """
        used_ids: set[str] = set()
        for draft in self._drafts.values():
            text = "".join(draft.pieces)
            if draft.kind == "text":
                if text or draft.details:
                    yield TextPart(text, _opaque(details=draft.details))
            elif draft.kind == "thought":
                opaque = _opaque(id=draft.id, signature=draft.signature, details=draft.details)
                if text or opaque:
                    yield ThoughtPart(text, opaque)
            else:
                first_id = draft.id or f"call_{token_hex(8)}"
                use_id, number = first_id, 1
                while use_id in used_ids:
                    use_id, number = f"{first_id}-{number + 1}", number + 1
                used_ids.add(use_id)
                arguments = _arguments(text if draft.arguments is None else draft.arguments)
                yield ToolUse(use_id, draft.name, arguments, _opaque(details=draft.details))


def google_headers(endpoint: Endpoint) -> dict[str, str]:
    """The headers with the key of a server of Google: an API key, or an access token such as of `gcloud`."""
    if endpoint.key is None:
        return {}
    key = endpoint.key.reveal()
    return {"authorization": f"Bearer {key}"} if key.startswith("ya29.") else {"x-goog-api-key": key}


def decode_event(data: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """Decode the data of a server-sent event. Raises ProviderFailure if it is unreadable."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    try:  # msgspec refuses half of a surrogate pair, which some servers send at the end of a piece of text
        import json

        return msgspec.convert(json.loads(data), decoder.type)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise ProviderFailure("the answer was unreadable") from None


def details_of(part: AnswerPart) -> dict[str, Any]:
    """The provider's details of a part."""
    return members_of((part.opaque or {}).get("details"))


def arguments_object(use: ToolUse) -> dict[str, Any]:
    """The arguments of a tool call as an object, also if the model wrote no valid one."""
    return use.arguments if isinstance(use.arguments, dict) else {"INVALID_JSON": use.arguments}


def arguments_text(use: ToolUse) -> str:
    """The arguments of a tool call as JSON."""
    return msgspec.json.encode(arguments_object(use)).decode()


def has_images(parts: Sequence[Part], sees_images: bool) -> bool:
    """Whether images of these parts are sent."""
    return sees_images and any(isinstance(part, ImagePart) for part in parts)


def text_of_parts(parts: Sequence[Part], image: str = "[image: {}]") -> str:
    """The parts as one text, with a placeholder for each image."""
    return "\n\n".join(
        part.text if isinstance(part, TextPart) else image.format(part.mime_type) for part in parts
    )


def result_text(parts: Sequence[Part], failed: bool, image: str = "[image: {}]") -> str:
    """The text of a tool result, for formats that cannot mark it as failed."""
    text = text_of_parts(parts, image) or _NO_OUTPUT
    return f"Error: {text}" if failed else text


_NO_OUTPUT: Final = "(no output)"


def count(value: object) -> int:
    """A number of tokens; 0 if the provider sent none."""
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def members_of(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def base64_of(part: ImagePart) -> str:
    """The data of an image in base64."""
    return b64encode(part.data).decode()


def data_url(part: ImagePart) -> str:
    """An image as a URL that holds its data."""
    return f"data:{part.mime_type};base64,{base64_of(part)}"


def _arguments(arguments: str | dict[str, Any]) -> dict[str, Any] | str:
    """Return the arguments as an object, or as the original text if that is not a JSON object."""
    if isinstance(arguments, dict):
        return arguments if _is_json(arguments) else "(arguments that cannot be kept)"
    if not arguments.strip():
        return {}
    try:
        value: Any = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return replace_surrogates(arguments)
    if isinstance(value, dict) and _is_json(value):
        return cast(dict[str, Any], value)
    return replace_surrogates(arguments)


def _opaque(**members: Any) -> Opaque | None:
    opaque = {name: value for name, value in members.items() if value}
    return opaque if opaque and _is_json(opaque) else None


def _is_json(value: Any) -> bool:
    """Return whether the session log can store the value."""
    if is_nested_too_deeply(value):
        return False
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates replaced. JSON cannot hold them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
