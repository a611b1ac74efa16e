/** Colours for code. The languages are fetched from our own server, each when it is first needed. */
import type { HLJSApi, LanguageFn } from "highlight.js";
import { escape, sanitise } from "./sanitise.ts";

type Load = () => Promise<{ default: LanguageFn }>;

const LANGUAGES: Record<string, Load> = {
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

const ALIASES: Record<string, string> = {
  cjs: "javascript", console: "shell", cs: "csharp", docker: "dockerfile", ex: "elixir", exs: "elixir", h: "c", hpp: "cpp",
  hs: "haskell", htm: "xml", html: "xml", js: "javascript", jsx: "javascript", kt: "kotlin", make: "makefile", md: "markdown",
  mjs: "javascript", mk: "makefile", patch: "diff", pl: "perl", ps1: "powershell", py: "python", pyi: "python", python3: "python",
  rb: "ruby", rs: "rust", sh: "bash", svelte: "xml", svg: "xml", toml: "ini", ts: "typescript", tsx: "typescript", vue: "xml",
  yml: "yaml", zsh: "bash", "c++": "cpp", "c#": "csharp",
};

/** Longer code is shown without colours, which would take longer than they are worth. */
const LONGEST = 60_000;

let engine: Promise<HLJSApi> | undefined;
const registered = new Map<string, Promise<void>>();

export function languageOf(name: string): string | null {
  const known = ALIASES[name] ?? name;
  return known in LANGUAGES ? known : null;
}

export function languageOfPath(path: string): string | null {
  const file = path.split(/[/\\]/).at(-1)?.toLowerCase() ?? "";
  if (file === "dockerfile" || file === "makefile") return file;
  return languageOf(file.split(".").at(-1) ?? "");
}

/** Safe HTML of the code in colours, or plain where its language is not known. */
export async function highlight(code: string, language: string): Promise<string> {
  const name = languageOf(language);
  const load = name === null ? undefined : LANGUAGES[name];
  if (name === null || !load || code.length > LONGEST) return escape(code);
  engine ??= import("highlight.js/lib/core").then((module) => module.default);
  const hljs = await engine;
  let ready = registered.get(name);
  if (!ready) registered.set(name, (ready = load().then((module) => hljs.registerLanguage(name, module.default))));
  try {
    await ready;
  } catch {
    registered.delete(name);
    return escape(code);
  }
  return sanitise(hljs.highlight(code, { language: name, ignoreIllegals: true }).value);
}
