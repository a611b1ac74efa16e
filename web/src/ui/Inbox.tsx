/** The inbox: the pending requests of all sessions, which users can answer here. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import type { PendingRequest } from "../state/pending-requests.ts";
import { Session } from "../state/session.ts";
import { baseName, relativeTime } from "../text/format.ts";
import { Icon } from "./elements.tsx";
import { routeHash } from "./navigation.ts";
import { NotificationSettings } from "./NotificationSettings.tsx";
import { RequestCard } from "./RequestCards.tsx";

/** `request` is the id of the question that a notification led to. */
export function Inbox({ request: wanted }: { request?: string | undefined }) {
  const gateway = useGateway();
  const requests = gateway.requests.value;
  const wantedKey = wanted === undefined ? undefined : gateway.findRequest(wanted)?.key;
  const [choosing, setChoosing] = useState(false);
  // Focus the heading: Tab then goes to the first request, and no answer has the focus.
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (wantedKey === undefined) heading.current?.focus();
  }, []);
  return (
    <main class="page">
      <header class="page-header">
        <a class="button quiet round phone-only" href="#/" aria-label={t("app.back")}>
          <Icon name="back" />
        </a>
        <h2 ref={heading} tabIndex={-1}>
          {t("inbox.title")}
        </h2>
        <button type="button" class="small" aria-expanded={choosing} onClick={() => setChoosing(!choosing)}>
          <Icon name="bell" /> {t("inbox.notify")}
        </button>
      </header>
      {choosing && (
        <div class="inbox-settings">
          <NotificationSettings />
        </div>
      )}
      {wanted !== undefined && wantedKey === undefined && (
        <p class="notice-line" role="status">
          {t("inbox.answered")}
        </p>
      )}
      {requests.length === 0 && (
        <div class="empty-state">
          <Icon name="inbox" />
          <h3>{t("inbox.empty")}</h3>
          <p>{t("inbox.emptyHelp")}</p>
        </div>
      )}
      {requests.map((request) => (
        <InboxEntry key={request.key} request={request} wanted={request.key === wantedKey} />
      ))}
    </main>
  );
}

function InboxEntry({ request, wanted }: { request: PendingRequest; wanted: boolean }) {
  const section = useRef<HTMLElement>(null);
  // The card gets the focus, and none of its answers.
  useEffect(() => {
    if (wanted) section.current?.querySelector<HTMLElement>("[data-request]")?.focus();
  }, [wanted]);
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
    <section class="inbox-entry" ref={section}>
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
