/** A block of code: its language, a button that copies it, and colours as soon as they are ready. */
import { useEffect, useRef, useState } from "preact/hooks";
import { highlight, languageOf } from "../text/highlight.ts";
import { escape } from "../text/sanitise.ts";
import { visible } from "../text/visible.ts";
import { Icon } from "./icons.tsx";

/** While code still grows it is coloured a few times a second; what came since stands plain behind. */
const PACE = 250;

export function Code({ text, language, growing = false }: { text: string; language: string; growing?: boolean }) {
  const [coloured, setColoured] = useState({ text: "", html: "" });
  const [copied, setCopied] = useState(false);
  const latest = useRef(text);
  latest.current = text;
  const known = languageOf(language) !== null;

  useEffect(() => {
    if (!known) return;
    let current = true;
    const colour = async () => {
      const code = visible(latest.current);
      const html = await highlight(code, language);
      if (current) setColoured({ text: code, html });
    };
    if (!growing) void colour();
    const id = growing ? setInterval(() => void colour(), PACE) : undefined;
    return () => {
      current = false;
      clearInterval(id);
    };
  }, [language, growing, growing ? null : text]);

  // The button copies the code as it is; what is shown has no unseen characters.
  const shown = visible(text);
  const html = coloured.html && shown.startsWith(coloured.text) ? coloured.html + escape(shown.slice(coloured.text.length)) : escape(shown);
  return (
    <figure class="code">
      <figcaption>
        <span>{language || "text"}</span>
        <button
          type="button"
          class="quiet small"
          onClick={() => {
            void copy(text).then((done) => {
              setCopied(done);
              setTimeout(() => setCopied(false), 1500);
            });
          }}
        >
          <Icon name={copied ? "check" : "copy"} /> {copied ? "Copied" : "Copy"}
        </button>
      </figcaption>
      <pre tabIndex={0} aria-label={`Code${language ? ` in ${language}` : ""}`}>
        <code dangerouslySetInnerHTML={{ __html: html }} />
      </pre>
    </figure>
  );
}

/** Browsers give the clipboard only to pages over TLS and on loopback; elsewhere the old way still works. */
async function copy(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
  }
  const area = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text, className: "unseen" }));
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
