/** The form for a new session: agent, folder, perhaps a worktree, and the first message. */
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import { AUTH_REQUIRED, type ListedAgent } from "../wire/extension-methods.ts";
import { isTouchDevice } from "./appearance.ts";
import { ErrorView, Icon } from "./elements.tsx";
import { FolderPicker } from "./FolderPicker.tsx";
import { RecentFolders } from "./Home.tsx";
import { useRecentFolders, useSessionStart } from "./session-start.ts";
import { AgentSignIn } from "./SignIn.tsx";

/** Begins the names of branches of worktrees. */
const BRANCH_PREFIX = "accord/";

export function NewSession({ folder }: { folder: string }) {
  const gateway = useGateway();
  const agents = gateway.agents.value;
  const recent = useRecentFolders();
  const [agent, setAgent] = useState(() => (agents.find((one) => one.default) ?? agents[0])?.name ?? "");
  const [cwd, setCwd] = useState(folder);
  const [worktree, setWorktree] = useState<string | null>(null);
  const [prompt, setPrompt] = useState("");
  const { start, busy, error, clearError } = useSessionStart();
  const submit = () => void start({ agent, folder: cwd, worktree, prompt });
  const page = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!isTouchDevice()) page.current?.querySelector<HTMLElement>(":checked, #folder")?.focus();
  }, []);
  return (
    <main class="page" ref={page}>
      <header class="page-header">
        <a class="button quiet round phone-only" href="#/" aria-label={t("app.back")}>
          <Icon name="back" />
        </a>
        <h2>{t("sessions.new")}</h2>
      </header>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (agent && cwd.trim() && !busy) submit();
        }}
      >
        <fieldset class="agents">
          <legend>{t("newSession.agent")}</legend>
          {agents.map((one) => (
            <AgentChoice
              key={one.name}
              agent={one}
              chosen={one.name === agent}
              onChoose={() => {
                setAgent(one.name);
                clearError();
              }}
            />
          ))}
        </fieldset>
        <div class="field">
          <label for="folder">{t("newSession.folder")}</label>
          <input
            id="folder"
            type="text"
            value={cwd}
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => setCwd(event.currentTarget.value)}
          />
        </div>
        {recent && <RecentFolders folders={recent.slice(0, 6)} chosen={cwd} onChoose={setCwd} />}
        <FolderPicker path={cwd} onChoose={setCwd} />
        <WorktreeChoice name={worktree} onChange={setWorktree} />
        <div class="field">
          <label for="first-prompt">{t("newSession.prompt")}</label>
          <textarea
            id="first-prompt"
            dir="auto"
            rows={3}
            value={prompt}
            onInput={(event) => setPrompt(event.currentTarget.value)}
          />
        </div>
        {error && <ErrorView error={error} prefix={t("newSession.failed")} />}
        {error?.code === AUTH_REQUIRED && <AgentSignIn key={agent} agent={agent} onSuccess={submit} />}
        <div class="button-row">
          <button type="submit" class="primary" disabled={busy || !agent || cwd.trim() === ""}>
            {t(busy ? "newSession.starting" : "newSession.start")}
          </button>
        </div>
      </form>
    </main>
  );
}

interface WorktreeChoiceProps {
  name: string | null;
  onChange: (name: string | null) => void;
}

/** Whether the session works on a branch of its own, and the name of the branch. */
function WorktreeChoice({ name, onChange }: WorktreeChoiceProps) {
  return (
    <div class="field worktree-choice">
      <label class="choice">
        <input
          type="checkbox"
          checked={name !== null}
          onChange={(event) => onChange(event.currentTarget.checked ? "" : null)}
        />
        <span>
          {t("worktree.choose")} <span class="muted">{t("worktree.explanation")}</span>
        </span>
      </label>
      {name !== null && (
        <div class="branch-name">
          <label for="branch-name">{t("worktree.branch")}</label>
          <span class="muted">{BRANCH_PREFIX}</span>
          <input
            id="branch-name"
            type="text"
            value={name}
            placeholder={t("worktree.placeholder")}
            pattern="[A-Za-z0-9][A-Za-z0-9._\-]{0,63}"
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => onChange(event.currentTarget.value)}
          />
        </div>
      )}
    </div>
  );
}

interface AgentChoiceProps {
  agent: ListedAgent;
  chosen: boolean;
  onChoose: () => void;
}

function AgentChoice({ agent, chosen, onChoose }: AgentChoiceProps) {
  return (
    <label class="agent-choice">
      <input type="radio" name="agent" checked={chosen} onChange={onChoose} />
      <span>
        <strong>{agent.title ?? agent.name}</strong>
        {agent.description && <span class="muted">{agent.description}</span>}
        {agent.state === "failed" && (
          <span class="error-text">{agent.reason ?? t("newSession.agentFailed")}</span>
        )}
      </span>
    </label>
  );
}
