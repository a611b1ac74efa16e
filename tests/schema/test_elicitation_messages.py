"""Elicitation messages: unknown modes and answers are kept, known ones are validated."""

import json
from typing import Any

import pytest

from accord.schema import (
    CreateElicitationRequest,
    CreateElicitationResponse,
    ElicitationAcceptAction,
    ElicitationCancelAction,
    ElicitationDeclineAction,
    ElicitationFormMode,
    ElicitationRequestScope,
    ElicitationSchema,
    ElicitationSessionScope,
    ElicitationUrlMode,
    MultiSelectPropertySchema,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
    Unknown,
)
from accord.schema.base import Mismatch
from accord.schema.codec import decode, encode

FORM = {"mode": "form", "message": "Which?", "sessionId": "s", "requestedSchema": {}}
URL = {"mode": "url", "message": "Sign in", "requestId": 7, "elicitationId": "e", "url": "https://h"}


def received(cls: Any, members: dict[str, Any]) -> Any:
    return decode(cls, json.dumps(members).encode())


def test_both_modes_have_their_scope() -> None:
    form = received(CreateElicitationRequest, {**FORM, "toolCallId": "c"})
    assert form == ElicitationFormMode(
        "Which?", session_id="s", tool_call_id="c", requested_schema=ElicitationSchema()
    )
    assert form.scope == ElicitationSessionScope("s", "c")
    url = received(CreateElicitationRequest, URL)
    assert url == ElicitationUrlMode("Sign in", request_id=7, elicitation_id="e", url="https://h")
    assert url.scope == ElicitationRequestScope(7)


def test_null_is_a_valid_request_id() -> None:
    assert received(CreateElicitationRequest, {**URL, "requestId": None}).scope == ElicitationRequestScope(
        None
    )


@pytest.mark.rule("elicitation.unknown-mode")
def test_an_unknown_mode_is_kept_as_unknown() -> None:
    request = {**FORM, "mode": "_vote", "choices": [1]}
    kept = received(CreateElicitationRequest, request)
    assert kept == Unknown("_vote", request)
    assert json.loads(encode(kept)) == request


@pytest.mark.parametrize(
    "broken",
    [
        {**FORM, "requestedSchema": None},
        {**FORM, "message": 5},
        {**FORM, "sessionId": 5},
        {key: value for key, value in FORM.items() if key != "sessionId"},
        {key: value for key, value in FORM.items() if key != "mode"},
        {**URL, "elicitationId": None},
        {**URL, "requestId": 1.5},
        {"mode": "_vote", "sessionId": "s"},
        {"mode": "_vote", "message": "no scope"},
        {**FORM, "requestedSchema": {"properties": {"a": {"type": "string", "minLength": -1}}}},
        {**FORM, "requestedSchema": {"properties": {"a": {"type": "string", "enum": [1]}}}},
        {**FORM, "requestedSchema": {"properties": {"a": {"type": "array"}}}},
        {**FORM, "requestedSchema": {"properties": {"a": {}}}},
        {**FORM, "requestedSchema": {"properties": None}},
        {**FORM, "requestedSchema": {"required": "all"}},
    ],
)
def test_an_invalid_request_is_rejected(broken: dict[str, Any]) -> None:
    with pytest.raises(Mismatch):
        received(CreateElicitationRequest, broken)


def test_lenient_parts_of_a_form() -> None:
    properties = {
        "name": {"type": "string", "default": 5, "title": 5, "format": None},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["x"]}, "default": ["x", 5]},
        "more": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
        "odd": {"type": "_color", "palette": 3},
        "odder": {"type": "array", "items": {"type": "_color", "anyOf": []}},
    }
    request = received(
        CreateElicitationRequest, {**FORM, "requestedSchema": {"type": 5, "properties": properties}}
    )
    fields = request.requested_schema.properties
    assert fields["name"] == StringPropertySchema(format=None)
    assert fields["tags"] == MultiSelectPropertySchema(StringMultiSelectItems(["x"]), default=["x"])
    assert isinstance(fields["more"].items, TitledMultiSelectItems)
    assert fields["odd"] == Unknown("_color", properties["odd"])
    assert fields["odder"].items == Unknown("_color", properties["odder"]["items"])


def test_accept_decline_and_cancel() -> None:
    content = {"text": "a", "count": 3, "share": 0.5, "sure": True, "tags": ["x"]}
    assert received(CreateElicitationResponse, {"action": "accept", "content": content}) == (
        ElicitationAcceptAction(content)
    )
    assert (
        received(CreateElicitationResponse, {"action": "decline", "content": 5}) == ElicitationDeclineAction()
    )
    assert received(CreateElicitationResponse, {"action": "cancel"}) == ElicitationCancelAction()


@pytest.mark.rule("elicitation.unknown-action")
def test_an_unknown_action_is_no_acceptance() -> None:
    answer = received(CreateElicitationResponse, {"action": "_x", "content": {}})
    assert answer == Unknown("_x", {"action": "_x", "content": {}})


@pytest.mark.parametrize("content", ["x", {"a": None}, {"a": [1]}, {"a": {}}])
def test_acceptance_with_invalid_content_is_rejected(content: Any) -> None:
    with pytest.raises(Mismatch):
        received(CreateElicitationResponse, {"action": "accept", "content": content})


def test_an_elicitation_cannot_be_created_without_a_scope() -> None:
    with pytest.raises(ValueError, match="sessionId or requestId"):
        ElicitationFormMode("Which?", requested_schema=ElicitationSchema())
