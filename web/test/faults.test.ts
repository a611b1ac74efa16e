/** What went wrong, in the agent's own last words. */
import { RequestError } from "@agentclientprotocol/sdk";
import { expect, test } from "vitest";
import { asError, readFault } from "../src/state/faults.ts";

test("the details of an error are part of its text, once", () => {
  expect(asError(new RequestError(-32603, "Internal error", { details: "no such model" })).message).toBe("Internal error: no such model");
  expect(asError(new RequestError(-32603, "Failed: no such model", "no such model")).message).toBe("Failed: no such model");
  expect(asError(new Error("offline")).message).toBe("offline");
  expect(asError(new RequestError(-32000, "Sign in first")).code).toBe(-32000);
});

test("the last lines of an agent's stderr go with it", () => {
  const lines = Array.from({ length: 40 }, (_, index) => `line ${index + 1}`);
  const fault = readFault(-32603, "it exited with code 3", { exitCode: 3, stderr: `${lines.join("\r\n")}\n\n` });
  expect(fault.message).toBe("it exited with code 3");
  expect(fault.said?.split("\n")).toEqual(lines.slice(-12));
  expect(readFault(null, "ended", { stderr: " \n" }).said).toBeNull();
  expect(readFault(null, "ended", null).said).toBeNull();
});
