/** The side bar: the sessions of all agents with their activity, search, and the links to everything else. */
import { useEffect, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import { sessionKey } from "../state/session-rows.ts";
import type { ListedSession } from "../wire/extension-methods.ts";
import type { SearchHit, SearchMatch } from "../wire/management-methods.ts";
import { switchTheme, theme } from "./appearance.ts";
import { Icon } from "./elements.tsx";
import { helpOpen, paletteOpen, route, routeHash } from "./navigation.ts";
import { SessionLink, SessionRows } from "./SessionRows.tsx";

const SEARCH_DELAY_MS = 200;
const MAX_RESULTS = 200;
const THEME_ICONS = { system: "system", light: "sun", dark: "moon" } as const;

export function SessionList() {
  const gateway = useGateway();
  const [filter, setFilter] = useState("");
  const [archive, setArchive] = useState<readonly ListedSession[] | null>(null);
  const toggleArchive = async () => {
    if (archive !== null) {
      setArchive(null);
      return;
    }
    const archived = await gateway.manage.archivedSessions().catch(() => []);
    gateway.remember(archived);
    setArchive(archived);
  };
  // A session that leaves the archive is in the list again.
  const listed = new Set(gateway.sessions.value.map(sessionKey));
  const shown = archive?.filter((item) => !listed.has(sessionKey(item))) ?? gateway.sessions.value;
  return (
    <nav class="sidebar" aria-label={t("sessions.label")}>
      <header class="brand">
        <a href="#/" aria-current={route.value.page === "home" ? "page" : undefined}>
          <img src="./icon.svg" alt="" width="26" height="26" />
          <h1>{t("app.name")}</h1>
        </a>
        <ConnectionStatus />
      </header>
      <Actions />
      <input
        id="filter"
        type="search"
        placeholder={t("sessions.find")}
        aria-label={t("sessions.find")}
        value={filter}
        onInput={(event) => setFilter(event.currentTarget.value)}
      />
      {archive !== null && filter.trim() === "" && (
        <p class="list-note">
          <strong>{t("archive.title")}</strong>
          <button type="button" class="quiet small" onClick={() => setArchive(null)}>
            {t("app.close")}
          </button>
        </p>
      )}
      {filter.trim() === "" ? (
        <SessionRows sessions={shown} emptyText={t(archive ? "archive.empty" : "sessions.none")} />
      ) : (
        <SearchResults filter={filter} />
      )}
      <Footer archiveOpen={archive !== null} onArchive={() => void toggleArchive()} />
    </nav>
  );
}

/** The sessions whose names or conversations have all words. The gateway knows those that are not loaded. */
function SearchResults({ filter }: { filter: string }) {
  const gateway = useGateway();
  const [found, setFound] = useState<{ filter: string; sessions: readonly ListedSession[] } | null>(null);
  const [hits, setHits] = useState<{ filter: string; hits: readonly SearchHit[] } | null>(null);
  const words = filter.trim().toLowerCase().split(/\s+/);
  const isPartial = gateway.moreSessions.value !== null;
  useEffect(() => {
    let isCurrent = true;
    const search = () => {
      if (isPartial)
        gateway.searchSessions(filter).then(
          (sessions) => isCurrent && setFound({ filter, sessions }),
          () => undefined,
        );
      gateway.manage.search(filter).then(
        (all) => {
          gateway.remember(all);
          if (isCurrent) setHits({ filter, hits: all });
        },
        () => isCurrent && setHits({ filter, hits: [] }),
      );
    };
    const timer = setTimeout(search, SEARCH_DELAY_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [gateway, filter, isPartial]);
  const named =
    found?.filter === filter && isPartial
      ? found.sessions
      : gateway.sessions.value.filter((item) => {
          const text = `${item.title ?? ""} ${item.agent} ${item.cwd}`.toLowerCase();
          return words.every((word) => text.includes(word));
        });
  const current = hits?.filter === filter ? hits.hits : [];
  const matches = new Map(current.map((hit) => [sessionKey(hit), hit.matches]));
  const names = new Set(named.map(sessionKey));
  const results = [...named, ...current.filter((hit) => !names.has(sessionKey(hit)))].slice(0, MAX_RESULTS);
  const searching = hits?.filter !== filter;
  return (
    <ul class="session-list" aria-label={t("search.results")} aria-busy={searching}>
      {results.map((item) => (
        <li key={sessionKey(item)}>
          <SessionLink item={item} showsFolder />
          {matches
            .get(sessionKey(item))
            ?.filter((match) => match.role !== "title")
            .slice(0, 1)
            .map((match, index) => <MatchText key={index} match={match} />)}
        </li>
      ))}
      {results.length === 0 && (
        <li class="muted no-sessions">{t(searching ? "search.searching" : "sessions.noMatches")}</li>
      )}
    </ul>
  );
}

/** A passage with the words that were searched for. */
function MatchText({ match }: { match: SearchMatch }) {
  let end = 0;
  const parts = match.marked.flatMap(([from, to]) => {
    const before = match.text.slice(end, from);
    end = to;
    return [before, <mark key={from}>{match.text.slice(from, to)}</mark>];
  });
  return (
    <p class="match">
      {parts}
      {match.text.slice(end)}
    </p>
  );
}

function ConnectionStatus() {
  const state = useGateway().connectionState.value;
  if (state === "open") return null;
  return (
    <span class="connection-status">
      {t(state === "connecting" ? "app.connecting" : "app.reconnecting")}
    </span>
  );
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

interface FooterProps {
  archiveOpen: boolean;
  onArchive: () => void;
}

function Footer({ archiveOpen, onArchive }: FooterProps) {
  const gateway = useGateway();
  const name = t(`theme.${theme.value}`);
  return (
    <footer>
      <a
        class="button quiet"
        href={routeHash({ page: "settings" })}
        aria-label={t("settings.title")}
        title={t("settings.title")}
        aria-current={route.value.page === "settings" ? "page" : undefined}
      >
        <Icon name="settings" />
      </a>
      <button
        type="button"
        class="quiet"
        aria-label={t("archive.title")}
        title={t("archive.title")}
        aria-pressed={archiveOpen}
        onClick={onArchive}
      >
        <Icon name="archive" />
      </button>
      <button
        type="button"
        class="quiet"
        aria-label={t("palette.title")}
        title={t("palette.hint")}
        onClick={() => {
          paletteOpen.value = true;
        }}
      >
        <Icon name="command" />
      </button>
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
