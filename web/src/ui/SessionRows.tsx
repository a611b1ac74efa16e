/** The rows of the session list. Only those around the visible part are drawn, since there may be thousands. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import { sessionRows, type SessionRow } from "../state/session-rows.ts";
import { baseName, folderName, relativeTime } from "../text/format.ts";
import type { ListedSession } from "../wire/extension-methods.ts";
import { Icon } from "./elements.tsx";
import { isSessionRoute, route, routeHash } from "./navigation.ts";

const ACTIVITIES = {
  running: "sessions.running",
  waiting: "sessions.waiting",
  idle: "sessions.idle",
  lost: "sessions.lost",
} as const;
/** The heights of the rows until some were measured, in pixels. */
const HEIGHTS = { heading: 34, session: 56 };
/** How far above and below the visible part rows are drawn, in pixels. */
const MARGIN = 1100;

interface SessionRowsProps {
  sessions: readonly ListedSession[];
  emptyText: string;
}

export function SessionRows({ sessions, emptyText }: SessionRowsProps) {
  const gateway = useGateway();
  const list = useRef<HTMLUListElement>(null);
  const [view, setView] = useState({ top: 0, height: 1200, ...HEIGHTS });
  const waitingLabel = t("sessions.waiting");
  const rows = useMemo(() => sessionRows(sessions, waitingLabel), [sessions, waitingLabel]);
  const tops = useMemo(() => rowTops(rows, view.heading, view.session), [rows, view.heading, view.session]);
  const measure = () => {
    const element = list.current;
    if (!element) return;
    const height = (kind: "heading" | "session") =>
      element.querySelector<HTMLElement>(`[data-row=${kind}]`)?.offsetHeight || HEIGHTS[kind];
    const [heading, session] = [height("heading"), height("session")];
    setView({ top: element.scrollTop, height: element.clientHeight, heading, session });
    const rest = element.scrollHeight - element.scrollTop - element.clientHeight;
    if (rest < element.clientHeight) void gateway.loadMoreSessions();
  };
  useLayoutEffect(measure, [rows]);
  const current = rows.findIndex(
    (row) => row.kind === "session" && isSessionRoute(route.value, row.session.agent, row.session.sessionId),
  );
  // The shortcuts for the previous and next session do not scroll the list.
  useEffect(() => {
    const [element, top, end] = [list.current, tops[current], tops[current + 1]];
    if (!element || top === undefined || end === undefined) return;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (end > element.scrollTop + element.clientHeight) element.scrollTop = end - element.clientHeight;
  }, [current]);
  const first = Math.max(0, tops.findIndex((top) => top >= view.top - MARGIN) - 1);
  const after = tops.findIndex((top) => top > view.top + view.height + MARGIN);
  const last = after < 0 ? rows.length : after;
  const total = tops.at(-1) ?? 0;
  return (
    <ul class="session-list" ref={list} onScroll={measure} aria-label={t("sessions.label")}>
      {first > 0 && <li class="spacer-row" aria-hidden="true" ref={heightOf(tops[first] ?? 0)} />}
      {rows.slice(first, last).map((row) =>
        row.kind === "heading" ? (
          <li key={row.key} data-row="heading" class={row.waiting ? "group-heading waiting" : "group-heading"}>
            <h2 title={row.title || undefined}>
              {!row.waiting && <Icon name="folder" />}
              <span>{row.label}</span>
            </h2>
          </li>
        ) : (
          <li
            key={row.key}
            data-row="session"
            aria-setsize={gateway.moreSessions.value === null ? sessions.length : -1}
            aria-posinset={row.position}
          >
            <SessionLink item={row.session} isPinned={row.session.state === "waiting"} />
          </li>
        ),
      )}
      {last < rows.length && (
        <li class="spacer-row" aria-hidden="true" ref={heightOf(total - (tops[last] ?? total))} />
      )}
      {sessions.length === 0 && <li class="muted no-sessions">{emptyText}</li>}
    </ul>
  );
}

/** Where each row begins, and where the last one ends. */
function rowTops(rows: readonly SessionRow[], heading: number, session: number): number[] {
  const tops = [0];
  for (const row of rows) tops.push((tops.at(-1) ?? 0) + (row.kind === "heading" ? heading : session));
  return tops;
}

/** Sets the height of an element; the content security policy forbids style attributes. */
function heightOf(height: number): (element: HTMLElement | null) => void {
  return (element) => {
    if (element) element.style.height = `${height}px`;
  };
}

interface SessionLinkProps {
  item: ListedSession;
  /** Below the heading of the waiting sessions. */
  isPinned?: boolean;
  /** Not below the heading of its folder. */
  showsFolder?: boolean;
}

export function SessionLink({ item, isPinned = false, showsFolder = isPinned }: SessionLinkProps) {
  const gateway = useGateway();
  const { agent, sessionId } = item;
  const current = isSessionRoute(route.value, agent, sessionId);
  const unread = !current && gateway.seen.isUnread(item);
  const now = useCurrentMinute();
  useEffect(() => {
    if (current) gateway.seen.markRead(item);
  }, [current, item.updatedAt]);
  return (
    <a
      class={unread ? "session-link unread" : "session-link"}
      href={routeHash({ page: "session", agent, sessionId })}
      aria-current={current ? "page" : undefined}
    >
      <span class={`activity-dot ${unread ? "unread" : item.state}`} aria-hidden="true" />
      <span class="session-title">{item.title ?? (baseName(item.cwd) || t("sessions.untitled"))}</span>
      <span class="session-time">{relativeTime(item.updatedAt, now)}</span>
      <span class="session-location">
        {item.owner !== null && <strong>{t("sessions.openIn", { owner: item.owner })}</strong>}
        {item.state === "idle" || isPinned ? (
          <span class="visually-hidden">{t(unread ? "sessions.unread" : ACTIVITIES[item.state])}. </span>
        ) : (
          <strong class={item.state}>{t(ACTIVITIES[item.state])} · </strong>
        )}
        {agent}
        {item.node !== null && ` · ${item.node}`}
        {showsFolder && ` · ${folderName(item.cwd)}`}
      </span>
    </a>
  );
}

/** The current time, updated every minute. */
function useCurrentMinute(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 60_000);
    return () => clearInterval(timer);
  }, []);
  return Math.max(now, Date.now());
}
