/** The branch of a session, and the state and clean-up of its worktree. */
import { useEffect, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import type { Session } from "../state/session.ts";
import { worktreeNotes } from "../state/session-start.ts";
import { errorReport } from "../wire/extension-methods.ts";
import type { WorktreeState } from "../wire/management-methods.ts";
import { CopyButton } from "./CopyButton.tsx";
import { Dialog } from "./Dialog.tsx";
import { ErrorText, Icon } from "./elements.tsx";
import { navigate } from "./navigation.ts";

/** Shown only for sessions in a worktree. It is read again when a turn begins or ends. */
export function WorktreeBar({ session }: { session: Session }) {
  const gateway = useGateway();
  const { cwd } = session.address;
  const [state, setState] = useState<WorktreeState | null>(null);
  const [removing, setRemoving] = useState(false);
  const running = session.running.value;
  useEffect(() => {
    if (gateway.readOnly.value || !cwd.includes("-worktrees")) return;
    let current = true;
    gateway.manage.worktree(cwd).then(
      (found) => current && setState(found.worktree),
      () => undefined,
    );
    return () => {
      current = false;
    };
  }, [gateway, cwd, running]);
  if (!state) return null;
  return (
    <section class="worktree-bar" aria-label={t("worktree.label")}>
      <Icon name="branch" />
      <strong>{state.branch || state.name}</strong>
      <span class="muted">{stateText(state)}</span>
      <span class="spacer" />
      {state.commits > 0 && (
        <CopyButton text={state.mergeCommand}>{t("worktree.copyMerge")}</CopyButton>
      )}
      <button
        type="button"
        class="quiet small"
        disabled={running}
        aria-label={t("worktree.remove")}
        onClick={() => setRemoving(true)}
      >
        {t("worktree.removeShort")}
      </button>
      {worktreeNotes.value[cwd]?.map((note) => (
        <p class="muted" key={note}>
          {note}
        </p>
      ))}
      {removing && <RemoveDialog state={state} cwd={cwd} onClose={() => setRemoving(false)} />}
    </section>
  );
}

function stateText({ changes, commits }: WorktreeState): string {
  const parts: string[] = [];
  if (changes > 0) parts.push(t("worktree.changes", { count: changes }));
  if (commits > 0) parts.push(t("worktree.commits", { count: commits }));
  return parts.join(", ") || t("worktree.clean");
}

interface RemoveDialogProps {
  state: WorktreeState;
  cwd: string;
  onClose: () => void;
}

function RemoveDialog({ state, cwd, onClose }: RemoveDialogProps) {
  const gateway = useGateway();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const remove = async () => {
    setBusy(true);
    setError(null);
    try {
      gateway.announce(await gateway.manage.removeWorktree(cwd, state.changes > 0));
      onClose();
      navigate({ page: "home" });
    } catch (reason) {
      setError(errorReport(reason).message);
    } finally {
      setBusy(false);
    }
  };
  const saves = state.changes > 0;
  return (
    <Dialog title={t("worktree.removeTitle", { name: state.name })} onClose={onClose}>
      <p>
        {saves
          ? t("worktree.removeSaving", { count: state.changes, branch: state.branch })
          : t(state.commits > 0 ? "worktree.removeKeeping" : "worktree.removeClean", { branch: state.branch })}
      </p>
      {error && <ErrorText>{error}</ErrorText>}
      <div class="button-row">
        <button type="button" class="primary" disabled={busy} onClick={() => void remove()}>
          {t(saves ? "worktree.saveAndRemove" : "worktree.remove")}
        </button>
        <button type="button" onClick={onClose}>
          {t("app.cancel")}
        </button>
      </div>
    </Dialog>
  );
}
