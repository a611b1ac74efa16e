/** The list of messages to go back to, and what the last rewind did. */
import { useState } from "preact/hooks";
import { t, type PlainKey } from "../messages/messages.ts";
import type { Session } from "../state/session.ts";
import type { RewindScope } from "../wire/rewind-methods.ts";
import { Icon } from "./elements.tsx";

const SCOPES: Record<RewindScope, PlainKey> = {
  both: "rewind.both",
  conversation: "rewind.conversation",
  files: "rewind.files",
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
            {t("app.dismiss")}
          </button>
        </div>
      )}
      {points && (
        <section class="card rewind" aria-label={t("rewind.title")}>
          <header>
            <Icon name="undo" /> <h3>{t("rewind.title")}</h3>
            <button
              type="button"
              class="quiet round"
              aria-label={t("app.close")}
              onClick={() => (session.rewindPoints.value = null)}
            >
              <Icon name="close" />
            </button>
          </header>
          <label>
            <span>{t("rewind.scope")}</span>
            <select value={scope} onChange={(event) => setScope(event.currentTarget.value as RewindScope)}>
              {Object.entries(SCOPES).map(([value, name]) => (
                <option key={value} value={value}>
                  {t(name)}
                </option>
              ))}
            </select>
          </label>
          {points.length === 0 && <p class="muted">{t("rewind.empty")}</p>}
          <ul>
            {points.map((point) => (
              <li key={point.messageId}>
                <button type="button" onClick={() => void session.rewind(point.messageId, scope)}>
                  <span class="session-title">{point.title}</span>
                  {point.files > 0 && (
                    <span class="muted">{t("rewind.fileCount", { count: point.files })}</span>
                  )}
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}
