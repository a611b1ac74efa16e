/** The texts of the page: all in one file, with values, plural forms and other languages. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { render } from "preact";
import { act } from "preact/test-utils";
import { parseAst } from "rolldown/parseAst";
import { afterEach, expect, test } from "vitest";
import { en } from "../src/messages/en.ts";
import { chooseLanguage, languageCode, t, type Messages } from "../src/messages/messages.ts";
import { RichText } from "../src/ui/RichText.tsx";

afterEach(() => chooseLanguage(["en"]));

const GERMAN: Messages = {
  "app.close": "Schließen",
  "rewind.fileCount": { one: "{count} Datei", other: "{count} Dateien" },
  "home.help": "[[?]] zeigt die Tasten.",
};

const useGerman = (wanted: string[]) => chooseLanguage(wanted, { de: () => Promise.resolve(GERMAN) });

test("a text has its values, and the plural form of its number", () => {
  expect(t("inbox.waiting", { agent: "{count} $& bot" })).toBe("{count} $& bot is waiting for you");
  expect(t("rewind.fileCount", { count: 1 })).toBe("1 file");
  expect(t("rewind.fileCount", { count: 2 })).toBe("2 files");
});

test("the first language of the browser that there is is chosen, and English fills its gaps", async () => {
  await useGerman(["fr-FR", "de-AT", "en"]);
  expect([languageCode(), document.documentElement.lang]).toEqual(["de", "de"]);
  expect(t("app.close")).toBe("Schließen");
  expect(t("rewind.fileCount", { count: 2 })).toBe("2 Dateien");
  expect(t("app.cancel")).toBe("Cancel");
});

test.each([["fr"], ["toString"], ["constructor"], [""]])("%j, which does not exist, is English", async (tag) => {
  await useGerman([tag]);
  expect(languageCode()).toBe("en");
});

test("a language whose file does not load is English", async () => {
  await chooseLanguage(["de"], { de: () => Promise.reject(new Error("no connection")) });
  expect([languageCode(), t("app.close")]).toEqual(["en", "Close"]);
});

test("what is on the screen changes with the language; code and keys are marked", async () => {
  const root = document.createElement("div");
  await act(() => render(<RichText message="home.help" />, root));
  expect(root.innerHTML).toMatch(/^<kbd>Ctrl<\/kbd> \+ <kbd>K<\/kbd> lists all commands/);
  await act(() => useGerman(["de"]));
  expect(root.innerHTML).toBe("<kbd>?</kbd> zeigt die Tasten.");
  await act(() => render(<RichText message="agentLogin.terminalOnly" values={{ agent: "<b>`[[x]]" }} />, root));
  expect(root.querySelector("code")?.textContent).toBe("accord agents login <b>`[[x]]");
  render(null, root);
});

test("all plural forms of a text take the same values", () => {
  const names = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort();
  for (const message of Object.values(en)) {
    if (typeof message === "string") continue;
    for (const form of Object.values(message)) expect(names(form)).toEqual(names(message.other));
  }
});

const SOURCE = join(import.meta.dirname, "../src");
const sourceFiles = readdirSync(SOURCE, { recursive: true, encoding: "utf8" }).filter(
  (name) => /\.tsx?$/.test(name) && !name.startsWith("messages"),
);

test.each(sourceFiles)("%s has no text of its own", (name) => {
  expect(visibleTexts(name, readFileSync(join(SOURCE, name), "utf8"))).toEqual([]);
});

test("a text in a component or an error is found", () => {
  const source = '<p title="Go away">Hello {wait("for it to end")}{`Left to ${x}`}</p>';
  expect(visibleTexts("a.tsx", source)).toEqual(["Go away", "Hello ", "for it to end", "Left to "]);
});

test("every text is used", () => {
  const sources = sourceFiles.map((name) => readFileSync(join(SOURCE, name), "utf8")).join("\n");
  const composed = [...sources.matchAll(/\bt\(`([\w.]+\.)\$\{/g)].map((match) => match[1] ?? "");
  const isUsed = (key: string) =>
    sources.includes(`"${key}"`) || composed.some((prefix) => key.startsWith(prefix));
  const unused = Object.keys(en).filter((key) => !isUsed(key));
  expect(unused).toEqual([]);
});

/** Attributes that users do not see. */
const HIDDEN_ATTRIBUTES = new Set(["class", "d", "viewBox", "rel", "accept", "href"]);
/** Texts for programs and agents: words to split, media queries, keys, and what only a developer can cause. */
const NOT_SHOWN = [
  /^[a-z_']+(?: [a-z_']+){7,}$/,
  /^\((?:pointer|prefers-color-scheme): /,
  /^(?:Alt|Ctrl|Shift) \+ /,
  /^- Tool call: /,
  /^(?:noopener noreferrer|taking another socket|this component needs .*)$/,
];

/** The texts of a source file that look as if users see them: text in JSX, and strings of several words. */
function visibleTexts(name: string, source: string): string[] {
  const found: string[] = [];
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(visit);
    if (typeof node !== "object" || node === null) return;
    const { type, value, name: attribute } = node as Record<string, unknown> & { type?: string };
    if (type === undefined || type.startsWith("Import")) return;
    if (type === "JSXAttribute" && HIDDEN_ATTRIBUTES.has(String((attribute as { name: string }).name))) return;
    if (type === "JSXText" && /\p{L}/u.test(String(value))) found.push(String(value));
    if (type === "Literal" && typeof value === "string" && /\p{L}{2}.* \p{L}/u.test(value)) found.push(value);
    if (type === "TemplateElement") {
      const { raw } = value as { raw: string };
      if (/\p{Lu}\p{L}+ \p{L}/u.test(raw)) found.push(raw);
    }
    for (const child of Object.values(node)) visit(child);
  };
  visit(parseAst(source, { lang: name.endsWith("x") ? "tsx" : "ts" }));
  return found.filter((text) => !NOT_SHOWN.some((pattern) => pattern.test(text)));
}
