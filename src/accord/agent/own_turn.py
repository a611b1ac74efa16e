"""A turn that no `session/prompt` asks for. Imported on first use."""

from typing import TYPE_CHECKING, Any

from accord.errors import INTERNAL_ERROR, RpcError
from accord.schema.content import ContentBlock, PromptRequest

if TYPE_CHECKING:
    from accord.agent.builtin_methods import BuiltinMethods


def start_turn(methods: "BuiltinMethods", session_id: str, prompt: list[ContentBlock]) -> None:
    """Run a turn that no request waits for, after the turns before it."""
    session, turn_task = methods.add_turn(PromptRequest(session_id, prompt))

    async def run() -> None:
        end: dict[str, Any] = {"rawReason": "cancelled"}
        try:
            if turn_task is session.turn_task or await turn_task.wait_for_start():
                response = await turn_task.run(methods.prompt_handler, own=True)
                end = {"rawReason": str(response.stop_reason)}
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handler
            text = error.message if isinstance(error, RpcError) else "internal error"
            code = error.code if isinstance(error, RpcError) else INTERNAL_ERROR
            end = {"rawReason": "error", "error": {"code": code, "message": text}}
            await session.session.notice("The turn failed", text, severity="error")
        finally:
            session.peer.report_event(session_id, "turn_ended", end)
            session.remove_turn(turn_task)

    session.peer.tasks.start(run())
