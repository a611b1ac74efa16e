/** Error reports: message, details and the end of the agent's stderr. */
import { RequestError } from "@agentclientprotocol/sdk";
import { expect, test } from "vitest";
import { errorReport, readErrorReport } from "../src/wire/extension-methods.ts";

test("appends the details of an error to its message, once", () => {
  expect(errorReport(new RequestError(-32603, "Internal error", { details: "no such model" })).message).toBe(
    "Internal error: no such model",
  );
  expect(errorReport(new RequestError(-32603, "Failed: no such model", "no such model")).message).toBe(
    "Failed: no such model",
  );
  expect(errorReport(new Error("offline")).message).toBe("offline");
  expect(errorReport(new RequestError(-32000, "Sign in first")).code).toBe(-32000);
});

test("keeps the last lines of the agent's stderr", () => {
  const lines = Array.from({ length: 40 }, (_, index) => `line ${index + 1}`);
  const report = readErrorReport(-32603, "it exited with code 3", {
    exitCode: 3,
    stderr: `${lines.join("\r\n")}\n\n`,
  });
  expect(report.message).toBe("it exited with code 3");
  expect(report.stderrTail?.split("\n")).toEqual(lines.slice(-12));
  expect(readErrorReport(null, "ended", { stderr: " \n" }).stderrTail).toBeNull();
  expect(readErrorReport(null, "ended", null).stderrTail).toBeNull();
});
