/** The form for a new session: choose an agent and a folder. */
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import { baseName } from "../text/format.ts";
import {
  AUTH_REQUIRED,
  errorReport,
  type ErrorReport,
  type FolderList,
  type ListedAgent,
} from "../wire/extension-methods.ts";
import { isTouchDevice } from "./appearance.ts";
import { ErrorView, Icon } from "./elements.tsx";
import { navigate } from "./navigation.ts";
import { AgentSignIn } from "./SignIn.tsx";

export function NewSession() {
  const gateway = useGateway();
  const agents = gateway.agents.value;
  const [agent, setAgent] = useState(() => (agents.find((one) => one.default) ?? agents[0])?.name ?? "");
  const [cwd, setCwd] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ErrorReport | null>(null);
  const start = async () => {
    setBusy(true);
    setError(null);
    try {
      const session = await gateway.createSession(agent, cwd.trim());
      navigate({ page: "session", agent: session.address.agent, sessionId: session.address.sessionId });
    } catch (reason) {
      setError(errorReport(reason));
    } finally {
      setBusy(false);
    }
  };
  const page = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!isTouchDevice()) page.current?.querySelector<HTMLElement>(":checked, #folder")?.focus();
  }, []);
  const chooseAgent = (name: string) => {
    setAgent(name);
    setError(null);
  };
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
          if (agent && cwd.trim() && !busy) void start();
        }}
      >
        <fieldset class="agents">
          <legend>{t("newSession.agent")}</legend>
          {agents.map((one) => (
            <AgentChoice
              key={one.name}
              agent={one}
              chosen={one.name === agent}
              onChoose={() => chooseAgent(one.name)}
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
        <FolderPicker path={cwd} onChoose={setCwd} />
        {error && <ErrorView error={error} prefix={t("newSession.failed")} />}
        {error?.code === AUTH_REQUIRED && (
          <AgentSignIn key={agent} agent={agent} onSuccess={() => void start()} />
        )}
        <div class="button-row">
          <button type="submit" class="primary" disabled={busy || !agent || cwd.trim() === ""}>
            {t(busy ? "newSession.starting" : "newSession.start")}
          </button>
        </div>
      </form>
    </main>
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

interface FolderPickerProps {
  path: string;
  onChoose: (path: string | ((before: string) => string)) => void;
}

/** The folders inside a path. They follow what the user types into the folder field. */
function FolderPicker({ path, onChoose }: FolderPickerProps) {
  const gateway = useGateway();
  const [list, setList] = useState<FolderList | null>(null);
  const [failed, setFailed] = useState(false);
  const first = useRef(true);
  useEffect(() => {
    let current = true;
    const load = async () => {
      try {
        const found = await gateway.listFolders(path === "" ? null : path);
        if (!current) return;
        setList(found);
        setFailed(false);
        // Keep what the user typed while the list was loading.
        if (path === "" && first.current) onChoose((before) => before || found.path);
        first.current = false;
      } catch {
        if (current) setFailed(true);
      }
    };
    const timer = setTimeout(() => void load(), path === "" ? 0 : 150);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [path]);
  if (list === null) return null;
  return (
    <div class="folders" role="group" aria-label={t("newSession.foldersIn", { path: list.path })}>
      {failed && <p class="muted">{t("newSession.noFolder")}</p>}
      <ul>
        {list.parent && (
          <li>
            <button type="button" class="quiet" onClick={() => onChoose(list.parent ?? "/")}>
              <Icon name="back" /> {baseName(list.parent) || "/"}
              <span class="visually-hidden">{t("newSession.parent")}</span>
            </button>
          </li>
        )}
        {list.folders.map((folder) => (
          <li key={folder.path}>
            <button type="button" class="quiet" onClick={() => onChoose(folder.path)}>
              <Icon name="folder" /> {folder.name}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
