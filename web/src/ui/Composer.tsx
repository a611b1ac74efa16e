/** Where prompts are written. */
import type * as acp from "@agentclientprotocol/sdk";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { completed } from "../state/completion.ts";
import { blocks } from "../state/mentions.ts";
import { picture, picturesIn } from "../state/pictures.ts";
import type { Session } from "../state/session.ts";
import { prompt } from "../state/waiting.ts";
import { Suggestions, useSuggestions, type Suggestion } from "./Completion.tsx";
import { Icon } from "./icons.tsx";
import { touch } from "./media.ts";

export function Composer({ session }: { session: Session }) {
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const [caret, setCaret] = useState(0);
  const [pictures, setPictures] = useState<readonly acp.ContentBlock[]>([]);
  const [problem, setProblem] = useState<string | null>(null);
  const chosen = useRef(new Map<string, string>());
  const wanted = useRef<number | null>(null);
  const text = session.draft.value;
  const running = session.running.value;
  const suggesting = useSuggestions(session, text, caret);
  const takesPictures = session.connection?.capabilities.promptCapabilities?.image === true;

  useEffect(() => {
    if (!touch()) area.current?.focus();
  }, [session]);
  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, innerHeight * 0.4)}px`;
    if (wanted.current !== null) {
      element.setSelectionRange(wanted.current, wanted.current);
      wanted.current = null;
    }
  }, [text, running]);

  const choose = (item: Suggestion) => {
    if (!suggesting.word) return;
    const next = completed(text, suggesting.word, item.value);
    if (item.path) chosen.current.set(item.value, item.path);
    session.draft.value = next.text;
    wanted.current = next.caret;
    setCaret(next.caret);
    area.current?.focus();
  };
  const send = () => {
    const made = blocks(text, chosen.current, pictures);
    if (made.length === 0) return;
    session.submit(prompt(made));
    session.draft.value = "";
    setPictures([]);
    setProblem(null);
    chosen.current.clear();
  };
  const take = async (files: readonly File[]) => {
    if (files.length === 0) return;
    if (!takesPictures) {
      setProblem("This agent does not take pictures.");
      return;
    }
    try {
      const made = await Promise.all(files.map(picture));
      setPictures((before) => [...before, ...made]);
      setProblem(null);
    } catch {
      setProblem("The picture could not be read.");
    }
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (suggesting.items.length > 0) {
      const item = suggesting.items[suggesting.index];
      if (event.key === "ArrowDown" || event.key === "ArrowUp") suggesting.move(event.key === "ArrowDown" ? 1 : -1);
      else if ((event.key === "Enter" || event.key === "Tab") && item) choose(item);
      else if (event.key === "Escape") suggesting.dismiss();
      else return;
      event.preventDefault();
      return;
    }
    const submits = event.key === "Enter" && (event.ctrlKey || event.metaKey || (!event.shiftKey && !touch()));
    if (submits) {
      event.preventDefault();
      // A key that is still held down from an answer given elsewhere sends nothing.
      if (!event.repeat) send();
    }
  };
  const moved = () => setCaret(area.current?.selectionStart ?? 0);

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void take(picturesIn(event.dataTransfer));
      }}
    >
      <Suggestions suggesting={suggesting} choose={choose} />
      {pictures.length > 0 && (
        <ul class="attached" aria-label="Pictures of this prompt">
          {pictures.map((block, index) => (
            <li key={index}>
              {block.type === "image" && <img src={`data:${block.mimeType};base64,${block.data}`} alt={`Picture ${index + 1}`} />}
              <button type="button" aria-label={`Remove picture ${index + 1}`} onClick={() => setPictures(pictures.filter((_, other) => other !== index))}>
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {problem && (
        <p class="fault" role="alert">
          {problem}
        </p>
      )}
      <div class="composer-row">
        {takesPictures && (
          <>
            <button type="button" class="quiet round" aria-label="Attach a picture" onClick={() => picker.current?.click()}>
              <Icon name="attach" />
            </button>
            <input
              ref={picker}
              type="file"
              accept="image/*"
              multiple
              hidden
              onChange={(event) => {
                void take([...(event.currentTarget.files ?? [])]);
                event.currentTarget.value = "";
              }}
            />
          </>
        )}
        <textarea
          id="prompt"
          dir="auto"
          ref={area}
          rows={1}
          value={text}
          placeholder={running ? "Next prompt, after this turn" : "Ask, or tell what to do"}
          aria-label="Prompt"
          aria-autocomplete="list"
          aria-haspopup="listbox"
          aria-controls="suggestions"
          aria-activedescendant={suggesting.items.length > 0 ? `suggestion-${suggesting.index}` : undefined}
          enterkeyhint={touch() ? "enter" : "send"}
          onInput={(event) => {
            session.draft.value = event.currentTarget.value;
            moved();
          }}
          onKeyDown={pressed}
          onKeyUp={moved}
          onClick={moved}
          onPaste={(event) => {
            const files = picturesIn(event.clipboardData);
            if (files.length > 0) {
              event.preventDefault();
              void take(files);
            }
          }}
        />
        {running && (
          <button type="button" class="stop round" aria-label="Cancel this turn" disabled={session.cancelling.value} onClick={() => session.cancel()}>
            <Icon name="stop" />
          </button>
        )}
        <button
          type="submit"
          class="primary round"
          aria-label={running ? "Queue this prompt" : "Send"}
          disabled={text.trim() === "" && pictures.length === 0}
        >
          <Icon name="send" />
        </button>
      </div>
    </form>
  );
}
