"""A proxy between an editor and any agent: it adds a rule to every prompt and hides the agent's thoughts.

Use it as the agent's command in an editor: `python examples/proxy.py AGENT ...`, for example
`python examples/proxy.py accord agent`. Or: `accord proxy --use examples/proxy.py:HouseRules -- AGENT ...`.
"""

import sys

from accord import AgentThoughtChunk, TextContent
from accord.proxy import CallNext, Middleware, run_proxy
from accord.schema import PromptRequest, PromptResponse, SessionNotification


class HouseRules(Middleware):
    async def prompt(
        self, request: PromptRequest, call_next: CallNext[PromptRequest, PromptResponse]
    ) -> PromptResponse:
        request.prompt.append(TextContent("Answer in one sentence."))
        return await call_next(request)

    def update(self, notification: SessionNotification) -> SessionNotification | None:
        return None if isinstance(notification.update, AgentThoughtChunk) else notification


if __name__ == "__main__":
    sys.exit(run_proxy(HouseRules(), command=sys.argv[1:]))
