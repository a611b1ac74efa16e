/** Commands and files that fit what is being typed, as a list that the keyboard of the prompt moves through. */
import { useEffect, useRef, useState } from "preact/hooks";
import { completing, ranked, type Completing } from "../state/completion.ts";
import { mention } from "../state/mentions.ts";
import type { Session } from "../state/session.ts";
import { within } from "./format.ts";
import { useGateway } from "./context.ts";

export interface Suggestion {
  /** What is put into the text. */
  value: string;
  label: string;
  detail: string;
  path: string | null;
}

export interface Suggesting {
  word: Completing | null;
  items: readonly Suggestion[];
  index: number;
  move(step: number): void;
  dismiss(): void;
}

const MOST = 8;

export function useSuggestions(session: Session, text: string, caret: number): Suggesting {
  const gateway = useGateway();
  const [files, setFiles] = useState<readonly Suggestion[]>([]);
  const [index, setIndex] = useState(0);
  const [dismissed, setDismissed] = useState<string | null>(null);
  const word = completing(text, caret);
  const name = word ? `${word.kind}:${word.start}:${word.query}` : "";
  const asked = useRef("");
  asked.current = name;

  useEffect(() => setIndex(0), [name]);
  useEffect(() => {
    if (word?.kind !== "file") {
      setFiles([]);
      return;
    }
    const timer = setTimeout(() => {
      void gateway
        .files(session, word.query)
        .then((found) => {
          if (asked.current !== name) return;
          const { cwd } = session.address;
          setFiles(found.map((file) => ({ value: mention(file.path, cwd), label: within(file.path, cwd), detail: "", path: file.path })));
        })
        .catch(() => setFiles([]));
    }, 60);
    return () => clearTimeout(timer);
  }, [name]);

  let items: readonly Suggestion[] = [];
  if (word?.kind === "file") items = files;
  if (word?.kind === "command") {
    items = ranked(session.conversation.value.commands.value, word.query, (command) => command.name).map((command) => ({
      value: `/${command.name}`,
      label: `/${command.name}${command.input?.hint ? ` ${command.input.hint}` : ""}`,
      detail: command.description,
      path: null,
    }));
  }
  const key = word ? `${word.kind}:${word.start}` : "";
  if (dismissed === key) items = [];
  items = items.slice(0, MOST);
  return {
    word,
    items,
    index: Math.min(index, Math.max(0, items.length - 1)),
    move: (step) => setIndex((before) => (before + step + items.length) % Math.max(1, items.length)),
    dismiss: () => setDismissed(key),
  };
}

export function Suggestions({ suggesting, choose }: { suggesting: Suggesting; choose: (item: Suggestion) => void }) {
  if (suggesting.items.length === 0) return null;
  return (
    <ul class="suggestions" id="suggestions" role="listbox" aria-label={suggesting.word?.kind === "file" ? "Files" : "Commands"}>
      {suggesting.items.map((item, index) => (
        <li
          key={item.value}
          id={`suggestion-${index}`}
          role="option"
          aria-selected={index === suggesting.index}
          // The prompt keeps the focus; a press must not take it away before it is a click.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => choose(item)}
        >
          <span>{item.label}</span>
          {item.detail && <span class="faint">{item.detail}</span>}
        </li>
      ))}
    </ul>
  );
}
