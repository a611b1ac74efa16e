/** All commands and sessions in one list that can be searched: Ctrl+K. */
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import { rankMatches } from "../state/prompt-input.ts";
import { sessionKey } from "../state/session-rows.ts";
import type { Session } from "../state/session.ts";
import { baseName } from "../text/format.ts";
import { switchTheme } from "./appearance.ts";
import { Icon, type IconName } from "./elements.tsx";
import { addingDevice, helpOpen, navigate, paletteOpen, route } from "./navigation.ts";
import { useSessionActions } from "./SessionMenu.tsx";

const MAX_ENTRIES = 12;

interface PaletteEntry {
  key: string;
  label: string;
  detail: string;
  icon: IconName;
  run: () => void;
}

export function CommandPalette() {
  const gateway = useGateway();
  if (!paletteOpen.value || gateway.phase.value !== "ready" || gateway.sharedSession.value !== null) return null;
  const current = route.value;
  const session =
    current.page === "session" ? gateway.findOpenSession(current.agent, current.sessionId) : undefined;
  return session ? <SessionPalette session={session} /> : <Palette own={[]} />;
}

function SessionPalette({ session }: { session: Session }) {
  const gateway = useGateway();
  const actions = useSessionActions(session, (error) => error && gateway.announce(error));
  const own = actions.map(({ label, icon, action }) => ({
    key: label,
    label,
    detail: t("palette.thisSession"),
    icon,
    run: action,
  }));
  return <Palette own={own} />;
}

function Palette({ own }: { own: readonly PaletteEntry[] }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [query, setQuery] = useState("");
  const [index, setIndex] = useState(0);
  const commands = usePageCommands();
  const sessions = useSessionEntries();
  useEffect(() => dialog.current?.showModal(), []);
  const all = [...own, ...commands, ...sessions];
  const found = (query.trim() === "" ? all : rankMatches(all, query.trim(), (one) => one.label)).slice(
    0,
    MAX_ENTRIES,
  );
  const selected = Math.min(index, found.length - 1);
  const close = () => {
    paletteOpen.value = false;
  };
  const run = (entry: PaletteEntry | undefined) => {
    if (!entry) return;
    dialog.current?.close(); // returns the focus before the command moves it
    close();
    entry.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) setIndex((selected + step + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter" && !event.isComposing) run(found[selected]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" aria-label={t("palette.title")} onClose={close}>
      <input
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found.length > 0 ? `palette-${selected}` : undefined}
        aria-label={t("palette.label")}
        placeholder={t("palette.label")}
        autocomplete="off"
        spellcheck={false}
        value={query}
        onInput={(event) => {
          setQuery(event.currentTarget.value);
          setIndex(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id="palette-list" role="listbox" aria-label={t("palette.title")}>
        {found.map((entry, position) => (
          <li
            key={entry.key}
            id={`palette-${position}`}
            role="option"
            aria-selected={position === selected}
            onClick={() => run(entry)}
          >
            <Icon name={entry.icon} />
            <span class="session-title">{entry.label}</span>
            <span class="muted">{entry.detail}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="muted">{t("palette.empty")}</p>}
    </dialog>
  );
}

/** The commands of the page that the token allows. */
function usePageCommands(): PaletteEntry[] {
  const gateway = useGateway();
  const entry = (label: string, icon: IconName, run: () => void): PaletteEntry => ({
    key: label,
    label,
    detail: "",
    icon,
    run,
  });
  const always = [
    entry(t("home.label"), "home", () => navigate({ page: "home" })),
    entry(t("settings.title"), "settings", () => navigate({ page: "settings" })),
    entry(t("shortcuts.theme"), "moon", switchTheme),
    entry(t("shortcuts.title"), "help", () => {
      helpOpen.value = true;
    }),
    entry(t("sessions.signOut"), "signOut", () => void gateway.signOut()),
  ];
  if (gateway.readOnly.value) return always;
  return [
    entry(t("sessions.new"), "plus", () => navigate({ page: "new" })),
    entry(t("inbox.title"), "inbox", () => navigate({ page: "inbox" })),
    entry(t("devices.add"), "phone", () => {
      navigate({ page: "settings" });
      addingDevice.value = true;
    }),
    ...always,
  ];
}

function useSessionEntries(): PaletteEntry[] {
  return useGateway().sessions.value.map((session) => ({
    key: sessionKey(session),
    label: session.title ?? baseName(session.cwd),
    detail: baseName(session.cwd),
    icon: "agent",
    run: () => navigate({ page: "session", agent: session.agent, sessionId: session.sessionId }),
  }));
}
