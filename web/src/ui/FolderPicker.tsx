/** The folders inside a path, to choose one. */
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import { baseName } from "../text/format.ts";
import type { FolderList } from "../wire/extension-methods.ts";
import { Icon } from "./elements.tsx";

interface FolderPickerProps {
  path: string;
  onChoose: (path: string | ((before: string) => string)) => void;
}

/** They follow what the user types into the folder field. */
export function FolderPicker({ path, onChoose }: FolderPickerProps) {
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
