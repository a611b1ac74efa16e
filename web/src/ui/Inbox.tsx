/** The inbox: the pending requests of all sessions, which users can answer here. */
import { useEffect, useMemo, useRef } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import { notificationState, requestNotifications, type PendingRequest } from "../state/pending-requests.ts";
import { Session } from "../state/session.ts";
import { baseName, relativeTime } from "../text/format.ts";
import { Icon } from "./elements.tsx";
import { routeHash } from "./navigation.ts";
import { RequestCard } from "./RequestCards.tsx";

export function Inbox() {
  const requests = useGateway().requests.value;
  // Focus the heading: Tab then goes to the first request, and no answer has the focus.
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <main class="page">
      <header class="page-header">
        <a class="button quiet round phone-only" href="#/" aria-label={t("app.back")}>
          <Icon name="back" />
        </a>
        <h2 ref={heading} tabIndex={-1}>
          {t("inbox.title")}
        </h2>
        {notificationState.value === "default" && (
          <button type="button" class="small" onClick={() => void requestNotifications()}>
            <Icon name="bell" /> {t("inbox.notify")}
          </button>
        )}
      </header>
      {notificationState.value === "denied" && (
        <p class="muted">{t("inbox.blocked")}</p>
      )}
      {requests.length === 0 && <p class="muted">{t("inbox.empty")}</p>}
      {requests.map((request) => (
        <InboxEntry key={request.key} request={request} />
      ))}
    </main>
  );
}

function InboxEntry({ request }: { request: PendingRequest }) {
  const gateway = useGateway();
  const { agent, sessionId } = request;
  const listed = gateway.findListedSession(agent, sessionId);
  const cwd = listed?.cwd ?? "";
  // The card needs a session object even if this page has not opened the session.
  const session = useMemo(
    () =>
      gateway.findOpenSession(agent, sessionId) ?? new Session({ agent, sessionId, cwd }, gateway.announce),
    [agent, sessionId, cwd],
  );
  const since = relativeTime(new Date(request.since).toISOString());
  return (
    <section class="inbox-entry">
      <p>
        {listed ? (
          <a href={routeHash({ page: "session", agent, sessionId })}>
            {listed.title ?? (baseName(cwd) || t("app.untitledSession"))}
          </a>
        ) : (
          <strong>{agent}</strong>
        )}
        <span class="muted"> {[listed && agent, cwd, since].filter(Boolean).join(" · ")}</span>
      </p>
      <RequestCard request={request} session={session} />
    </section>
  );
}
