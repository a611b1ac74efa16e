/**
 * The one gate through which text of others becomes HTML.
 *
 * Only the elements that Markdown makes get through, no styles, no forms, nothing that loads from elsewhere. Links go to the
 * web or to mail, into a new tab that knows nothing of this one.
 */
import DOMPurify from "dompurify";

const TAGS = [
  "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "img", "li", "ol", "p", "pre",
  "span", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
];
const ATTRIBUTES = ["href", "title", "class", "start", "src", "alt"];
const LINK = /^(?:https?|mailto):/i;
const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[a-z0-9+/]+={0,2}$/i;
/** Each of these may be in a language that is written from right to left. */
const OWN_DIRECTION = /^(?:P|LI|UL|OL|H[1-6]|BLOCKQUOTE|TD|TH)$/;

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
  if (node.tagName === "IMG" && !PICTURE.test(node.getAttribute("src") ?? "")) node.removeAttribute("src");
  // A list has the direction of its first item, and its items that of the list.
  if (OWN_DIRECTION.test(node.tagName) && !node.parentElement?.closest("[dir]")) node.setAttribute("dir", "auto");
  // Classes are for our own marks only, so that no text can dress up as a part of the page.
  const classes = node.getAttribute("class");
  if (classes !== null) {
    const known = classes.split(/\s+/).filter((name) => /^(?:hljs|language-[\w+#-]+|md-[\w-]+)/.test(name) || name.endsWith("_"));
    if (known.length > 0) node.setAttribute("class", known.join(" "));
    else node.removeAttribute("class");
  }
});

export function sanitise(html: string): string {
  return purifier.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ATTRIBUTES,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/(?:png|jpeg|gif|webp);base64,)/i,
  });
}

const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? character);
}

/** Whether an address is a picture in itself, of a kind that is shown. */
export function isPicture(address: string): boolean {
  return PICTURE.test(address);
}

/** An address that may be opened, or null. */
export function safeLink(address: string): string | null {
  return LINK.test(address) && URL.canParse(address) ? address : null;
}
