/**
 * Makes text of agents, models and files safe to show.
 *
 * `sanitizeHtml` and `sanitizeMath` are the only ways from untrusted text to HTML. The first keeps the elements that Markdown produces
 * and drops styles, forms and everything that loads from another server. Links open in a new tab without
 * access to this one.
 *
 * `revealHidden` shows invisible characters by their code point: those that reverse the text direction, so
 * that `cod.sh` would read `hs.doc`, and those that can hide words. It keeps the direction marks that real
 * texts need (U+200E, U+200F, U+061C) and the joiners of letters and emoji.
 */
import DOMPurify from "dompurify";
import { Fragment, options, type ComponentChildren } from "preact";

// prettier-ignore
const TAGS = [
  "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "img", "li", "ol",
  "p", "pre", "span", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
];
const ATTRIBUTES = ["href", "title", "class", "start", "src", "alt", "align"];
const LINK = /^(?:https?|mailto):/i;
const IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,[a-z0-9+/]+={0,2}$/i;
/** Elements that may contain text in a right-to-left language. */
const OWN_DIRECTION = /^(?:P|LI|UL|OL|H[1-6]|BLOCKQUOTE|TD|TH)$/;
const OWN_CLASS = /^(?:hljs|language-[\w+#-]+|md-[\w-]+)|_$/;
/** An item of a task list begins with a box. */
const TASK = /^\s*[☐☑] /;
const ESCAPES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
// prettier-ignore
const HIDDEN_RANGES = [
  "\\u0000-\\u0008", "\\u000b", "\\u000c", "\\u000e-\\u001f", "\\u007f-\\u009f", "\\u00ad", "\\u200b",
  "\\u202a-\\u202e", "\\u2060-\\u2064", "\\u2066-\\u206f", "\\ufeff", "\\ufff9-\\ufffb",
  "\\u{e0000}-\\u{e007f}",
];
const HIDDEN = new RegExp(`[${HIDDEN_RANGES.join("")}]`, "gu");
/** Attributes with text that users see or hear. */
const TEXT_ATTRIBUTES = ["title", "aria-label", "aria-valuetext", "alt", "placeholder", "label"];

export function sanitizeHtml(html: string): string {
  return purifier.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ATTRIBUTES,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ADD_URI_SAFE_ATTR: ["align", "start"], // no addresses
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/(?:png|jpeg|gif|webp);base64,)/i,
  });
}

/** Like `sanitizeHtml`, for MathML without links and styles. */
export function sanitizeMath(html: string): string {
  return purifier.sanitize(html, {
    USE_PROFILES: { mathMl: true },
    FORBID_ATTR: ["href", "xlink:href", "style", "class", "id"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
  });
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? character);
}

/** Whether a URL is a `data:` URL of an image type that the page shows. */
export function isImageUrl(url: string): boolean {
  return IMAGE.test(url);
}

/** The URL if the page may link to it, otherwise null. */
export function safeLink(url: string): string | null {
  return LINK.test(url) && URL.canParse(url) ? url : null;
}

export function revealHidden(text: string): string {
  return text.replace(HIDDEN, (character) => {
    const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    return `‹U+${code}›`;
  });
}

/**
 * Applies `revealHidden` to every text and label that Preact renders from now on, except values of inputs.
 */
export function revealHiddenEverywhere(): void {
  const previous = options.vnode;
  options.vnode = (vnode) => {
    if (typeof vnode.type === "string" || vnode.type === Fragment) {
      const props = vnode.props as Record<string, unknown>;
      if (props["children"] !== undefined)
        props["children"] = revealIn(props["children"] as ComponentChildren);
      for (const name of TEXT_ATTRIBUTES) {
        if (typeof props[name] === "string") props[name] = revealHidden(props[name]);
      }
    }
    previous?.(vnode);
  };
}

function revealIn(children: ComponentChildren): ComponentChildren {
  if (typeof children === "string") return revealHidden(children);
  if (!Array.isArray(children)) return children;
  const hasText = children.some((child) => typeof child === "string" || Array.isArray(child));
  return hasText ? children.map(revealIn) : children;
}

const purifier = DOMPurify(window);

purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    if (!LINK.test(node.getAttribute("href") ?? "")) {
      node.removeAttribute("href");
    } else {
      node.setAttribute("target", "_blank");
      node.setAttribute("rel", "noopener noreferrer");
    }
  }
  if (node.tagName === "IMG" && !IMAGE.test(node.getAttribute("src") ?? "")) node.removeAttribute("src");
  // A list takes its direction from its first item, and the items take it from the list.
  if (OWN_DIRECTION.test(node.tagName) && !node.parentElement?.closest("[dir]"))
    node.setAttribute("dir", "auto");
  if (node.tagName === "LI" && TASK.test(node.textContent ?? "")) node.setAttribute("class", "md-task");
  // Keep only the classes of our own renderers, so that no text can look like a part of the page.
  const classes = node.getAttribute("class");
  if (classes !== null) {
    const known = classes.split(/\s+/).filter((name) => OWN_CLASS.test(name));
    if (known.length > 0) node.setAttribute("class", known.join(" "));
    else node.removeAttribute("class");
  }
});
