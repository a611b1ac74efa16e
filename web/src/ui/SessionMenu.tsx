/** What can be done with the session that is shown: rename, archive, fork, export, share, delete. */
import { useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import type { Session } from "../state/session.ts";
import { baseName } from "../text/format.ts";
import { asRecord, errorReport, type ListedSession } from "../wire/extension-methods.ts";
import type { CreatedLink } from "../wire/management-methods.ts";
import { Dialog, MenuButton, type MenuItem } from "./Dialog.tsx";
import { ErrorText } from "./elements.tsx";
import { LinkView } from "./LinkView.tsx";
import { navigate, sessionDialog } from "./navigation.ts";

const HOUR = 3600;
/** How long a saved file may be read. */
const SAVE_MS = 10_000;
const LIFETIMES = [
  ["share.hour", HOUR],
  ["share.day", 24 * HOUR],
  ["share.week", 7 * 24 * HOUR],
  ["share.month", 30 * 24 * HOUR],
] as const;

export function SessionMenu({ session }: { session: Session }) {
  const gateway = useGateway();
  const [open, setOpen] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const items = useSessionActions(session, setError);
  const listed = gateway.findListedSession(session.address.agent, session.address.sessionId);
  if (!listed || items.length === 0) return null;
  const close = () => {
    sessionDialog.value = null;
  };
  return (
    <>
      {error && <ErrorText>{error}</ErrorText>}
      <MenuButton label={t("menu.label")} items={items} open={open} onOpen={setOpen} />
      {sessionDialog.value === "rename" && <RenameDialog listed={listed} onClose={close} />}
      {sessionDialog.value === "share" && <ShareDialog listed={listed} onClose={close} />}
      {sessionDialog.value === "delete" && <DeleteDialog listed={listed} onClose={close} />}
    </>
  );
}

/** The actions that the token and the agent allow, also for the command palette. */
export function useSessionActions(session: Session, onError: (text: string | null) => void): MenuItem[] {
  const gateway = useGateway();
  const { agent, sessionId } = session.address;
  const listed = gateway.findListedSession(agent, sessionId);
  if (!listed) return [];
  const attempt = (work: () => Promise<void>) => () => {
    onError(null);
    work().catch((reason: unknown) => onError(errorReport(reason).message));
  };
  const exported: MenuItem = {
    label: t("menu.export"),
    icon: "down",
    action: attempt(async () => {
      const { name, text } = await gateway.manage.export(listed);
      saveFile(name, text);
    }),
  };
  if (gateway.readOnly.value) return [exported];
  const abilities = asRecord(session.connection?.capabilities.sessionCapabilities);
  const open = (dialog: "rename" | "share" | "delete") => () => {
    onError(null);
    sessionDialog.value = dialog;
  };
  const copySession = async () => {
    const { address } = abilities["fork"]
      ? await gateway.forkSession(session)
      : await gateway.continueInNewSession(session);
    navigate({ page: "session", agent: address.agent, sessionId: address.sessionId });
  };
  const items: MenuItem[] = [
    { label: t("menu.rename"), icon: "edit", action: open("rename") },
    { label: t("menu.share"), icon: "share", action: open("share") },
    {
      label: t(abilities["fork"] ? "menu.fork" : "session.continue"),
      icon: "fork",
      action: attempt(copySession),
    },
    exported,
    {
      label: t(listed.archived ? "menu.unarchive" : "menu.archive"),
      icon: "archive",
      action: attempt(async () => {
        await gateway.manage.archive(listed, !listed.archived);
        gateway.announce(t(listed.archived ? "archive.restored" : "archive.done"));
        if (!listed.archived) navigate({ page: "home" });
      }),
    },
  ];
  if (abilities["delete"])
    items.push({ label: t("session.delete"), icon: "delete", danger: true, action: open("delete") });
  return items;
}

interface DialogProps {
  listed: ListedSession;
  onClose: () => void;
}

/** Runs one action. If that fails, shows the error and allows another attempt. */
function useAction(work: () => Promise<void>) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const run = async () => {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (reason) {
      setError(errorReport(reason).message);
    } finally {
      setBusy(false);
    }
  };
  return { run: () => void run(), busy, error };
}

function RenameDialog({ listed, onClose }: DialogProps) {
  const gateway = useGateway();
  const [title, setTitle] = useState(listed.title ?? baseName(listed.cwd));
  const { run, busy, error } = useAction(async () => {
    await gateway.manage.rename(listed, title.trim());
    onClose();
  });
  return (
    <Dialog title={t("rename.title")} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (title.trim() !== "" && !busy) run();
        }}
      >
        <div class="field">
          <label for="rename-title">{t("rename.label")}</label>
          <input
            id="rename-title"
            type="text"
            maxLength={200}
            autofocus
            value={title}
            onFocus={(event) => event.currentTarget.select()}
            onInput={(event) => setTitle(event.currentTarget.value)}
          />
        </div>
        {error && <ErrorText>{error}</ErrorText>}
        <div class="button-row">
          <button type="submit" class="primary" disabled={busy || title.trim() === ""}>
            {t("rename.save")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function ShareDialog({ listed, onClose }: DialogProps) {
  const gateway = useGateway();
  const [seconds, setSeconds] = useState<number>(LIFETIMES[1][1]);
  const [link, setLink] = useState<CreatedLink | null>(null);
  const create = useAction(async () => setLink(await gateway.manage.share(listed, seconds)));
  const revoke = useAction(async () => {
    if (link) await gateway.manage.revokeToken(link.id);
    setLink(null);
  });
  const error = create.error ?? revoke.error;
  return (
    <Dialog title={t("share.title")} onClose={onClose}>
      <p>{t("share.explanation")}</p>
      {link ? (
        <LinkView link={link} onRevoke={revoke.run} />
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (!create.busy) create.run();
          }}
        >
          <div class="field">
            <label for="share-lifetime">{t("share.lifetime")}</label>
            <select
              id="share-lifetime"
              value={seconds}
              onChange={(event) => setSeconds(Number(event.currentTarget.value))}
            >
              {LIFETIMES.map(([name, value]) => (
                <option key={value} value={value}>
                  {t(name)}
                </option>
              ))}
            </select>
          </div>
          <div class="button-row">
            <button type="submit" class="primary" disabled={create.busy}>
              {t("share.create")}
            </button>
          </div>
        </form>
      )}
      {error && <ErrorText>{error}</ErrorText>}
    </Dialog>
  );
}

function DeleteDialog({ listed, onClose }: DialogProps) {
  const gateway = useGateway();
  const { run, busy, error } = useAction(async () => {
    await gateway.deleteSession(listed);
    onClose();
    navigate({ page: "home" });
  });
  return (
    <Dialog title={t("session.deleteQuestion")} onClose={onClose}>
      <p>{t("session.deleteExplanation")}</p>
      {error && <ErrorText>{error}</ErrorText>}
      <div class="button-row">
        <button type="button" class="danger-fill" disabled={busy} onClick={run}>
          {t("session.deleteConfirm")}
        </button>
        <button type="button" onClick={onClose}>
          {t("session.deleteKeep")}
        </button>
      </div>
    </Dialog>
  );
}

/** Lets the browser save a text as a file. */
function saveFile(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/markdown;charset=utf-8" }));
  const link = document.createElement("a");
  Object.assign(link, { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), SAVE_MS);
}
