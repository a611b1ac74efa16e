/** Syntax highlighting. The engine and each language are loaded from our own server on first use. */
import type { HLJSApi, LanguageFn } from "highlight.js";
import { escapeHtml, sanitizeHtml } from "./untrusted-text.ts";

type LanguageLoader = () => Promise<{ default: LanguageFn }>;

const LANGUAGES: Record<string, LanguageLoader> = {
  bash: () => import("highlight.js/lib/languages/bash"),
  c: () => import("highlight.js/lib/languages/c"),
  cpp: () => import("highlight.js/lib/languages/cpp"),
  csharp: () => import("highlight.js/lib/languages/csharp"),
  css: () => import("highlight.js/lib/languages/css"),
  dart: () => import("highlight.js/lib/languages/dart"),
  diff: () => import("highlight.js/lib/languages/diff"),
  dockerfile: () => import("highlight.js/lib/languages/dockerfile"),
  elixir: () => import("highlight.js/lib/languages/elixir"),
  go: () => import("highlight.js/lib/languages/go"),
  graphql: () => import("highlight.js/lib/languages/graphql"),
  haskell: () => import("highlight.js/lib/languages/haskell"),
  ini: () => import("highlight.js/lib/languages/ini"),
  java: () => import("highlight.js/lib/languages/java"),
  javascript: () => import("highlight.js/lib/languages/javascript"),
  json: () => import("highlight.js/lib/languages/json"),
  kotlin: () => import("highlight.js/lib/languages/kotlin"),
  less: () => import("highlight.js/lib/languages/less"),
  lua: () => import("highlight.js/lib/languages/lua"),
  makefile: () => import("highlight.js/lib/languages/makefile"),
  markdown: () => import("highlight.js/lib/languages/markdown"),
  nginx: () => import("highlight.js/lib/languages/nginx"),
  nix: () => import("highlight.js/lib/languages/nix"),
  perl: () => import("highlight.js/lib/languages/perl"),
  php: () => import("highlight.js/lib/languages/php"),
  powershell: () => import("highlight.js/lib/languages/powershell"),
  python: () => import("highlight.js/lib/languages/python"),
  r: () => import("highlight.js/lib/languages/r"),
  ruby: () => import("highlight.js/lib/languages/ruby"),
  rust: () => import("highlight.js/lib/languages/rust"),
  scala: () => import("highlight.js/lib/languages/scala"),
  scss: () => import("highlight.js/lib/languages/scss"),
  shell: () => import("highlight.js/lib/languages/shell"),
  sql: () => import("highlight.js/lib/languages/sql"),
  swift: () => import("highlight.js/lib/languages/swift"),
  typescript: () => import("highlight.js/lib/languages/typescript"),
  xml: () => import("highlight.js/lib/languages/xml"),
  yaml: () => import("highlight.js/lib/languages/yaml"),
};

// prettier-ignore
const ALIASES: Record<string, string> = {
  cjs: "javascript", console: "shell", cs: "csharp", docker: "dockerfile", ex: "elixir", exs: "elixir",
  h: "c", hpp: "cpp", hs: "haskell", htm: "xml", html: "xml", js: "javascript", jsx: "javascript",
  kt: "kotlin", make: "makefile", md: "markdown", mjs: "javascript", mk: "makefile", patch: "diff",
  pl: "perl", ps1: "powershell", py: "python", pyi: "python", python3: "python", rb: "ruby", rs: "rust",
  sh: "bash", svelte: "xml", svg: "xml", toml: "ini", ts: "typescript", tsx: "typescript", vue: "xml",
  yml: "yaml", zsh: "bash", "c++": "cpp", "c#": "csharp",
};

/** Longer code is shown without highlighting, which would take too long. */
const MAX_LENGTH = 60_000;

let engine: Promise<HLJSApi> | undefined;
const registered = new Map<string, Promise<void>>();

/** The highlighter's name of a language, or null if it is not supported. */
export function findLanguage(name: string): string | null {
  const known = ALIASES[name] ?? name;
  return known in LANGUAGES ? known : null;
}

/** Returns safe HTML with highlighted code, or plain code if the language is not supported. */
export async function highlight(code: string, language: string): Promise<string> {
  const name = findLanguage(language);
  const load = name === null ? undefined : LANGUAGES[name];
  if (name === null || !load || code.length > MAX_LENGTH) return escapeHtml(code);
  engine ??= import("highlight.js/lib/core").then((module) => module.default);
  const hljs = await engine;
  let ready = registered.get(name);
  if (!ready)
    registered.set(name, (ready = load().then((module) => hljs.registerLanguage(name, module.default))));
  try {
    await ready;
  } catch {
    registered.delete(name);
    return escapeHtml(code);
  }
  return sanitizeHtml(hljs.highlight(code, { language: name, ignoreIllegals: true }).value);
}

/** A piece of a line with the classes of its colors. */
export interface ColoredText {
  text: string;
  classes: string;
}

/** Highlights code and returns its lines; null if the language is not supported or the code is too long. */
export async function highlightLines(code: string, language: string): Promise<ColoredText[][] | null> {
  if (findLanguage(language) === null || code.length > MAX_LENGTH) return null;
  const template = document.createElement("template");
  template.innerHTML = await highlight(code, language);
  const lines: ColoredText[][] = [[]];
  const visit = (node: Node, classes: string): void => {
    if (node instanceof Element) {
      const own = `${classes} ${node.getAttribute("class") ?? ""}`.trim();
      for (const child of node.childNodes) visit(child, own);
      return;
    }
    (node.nodeValue ?? "").split("\n").forEach((text, index) => {
      if (index > 0) lines.push([]);
      if (text !== "") lines.at(-1)?.push({ text, classes });
    });
  };
  for (const node of template.content.childNodes) visit(node, "");
  return lines;
}
