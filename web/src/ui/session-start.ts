/** What the home page and the form for a new session share. */
import { useEffect, useState } from "preact/hooks";
import { useGateway } from "../state/gateway.ts";
import { startSession, type SessionChoice } from "../state/session-start.ts";
import { errorReport, type ErrorReport } from "../wire/extension-methods.ts";
import type { RecentFolder } from "../wire/management-methods.ts";
import { navigate } from "./navigation.ts";

export function useSessionStart() {
  const gateway = useGateway();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ErrorReport | null>(null);
  const start = async (choice: SessionChoice) => {
    setBusy(true);
    setError(null);
    try {
      const { address } = await startSession(gateway, choice);
      navigate({ page: "session", agent: address.agent, sessionId: address.sessionId });
    } catch (reason) {
      setError(errorReport(reason));
    } finally {
      setBusy(false);
    }
  };
  return { start, busy, error, clearError: () => setError(null) };
}

/** The folders of the latest sessions; null until they are known. */
export function useRecentFolders(): readonly RecentFolder[] | null {
  const gateway = useGateway();
  const [folders, setFolders] = useState<readonly RecentFolder[] | null>(null);
  useEffect(() => {
    let current = true;
    gateway.manage
      .recentFolders()
      .catch(() => [])
      .then((found) => current && setFolders(found));
    return () => {
      current = false;
    };
  }, [gateway]);
  return folders;
}
