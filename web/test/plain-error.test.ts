/** Errors in plain words. */
import { expect, test } from "vitest";
import { plainError } from "../src/text/plain-error.ts";

test.each([
  ["example: python exited with code 2 before initialize was answered", -32603, "The agent could not be started."],
  ["session/prompt was not answered: the agent was killed by SIGKILL", -32603, "The agent crashed."],
  ["this token is read-only", -32003, "Your token does not allow this."],
  ["Authentication required", -32000, "The agent asks you to sign in."],
  ["anthropic: HTTP 401: invalid x-api-key", -32603, "The model provider refused the key. Check it on the gateway's machine."],
  ["429: rate_limit_error", null, "The model provider is busy, or a limit is used up. Try again later."],
  ["the request timed out after 60 s", null, "It took too long. Try again."],
  ["TypeError: cannot read properties of undefined (reading 'x')", -32603, "Something went wrong."],
  ['{"error": {"type": "overloaded"}}', null, "The model provider is busy, or a limit is used up. Try again later."],
  ["Internal error: <b>x</b>", -32603, "Something went wrong."],
  ["You are no longer signed in", null, "You are no longer signed in"],
] as const)("%j (%j) is shown as %j", (message, code, text) => {
  expect(plainError({ message, code })).toBe(text);
});
