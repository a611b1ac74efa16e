/** The list of messages to go back to, and what the last rewind did. */
import { useState } from "preact/hooks";
import type { Session } from "../state/session.ts";
import type { RewindScope } from "../wire/rewind-methods.ts";
import { Icon } from "./elements.tsx";

const SCOPES: Record<RewindScope, string> = {
  both: "conversation and files",
  conversation: "only the conversation",
  files: "only the files",
};

export function RewindPanel({ session }: { session: Session }) {
  const [scope, setScope] = useState<RewindScope>("both");
  const points = session.rewindPoints.value;
  const report = session.rewindReport.value;
  return (
    <>
      {report && (
        <div class="notice info" role="status">
          <Icon name="back" />
          <span>
            {report.title}
            {report.lines.map((line, index) => (
              <span key={index}>
                <br />
                {line}
              </span>
            ))}
          </span>
          <button type="button" class="quiet small" onClick={() => (session.rewindReport.value = null)}>
            Dismiss
          </button>
        </div>
      )}
      {points && (
        <section class="card rewind" aria-label="Go back to before">
          <header>
            <Icon name="back" /> <h3>Go back to before</h3>
          </header>
          <label>
            with{" "}
            <select value={scope} onChange={(event) => setScope(event.currentTarget.value as RewindScope)}>
              {Object.entries(SCOPES).map(([value, name]) => (
                <option key={value} value={value}>
                  {name}
                </option>
              ))}
            </select>
          </label>
          {points.length === 0 && <p class="muted">There is no message to go back to yet.</p>}
          <ul>
            {points.map((point) => (
              <li key={point.messageId}>
                <button
                  type="button"
                  class="quiet"
                  onClick={() => void session.rewind(point.messageId, scope)}
                >
                  {point.title}
                </button>{" "}
                {point.files > 0 && (
                  <span class="muted">
                    {point.files} {point.files === 1 ? "file" : "files"}
                  </span>
                )}
              </li>
            ))}
          </ul>
          <button type="button" onClick={() => (session.rewindPoints.value = null)}>
            Close
          </button>
        </section>
      )}
    </>
  );
}
