/** The side bar: the sessions of all agents with their activity, and the links to everything else. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useGateway } from "../state/gateway.ts";
import { baseName, relativeTime } from "../text/format.ts";
import type { ListedSession } from "../wire/extension-methods.ts";
import { switchTheme, theme } from "./appearance.ts";
import { Icon } from "./elements.tsx";
import { helpOpen, isSessionRoute, route, routeHash } from "./navigation.ts";

const ACTIVITIES = { running: "Running", waiting: "Waiting for you", idle: "Idle" } as const;
const THEME_ICONS = { system: "system", light: "sun", dark: "moon" } as const;

export function SessionList() {
  const gateway = useGateway();
  const [filter, setFilter] = useState("");
  const wanted = filter.trim().toLowerCase();
  const sessions = gateway.sessions.value.filter((item) =>
    `${item.title ?? ""} ${item.agent} ${item.cwd}`.toLowerCase().includes(wanted),
  );
  return (
    <nav class="sidebar" aria-label="Sessions">
      <header class="brand">
        <img src="./icon.svg" alt="" width="26" height="26" />
        <h1>Accord</h1>
        <ConnectionStatus />
      </header>
      <Actions />
      {gateway.sessions.value.length > 6 && (
        <input
          id="filter"
          type="search"
          placeholder="Find a session"
          aria-label="Find a session"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      )}
      <ul class="session-list">
        {sessions.map((item) => (
          <SessionLink key={`${item.agent}/${item.sessionId}`} item={item} />
        ))}
        {sessions.length === 0 && (
          <li class="muted no-sessions">{wanted ? "No matching sessions." : "No sessions yet."}</li>
        )}
      </ul>
      <Footer />
    </nav>
  );
}

function ConnectionStatus() {
  const state = useGateway().connectionState.value;
  if (state === "open") return null;
  return <span class="connection-status">{state === "connecting" ? "Connecting…" : "Reconnecting…"}</span>;
}

/** Hidden for a read-only token, which can neither start sessions nor answer requests. */
function Actions() {
  const gateway = useGateway();
  if (gateway.readOnly.value) return null;
  const pending = gateway.requests.value.length;
  return (
    <div class="actions">
      <a class="button primary" href={routeHash({ page: "new" })}>
        <Icon name="plus" /> New session
      </a>
      <a
        class="button"
        href={routeHash({ page: "inbox" })}
        aria-current={route.value.page === "inbox" ? "page" : undefined}
      >
        <Icon name="inbox" /> Inbox
        {pending > 0 && (
          <span class="badge" aria-label={`${pending} waiting for you`}>
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
  const link = useRef<HTMLAnchorElement>(null);
  // The shortcuts for the previous and next session do not scroll the list.
  useEffect(() => {
    if (current) link.current?.scrollIntoView({ block: "nearest" });
  }, [current]);
  return (
    <li>
      <a
        ref={link}
        class="session-link"
        href={routeHash({ page: "session", agent, sessionId })}
        aria-current={current ? "page" : undefined}
      >
        <span class={`activity-dot ${item.state}`} aria-hidden="true" />
        <span class="session-title">{item.title ?? (baseName(item.cwd) || "Untitled")}</span>
        <span class="session-time">{relativeTime(item.updatedAt, now)}</span>
        <span class="session-location">
          {item.owner !== null && <strong>open in {item.owner} · </strong>}
          {item.state === "idle" ? (
            <span class="visually-hidden">{ACTIVITIES.idle}. </span>
          ) : (
            <strong class={item.state}>{ACTIVITIES[item.state]} · </strong>
          )}
          {agent} · {baseName(item.cwd)}
        </span>
      </a>
    </li>
  );
}

function Footer() {
  const gateway = useGateway();
  return (
    <footer>
      <button
        type="button"
        class="quiet"
        aria-label={`Theme: ${theme.value}. Change`}
        title={`Theme: ${theme.value}`}
        onClick={switchTheme}
      >
        <Icon name={THEME_ICONS[theme.value]} />
      </button>
      <button
        type="button"
        class="quiet"
        aria-label="Keyboard shortcuts"
        title="Keyboard shortcuts (?)"
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
        aria-label="Sign out"
        title="Sign out"
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
