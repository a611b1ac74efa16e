/** The first page: a composer, what waits for the user, recent folders with their branches, and examples. */
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import { requestSummary } from "../state/pending-requests.ts";
import { folderName } from "../text/format.ts";
import { AUTH_REQUIRED } from "../wire/extension-methods.ts";
import type { RecentFolder } from "../wire/management-methods.ts";
import { isTouchDevice } from "./appearance.ts";
import { ErrorView, Icon } from "./elements.tsx";
import { routeHash } from "./navigation.ts";
import { RichText } from "./RichText.tsx";
import { useRecentFolders, useSessionStart } from "./session-start.ts";
import { AgentSignIn } from "./SignIn.tsx";

const EXAMPLES = ["example.explain", "example.test", "example.review", "example.document"] as const;
const MAX_WAITING = 4;

export function Home() {
  const gateway = useGateway();
  if (gateway.readOnly.value) {
    return (
      <main class="empty-state">
        <h2>{t("home.readOnly")}</h2>
        <p>
          <RichText message="home.help" />
        </p>
      </main>
    );
  }
  return <HomePage />;
}

function HomePage() {
  const recent = useRecentFolders();
  const [folder, setFolder] = useState("");
  const [prompt, setPrompt] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  const chosen = folder || recent?.[0]?.path || "";
  const useExample = (text: string) => {
    setPrompt(text);
    field.current?.focus();
  };
  useEffect(() => {
    if (!isTouchDevice()) field.current?.focus();
  }, []);
  return (
    <main class="page home">
      <h2>{t("home.title")}</h2>
      <Composer field={field} folders={recent} folder={chosen} prompt={prompt} onPrompt={setPrompt} />
      <WaitingRequests />
      {recent && recent.length > 0 && (
        <section aria-labelledby="recent-title">
          <h3 id="recent-title">{t("home.recent")}</h3>
          <RecentFolders folders={recent} chosen={chosen} onChoose={setFolder} />
        </section>
      )}
      <section aria-labelledby="examples-title">
        <h3 id="examples-title">{t("home.examples")}</h3>
        <ul class="examples">
          {EXAMPLES.map((key) => (
            <li key={key}>
              <button type="button" onClick={() => useExample(t(key))}>
                {t(key)}
              </button>
            </li>
          ))}
        </ul>
      </section>
      {!isTouchDevice() && (
        <p class="muted home-help">
          <RichText message="home.help" />
        </p>
      )}
    </main>
  );
}

interface ComposerProps {
  field: { current: HTMLTextAreaElement | null };
  folders: readonly RecentFolder[] | null;
  folder: string;
  prompt: string;
  onPrompt: (text: string) => void;
}

function Composer({ field, folders, folder, prompt, onPrompt }: ComposerProps) {
  const gateway = useGateway();
  const agents = gateway.agents.value;
  const [agent, setAgent] = useState(() => (agents.find((one) => one.default) ?? agents[0])?.name ?? "");
  const [inWorktree, setInWorktree] = useState(false);
  const [start, setStart] = useState("");
  const session = useSessionStart();
  // Without recent folders, begin where the gateway begins.
  useEffect(() => {
    if (folders?.length !== 0) return;
    gateway.listFolders(null).then(
      (list) => setStart(list.path),
      () => undefined,
    );
  }, [gateway, folders]);
  const cwd = folder || start;
  const branch = folders?.find((one) => one.path === cwd)?.branch ?? null;
  const ready = agent !== "" && cwd !== "" && prompt.trim() !== "" && !session.busy;
  const submit = () => {
    if (ready) void session.start({ agent, folder: cwd, worktree: branch && inWorktree ? "" : null, prompt });
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <textarea
        ref={field}
        dir="auto"
        rows={3}
        aria-label={t("home.title")}
        placeholder={t("home.placeholder")}
        value={prompt}
        onInput={(event) => onPrompt(event.currentTarget.value)}
        onKeyDown={(event) => {
          const plainEnter = event.key === "Enter" && !event.shiftKey && !isTouchDevice();
          if (!plainEnter || event.isComposing || event.repeat) return;
          event.preventDefault();
          submit();
        }}
      />
      <div class="composer-row">
        <a class="chip" href={routeHash({ page: "new", folder: cwd })} title={cwd}>
          <Icon name="folder" /> {folderName(cwd) || cwd || t("newSession.folder")}
          {branch && <span class="muted"> · {branch}</span>}
        </a>
        {agents.length > 1 && (
          <select
            aria-label={t("newSession.agent")}
            value={agent}
            onChange={(event) => setAgent(event.currentTarget.value)}
          >
            {agents.map((one) => (
              <option key={one.name} value={one.name}>
                {one.title ?? one.name}
              </option>
            ))}
          </select>
        )}
        {branch && (
          <label class="choice">
            <input
              type="checkbox"
              checked={inWorktree}
              onChange={(event) => setInWorktree(event.currentTarget.checked)}
            />
            <span>{t("worktree.choose")}</span>
          </label>
        )}
        <span class="spacer" />
        <button type="submit" class="primary" disabled={!ready}>
          {t(session.busy ? "newSession.starting" : "newSession.start")}
        </button>
      </div>
      {session.error && <ErrorView error={session.error} prefix={t("newSession.failed")} />}
      {session.error?.code === AUTH_REQUIRED && <AgentSignIn key={agent} agent={agent} onSuccess={submit} />}
    </form>
  );
}

function WaitingRequests() {
  const gateway = useGateway();
  const requests = gateway.requests.value;
  if (requests.length === 0) return null;
  return (
    <section aria-labelledby="waiting-title">
      <h3 id="waiting-title">{t("sessions.waiting")}</h3>
      <ul class="waiting-list">
        {requests.slice(0, MAX_WAITING).map((request) => {
          const { agent, sessionId } = request;
          const listed = gateway.findListedSession(agent, sessionId);
          const to = listed ? ({ page: "session", agent, sessionId } as const) : ({ page: "inbox" } as const);
          return (
            <li key={request.key}>
              <a href={routeHash(to)}>
                <span class="activity-dot waiting" aria-hidden="true" />
                <span class="session-title">{requestSummary(request)}</span>
                <span class="muted">{listed?.title ?? agent}</span>
              </a>
            </li>
          );
        })}
      </ul>
      {requests.length > MAX_WAITING && (
        <a href={routeHash({ page: "inbox" })}>{t("home.allWaiting", { count: requests.length })}</a>
      )}
    </section>
  );
}

interface RecentFoldersProps {
  folders: readonly RecentFolder[];
  chosen: string;
  onChoose: (path: string) => void;
}

/** Folders with their branches, to choose one. */
export function RecentFolders({ folders, chosen, onChoose }: RecentFoldersProps) {
  if (folders.length === 0) return null;
  return (
    <ul class="recent-folders" aria-label={t("home.recent")}>
      {folders.map((folder) => (
        <li key={folder.path}>
          <button
            type="button"
            aria-pressed={folder.path === chosen}
            title={folder.path}
            onClick={() => onChoose(folder.path)}
          >
            <Icon name="folder" />
            <span>
              <strong>{folderName(folder.path)}</strong>
              <span class="muted">
                {folder.branch ? (
                  <>
                    <Icon name="branch" /> {folder.branch}
                  </>
                ) : (
                  t("home.noBranch")
                )}
              </span>
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}
