/** The side bar: the sessions of all agents with their activity, and the links to everything else. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import { baseName, relativeTime } from "../text/format.ts";
import type { ListedSession } from "../wire/extension-methods.ts";
import { switchTheme, theme } from "./appearance.ts";
import { Icon } from "./elements.tsx";
import { helpOpen, isSessionRoute, route, routeHash } from "./navigation.ts";

const ACTIVITIES = {
  running: "sessions.running",
  waiting: "sessions.waiting",
  idle: "sessions.idle",
  lost: "sessions.lost",
} as const;
const SEARCH_DELAY_MS = 200;
/** The height of a link until one was measured, in pixels. */
const ROW_HEIGHT = 56;
/** Links that are drawn above and below the visible ones. */
const ROWS_AROUND = 20;
const THEME_ICONS = { system: "system", light: "sun", dark: "moon" } as const;

export function SessionList() {
  const gateway = useGateway();
  const [filter, setFilter] = useState("");
  const sessions = useMatchingSessions(filter);
  return (
    <nav class="sidebar" aria-label={t("sessions.label")}>
      <header class="brand">
        <img src="./icon.svg" alt="" width="26" height="26" />
        <h1>{t("app.name")}</h1>
        <ConnectionStatus />
      </header>
      <Actions />
      {gateway.sessions.value.length > 6 && (
        <input
          id="filter"
          type="search"
          placeholder={t("sessions.find")}
          aria-label={t("sessions.find")}
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      )}
      <SessionLinks
        sessions={sessions}
        emptyText={t(filter.trim() ? "sessions.noMatches" : "sessions.none")}
      />
      <Footer />
    </nav>
  );
}

/** The sessions that contain all words; the gateway searches those that are not loaded. */
function useMatchingSessions(filter: string): readonly ListedSession[] {
  const gateway = useGateway();
  const [found, setFound] = useState<{ filter: string; sessions: readonly ListedSession[] } | null>(null);
  const words = filter.trim().toLowerCase().split(/\s+/);
  const isPartial = gateway.moreSessions.value !== null;
  useEffect(() => {
    if (!isPartial || filter.trim() === "") return;
    let isCurrent = true;
    const search = () =>
      gateway.searchSessions(filter).then(
        (sessions) => isCurrent && setFound({ filter, sessions }),
        () => undefined,
      );
    const timer = setTimeout(() => void search(), SEARCH_DELAY_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [gateway, filter, isPartial]);
  if (found?.filter === filter && isPartial) return found.sessions;
  return gateway.sessions.value.filter((item) => {
    const text = `${item.title ?? ""} ${item.agent} ${item.cwd}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** Draws only the links around the visible part, since there may be thousands. */
function SessionLinks({ sessions, emptyText }: { sessions: readonly ListedSession[]; emptyText: string }) {
  const gateway = useGateway();
  const list = useRef<HTMLUListElement>(null);
  const [view, setView] = useState({ top: 0, height: 1200, rowHeight: ROW_HEIGHT });
  const measure = () => {
    const element = list.current;
    if (!element) return;
    const row = element.querySelector<HTMLElement>("li[aria-setsize]")?.offsetHeight ?? ROW_HEIGHT;
    setView({ top: element.scrollTop, height: element.clientHeight, rowHeight: row || ROW_HEIGHT });
    const rest = element.scrollHeight - element.scrollTop - element.clientHeight;
    if (rest < element.clientHeight) void gateway.loadMoreSessions();
  };
  useLayoutEffect(measure, [sessions.length]);
  const current = sessions.findIndex((item) => isSessionRoute(route.value, item.agent, item.sessionId));
  // The shortcuts for the previous and next session do not scroll the list.
  useEffect(() => {
    const element = list.current;
    if (!element || current < 0) return;
    const top = current * view.rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + view.rowHeight > element.scrollTop + element.clientHeight)
      element.scrollTop = top + view.rowHeight - element.clientHeight;
  }, [current]);
  const first = Math.max(0, Math.floor(view.top / view.rowHeight) - ROWS_AROUND);
  const last = Math.min(sessions.length, Math.ceil((view.top + view.height) / view.rowHeight) + ROWS_AROUND);
  return (
    <ul class="session-list" ref={list} onScroll={measure}>
      {first > 0 && <li class="spacer-row" aria-hidden="true" ref={heightOf(first * view.rowHeight)} />}
      {sessions.slice(first, last).map((item, index) => (
        <li
          key={`${item.agent}/${item.sessionId}`}
          aria-setsize={gateway.moreSessions.value === null ? sessions.length : -1}
          aria-posinset={first + index + 1}
        >
          <SessionLink item={item} />
        </li>
      ))}
      {last < sessions.length && (
        <li
          class="spacer-row"
          aria-hidden="true"
          ref={heightOf((sessions.length - last) * view.rowHeight)}
        />
      )}
      {sessions.length === 0 && <li class="muted no-sessions">{emptyText}</li>}
    </ul>
  );
}

/** Sets the height of an element; the content security policy forbids style attributes. */
function heightOf(height: number): (element: HTMLElement | null) => void {
  return (element) => {
    if (element) element.style.height = `${height}px`;
  };
}

function ConnectionStatus() {
  const state = useGateway().connectionState.value;
  if (state === "open") return null;
  return <span class="connection-status">{t(state === "connecting" ? "app.connecting" : "app.reconnecting")}</span>;
}

/** Hidden for a read-only token, which can neither start sessions nor answer requests. */
function Actions() {
  const gateway = useGateway();
  if (gateway.readOnly.value) return null;
  const pending = gateway.requests.value.length;
  return (
    <div class="actions">
      <a class="button primary" href={routeHash({ page: "new" })}>
        <Icon name="plus" /> {t("sessions.new")}
      </a>
      <a
        class="button"
        href={routeHash({ page: "inbox" })}
        aria-current={route.value.page === "inbox" ? "page" : undefined}
      >
        <Icon name="inbox" /> {t("inbox.title")}
        {pending > 0 && (
          <span class="badge" aria-label={t("inbox.count", { count: pending })}>
            {pending}
          </span>
        )}
      </a>
    </div>
  );
}

function SessionLink({ item }: { item: ListedSession }) {
  const { agent, sessionId } = item;
  const current = isSessionRoute(route.value, agent, sessionId);
  const now = useCurrentMinute();
  return (
    <a
      class="session-link"
      href={routeHash({ page: "session", agent, sessionId })}
      aria-current={current ? "page" : undefined}
    >
      <span class={`activity-dot ${item.state}`} aria-hidden="true" />
      <span class="session-title">{item.title ?? (baseName(item.cwd) || t("sessions.untitled"))}</span>
      <span class="session-time">{relativeTime(item.updatedAt, now)}</span>
      <span class="session-location">
        {item.owner !== null && <strong>{t("sessions.openIn", { owner: item.owner })}</strong>}
        {item.state === "idle" ? (
          <span class="visually-hidden">{t(ACTIVITIES.idle)}. </span>
        ) : (
          <strong class={item.state}>{t(ACTIVITIES[item.state])} · </strong>
        )}
        {agent} · {item.node !== null && `${item.node} · `}
        {baseName(item.cwd)}
      </span>
    </a>
  );
}

function Footer() {
  const gateway = useGateway();
  const name = t(`theme.${theme.value}`);
  return (
    <footer>
      <button
        type="button"
        class="quiet"
        aria-label={t("theme.change", { theme: name })}
        title={t("theme.current", { theme: name })}
        onClick={switchTheme}
      >
        <Icon name={THEME_ICONS[theme.value]} />
      </button>
      <button
        type="button"
        class="quiet"
        aria-label={t("shortcuts.title")}
        title={t("shortcuts.hint")}
        onClick={() => {
          helpOpen.value = true;
        }}
      >
        <Icon name="help" />
      </button>
      <span class="spacer" />
      <button
        type="button"
        class="quiet"
        aria-label={t("sessions.signOut")}
        title={t("sessions.signOut")}
        onClick={() => void gateway.signOut()}
      >
        <Icon name="signOut" />
      </button>
    </footer>
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
