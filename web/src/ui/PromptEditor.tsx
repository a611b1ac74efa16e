/** The field where users write prompts, with images and a list of completions. */
import type * as acp from "@agentclientprotocol/sdk";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import {
  applyCompletion,
  completionQuery,
  fileMention,
  imageBlock,
  imageFiles,
  promptBlocks,
  rankMatches,
  type CompletionQuery,
} from "../state/prompt-input.ts";
import { newPrompt } from "../state/prompt-queue.ts";
import type { Session } from "../state/session.ts";
import { relativePath } from "../text/format.ts";
import { isTouchDevice } from "./appearance.ts";
import { rewindCommand } from "../state/rewind.ts";
import { ErrorText, Icon } from "./elements.tsx";

const MAX_COMPLETIONS = 8;
const FILE_SEARCH_DELAY_MS = 60;
/** How soon to ask again while the gateway reads a large folder. */
const FILE_SEARCH_REPEAT_MS = 400;

function placeholder(running: boolean, steers: boolean): string {
  if (steers) return t(isTouchDevice() ? "prompt.steerOnTouch" : "prompt.steer");
  return t(running ? "prompt.queue" : "prompt.start");
}

export function PromptEditor({ session }: { session: Session }) {
  const input = useRef<HTMLTextAreaElement>(null);
  const [cursor, setCursor] = useState(0);
  const [images, setImages] = useState<readonly acp.ContentBlock[]>([]);
  const [error, setError] = useState<string | null>(null);
  /** Paths of the mentioned files by their mention in the text. */
  const mentions = useRef(new Map<string, string>());
  const nextCursor = useRef<number | null>(null);
  const text = session.draft.value;
  const running = session.running.value;
  const completion = useCompletion(session, text, cursor);
  const acceptsImages = session.connection?.capabilities.promptCapabilities?.image === true;

  useEffect(() => {
    if (!isTouchDevice()) input.current?.focus();
  }, [session]);
  useLayoutEffect(() => {
    const element = input.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, innerHeight * 0.4)}px`;
    if (nextCursor.current !== null) {
      element.setSelectionRange(nextCursor.current, nextCursor.current);
      nextCursor.current = null;
    }
  }, [text, running]);

  const accept = (item: CompletionItem) => {
    if (!completion.word) return;
    const completed = applyCompletion(text, completion.word, item.value);
    if (item.path) mentions.current.set(item.value, item.path);
    session.draft.value = completed.text;
    nextCursor.current = completed.cursor;
    setCursor(completed.cursor);
    input.current?.focus();
  };
  const steers = session.canSteer(text);
  const send = (later = false) => {
    const blocks = promptBlocks(text, mentions.current, images);
    if (blocks.length === 0) return;
    if (images.length === 0 && session.canReview() && text.trim() === "/review") {
      session.draft.value = "";
      session.reviewing.value = true;
      return;
    }
    const command = session.canRewind() && images.length === 0 ? rewindCommand(text) : null;
    if (command !== null) {
      session.draft.value = "";
      if (command === "undo") void session.rewind(null, "both");
      else void (command === "redo" ? session.redo() : session.openRewind());
      return;
    }
    if (steers && !later) void session.steer(newPrompt(blocks));
    else session.submit(newPrompt(blocks));
    session.draft.value = "";
    setImages([]);
    setError(null);
    mentions.current.clear();
  };
  const addImages = async (files: readonly File[]) => {
    if (files.length === 0) return;
    if (!acceptsImages) {
      setError(t("prompt.noImages"));
      return;
    }
    try {
      const blocks = await Promise.all(files.map(imageBlock));
      setImages((before) => [...before, ...blocks]);
      setError(null);
    } catch {
      setError(t("prompt.imageFailed"));
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (completion.items.length > 0) {
      const item = completion.items[completion.index];
      if (event.key === "Enter" && !event.repeat && item?.value.trim() === text.trim()) {
        event.preventDefault();
        send(); // the whole command is there
        return;
      }
      if (event.key === "ArrowDown" || event.key === "ArrowUp")
        completion.move(event.key === "ArrowDown" ? 1 : -1);
      else if ((event.key === "Enter" || event.key === "Tab") && item) accept(item);
      else if (event.key === "Escape") completion.close();
      else return;
      event.preventDefault();
      return;
    }
    const plainEnter = !event.shiftKey && !isTouchDevice();
    if (event.key === "Enter" && event.altKey && running) {
      event.preventDefault();
      if (!event.repeat) send(true);
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey || plainEnter)) {
      event.preventDefault();
      // Ignore a key that is still held down, for example from an answer to a request.
      if (!event.repeat) send();
    }
  };
  const updateCursor = () => setCursor(input.current?.selectionStart ?? 0);

  return (
    <form
      class="prompt-editor"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void addImages(imageFiles(event.dataTransfer));
      }}
    >
      <CompletionList completion={completion} onAccept={accept} />
      <AttachedImages images={images} onChange={setImages} />
      {error && <ErrorText>{error}</ErrorText>}
      <div class="prompt-row">
        {acceptsImages && <ImageButton onChoose={(files) => void addImages(files)} />}
        <textarea
          id="prompt"
          dir="auto"
          ref={input}
          rows={1}
          value={text}
          placeholder={placeholder(running, steers)}
          aria-label={t("prompt.label")}
          aria-autocomplete="list"
          aria-haspopup="listbox"
          aria-controls="completions"
          aria-activedescendant={completion.items.length > 0 ? `completion-${completion.index}` : undefined}
          enterkeyhint={isTouchDevice() ? "enter" : "send"}
          onInput={(event) => {
            session.draft.value = event.currentTarget.value;
            updateCursor();
          }}
          onKeyDown={onKeyDown}
          onKeyUp={updateCursor}
          onClick={updateCursor}
          onPaste={(event) => {
            const files = imageFiles(event.clipboardData);
            if (files.length > 0) {
              event.preventDefault();
              void addImages(files);
            }
          }}
        />
        {steers && text.trim() !== "" && (
          <button
            type="button"
            class="quiet round"
            aria-label={t("prompt.queueLater")}
            title={t("prompt.queueLater")}
            onClick={() => send(true)}
          >
            <Icon name="queue" />
          </button>
        )}
        {running && (
          <button
            type="button"
            class="stop round"
            aria-label={t("prompt.cancelTurn")}
            disabled={session.cancelling.value}
            onClick={() => session.cancel()}
          >
            <Icon name="stop" />
          </button>
        )}
        <button
          type="submit"
          class="primary round"
          aria-label={t(steers ? "prompt.sendToTurn" : running ? "prompt.queueThis" : "prompt.send")}
          disabled={text.trim() === "" && images.length === 0}
        >
          <Icon name="send" />
        </button>
      </div>
    </form>
  );
}

function ImageButton({ onChoose }: { onChoose: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button
        type="button"
        class="quiet round"
        aria-label={t("prompt.attach")}
        onClick={() => input.current?.click()}
      >
        <Icon name="attach" />
      </button>
      <input
        ref={input}
        type="file"
        accept="image/*"
        multiple
        hidden
        onChange={(event) => {
          onChoose([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = "";
        }}
      />
    </>
  );
}

interface AttachedImagesProps {
  images: readonly acp.ContentBlock[];
  onChange: (images: readonly acp.ContentBlock[]) => void;
}

function AttachedImages({ images, onChange }: AttachedImagesProps) {
  if (images.length === 0) return null;
  return (
    <ul class="attachments" aria-label={t("prompt.images")}>
      {images.map((block, index) => (
        <li key={index}>
          {block.type === "image" && (
            <img
              src={`data:${block.mimeType};base64,${block.data}`}
              alt={t("prompt.image", { number: index + 1 })}
            />
          )}
          <button
            type="button"
            aria-label={t("prompt.removeImage", { number: index + 1 })}
            onClick={() => onChange(images.filter((_, other) => other !== index))}
          >
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
  );
}

interface CompletionItem {
  /** The text that replaces the word. */
  value: string;
  label: string;
  description: string;
  path: string | null;
}

interface Completion {
  word: CompletionQuery | null;
  items: readonly CompletionItem[];
  index: number;
  move(step: number): void;
  close(): void;
}

/** Finds the commands or files that match the word at the cursor. */
function useCompletion(session: Session, text: string, cursor: number): Completion {
  const gateway = useGateway();
  const [files, setFiles] = useState<readonly CompletionItem[]>([]);
  const [index, setIndex] = useState(0);
  const [closedWord, setClosedWord] = useState<string | null>(null);
  const word = completionQuery(text, cursor);
  const query = word ? `${word.kind}:${word.start}:${word.query}` : "";
  const latestQuery = useRef("");
  latestQuery.current = query;

  useEffect(() => setIndex(0), [query]);
  useEffect(() => {
    if (word?.kind !== "file") {
      setFiles([]);
      return;
    }
    const { cwd } = session.address;
    const search = async () => {
      try {
        const found = await gateway.findFiles(session, word.query);
        if (latestQuery.current !== query) return;
        setFiles(found.files.map(({ path }) => fileItem(path, cwd)));
        if (found.incomplete) timer = setTimeout(() => void search(), FILE_SEARCH_REPEAT_MS);
      } catch {
        setFiles([]);
      }
    };
    let timer = setTimeout(() => void search(), FILE_SEARCH_DELAY_MS);
    return () => clearTimeout(timer);
  }, [query]);

  let items: readonly CompletionItem[] = [];
  if (word?.kind === "file") items = files;
  if (word?.kind === "command") {
    const commands = session.conversation.value.commands.value;
    items = rankMatches(commands, word.query, (command) => command.name).map(commandItem);
  }
  const wordKey = word ? `${word.kind}:${word.start}` : "";
  if (closedWord === wordKey) items = [];
  items = items.slice(0, MAX_COMPLETIONS);
  return {
    word,
    items,
    index: Math.min(index, Math.max(0, items.length - 1)),
    move: (step) => setIndex((before) => (before + step + items.length) % Math.max(1, items.length)),
    close: () => setClosedWord(wordKey),
  };
}

function fileItem(path: string, cwd: string): CompletionItem {
  return { value: fileMention(path, cwd), label: relativePath(path, cwd), description: "", path };
}

function commandItem(command: acp.AvailableCommand): CompletionItem {
  const name = `/${command.name}`;
  const label = command.input?.hint ? `${name} ${command.input.hint}` : name;
  return { value: name, label, description: command.description, path: null };
}

interface CompletionListProps {
  completion: Completion;
  onAccept: (item: CompletionItem) => void;
}

function CompletionList({ completion, onAccept }: CompletionListProps) {
  if (completion.items.length === 0) return null;
  const label = t(completion.word?.kind === "file" ? "prompt.files" : "prompt.commands");
  return (
    <ul class="completions" id="completions" role="listbox" aria-label={label}>
      {completion.items.map((item, index) => (
        <li
          key={item.value}
          id={`completion-${index}`}
          role="option"
          aria-selected={index === completion.index}
          // Keep the focus in the prompt while the user clicks an item.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => onAccept(item)}
        >
          <span>{item.label}</span>
          {item.description && <span class="muted">{item.description}</span>}
        </li>
      ))}
    </ul>
  );
}
