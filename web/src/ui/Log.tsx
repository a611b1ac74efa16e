/** The conversation, which stays at its end as long as the reader does. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Session } from "../state/session.ts";
import { useGateway } from "./context.ts";
import { EntryView } from "./Entries.tsx";
import { Icon } from "./icons.tsx";

const NEAR = 60;

export function Log({ session }: { session: Session }) {
  const conversation = session.conversation.value;
  const entries = conversation.entries.value;
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const top = useRef(0);
  const [away, setAway] = useState(false);

  const toEnd = () => {
    following.current = true;
    setAway(false);
    if (scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  };

  useLayoutEffect(toEnd, [conversation]);
  useEffect(() => {
    const follow = () => {
      if (following.current && scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight;
    };
    const watcher = new ResizeObserver(follow);
    if (content.current) watcher.observe(content.current);
    if (scroller.current) watcher.observe(scroller.current);
    return () => watcher.disconnect();
  }, []);

  return (
    <div class="log-frame">
      <div
        class="log"
        ref={scroller}
        role="log"
        aria-label="Conversation"
        aria-live="off"
        aria-busy={session.running.value}
        tabIndex={0}
        onScroll={(event) => {
          const element = event.currentTarget;
          const rest = element.scrollHeight - element.scrollTop - element.clientHeight;
          // Only a reader scrolls up; when the space shrinks or the text grows, the end is merely out of sight for a moment.
          if (element.scrollTop < top.current - 1 && rest > 2) following.current = false;
          else if (rest < NEAR) following.current = true;
          top.current = element.scrollTop;
          setAway(!following.current);
        }}
      >
        <div class="log-content" ref={content}>
          {session.state.value === "loading" && <p class="faint centre">Loading the conversation…</p>}
          {session.state.value === "ready" && entries.length === 0 && <Empty />}
          {entries.map((entry) => (
            <div class="entry" key={entry.key}>
              <EntryView entry={entry} session={session} />
            </div>
          ))}
          {session.running.value && <Working session={session} />}
        </div>
      </div>
      {away && (
        <button type="button" class="to-end" onClick={toEnd}>
          <Icon name="down" /> Latest
        </button>
      )}
    </div>
  );
}

function Working({ session }: { session: Session }) {
  const text = session.cancelling.value ? "Cancelling…" : session.questions.value.length > 0 ? "Waiting for you" : "Working…";
  return (
    <p class="working">
      <span class="pulse" /> {text}
    </p>
  );
}

function Empty() {
  if (useGateway().readOnly.value) return <p class="faint centre">Nothing has been said here yet.</p>;
  return (
    <div class="empty">
      <h2>What shall we do?</h2>
      <p>
        Type <kbd>/</kbd> for the agent's commands, <kbd>@</kbd> for a file, or paste a picture.
      </p>
    </div>
  );
}
