"""Content blocks: what prompts, messages, thoughts and tool output are made of."""

from typing import Literal, TypeAlias

from .base import UNSET, Object
from .marks import IN_ORDER, Choice, Double, Int64, Items, Opt

Role: TypeAlias = Literal["assistant", "user"]


class Annotations(Object):
    """Hints on who a block is for and how much it matters."""

    audience: Opt[Items[Role] | None] = UNSET
    last_modified: Opt[str | None] = UNSET
    priority: Opt[Double | None] = UNSET


class TextContent(Object, tag_field="type", tag="text"):
    """Text, possibly Markdown. Every agent takes it in a prompt."""

    text: str
    annotations: Opt[Annotations | None] = UNSET


class ImageContent(Object, tag_field="type", tag="image"):
    """A picture, base64 encoded. In a prompt only if the agent takes images."""

    data: str
    mime_type: str
    uri: Opt[str | None] = UNSET
    annotations: Opt[Annotations | None] = UNSET


class AudioContent(Object, tag_field="type", tag="audio"):
    """Sound, base64 encoded. In a prompt only if the agent takes audio."""

    data: str
    mime_type: str
    annotations: Opt[Annotations | None] = UNSET


class ResourceLink(Object, tag_field="type", tag="resource_link"):
    """A pointer to something the agent can fetch by itself. Every agent takes it in a prompt."""

    name: str
    uri: str
    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET
    mime_type: Opt[str | None] = UNSET
    size: Opt[Int64 | None] = UNSET
    annotations: Opt[Annotations | None] = UNSET


class TextResourceContents(Object):
    """The text of an embedded resource."""

    uri: str
    text: str
    mime_type: Opt[str | None] = UNSET


class BlobResourceContents(Object):
    """The bytes of an embedded resource, base64 encoded."""

    uri: str
    blob: str
    mime_type: Opt[str | None] = UNSET


EmbeddedResourceResource: TypeAlias = Choice[TextResourceContents | BlobResourceContents, IN_ORDER]


class EmbeddedResource(Object, tag_field="type", tag="resource"):
    """A resource with its content inside. In a prompt only if the agent takes embedded context."""

    resource: EmbeddedResourceResource
    annotations: Opt[Annotations | None] = UNSET


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
