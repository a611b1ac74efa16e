/** A block of code: its language, a button that copies it, and colours as soon as they are ready. */
import { useEffect, useRef, useState } from "preact/hooks";
import { highlight, languageOf } from "../text/highlight.ts";
import { escape } from "../text/sanitise.ts";
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
      const code = latest.current;
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

  const html = coloured.html && text.startsWith(coloured.text) ? coloured.html + escape(text.slice(coloured.text.length)) : escape(text);
  return (
    <figure class="code">
      <figcaption>
        <span>{language || "text"}</span>
        <button
          type="button"
          class="quiet small"
          onClick={() => {
            void navigator.clipboard?.writeText(text).then(() => {
              setCopied(true);
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
