#!/usr/bin/env node
// Starts the Python package accord-agent of the same version, by uvx, pipx or a virtual environment.
// stdout belongs to the protocol: everything that the launcher and the installers print goes to stderr.
"use strict";

const { spawn, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const tty = require("node:tty");
const { version } = require("./package.json");

const WINDOWS = process.platform === "win32";
const PYTHON_NAMES = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"];
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];

main(process.argv.slice(2));

function main(words) {
  const env = { ...process.env };
  delete env.PYTHONHOME; // they would make the agent's Python load the modules of another one
  delete env.PYTHONPATH;
  const command = agentCommand(env);
  if (command === null) {
    return fail(127, "needs uv, pipx or Python 3.11 or newer; install uv and start again");
  }
  const warm = words[0] === "--warm"; // downloads everything, ahead of the first start by an editor
  run([...command, ...(warm ? ["--help"] : words)], env, ["inherit", warm ? "ignore" : "inherit", "inherit"]);
}

function agentCommand(env) {
  const uvx = find("uvx", env);
  if (uvx !== null) return [uvx, `accord-agent==${version}`];
  const pipx = find("pipx", env);
  if (pipx !== null) return [pipx, "run", "--spec", `accord-agent==${version}`, "accord-agent"];
  const names = WINDOWS ? ["python", "py"] : PYTHON_NAMES;
  const found = names.map((name) => find(name, env)).filter((file) => file !== null);
  const python = found.find((file) => succeeds(file, ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"], env));
  return python === undefined ? null : [environmentPython(python, env), "-m", "accord", "agent"];
}

/** The path of a program on PATH, or where its installer puts it: editors started from a desktop have a short PATH. */
function find(name, env) {
  const home = os.homedir();
  const folders = [
    ...(env.PATH ?? env.Path ?? "").split(path.delimiter).filter(Boolean),
    path.join(home, ".local", "bin"),
    path.join(home, ".cargo", "bin"),
    ...(process.platform === "darwin" ? ["/opt/homebrew/bin", "/usr/local/bin"] : []),
    ...(WINDOWS && env.LOCALAPPDATA ? [path.join(env.LOCALAPPDATA, "Microsoft", "WinGet", "Links")] : []),
  ];
  for (const folder of folders) {
    const file = path.join(folder, WINDOWS ? `${name}.exe` : name); // Node starts no .cmd file without a shell
    try {
      fs.accessSync(file, fs.constants.X_OK);
      if (fs.statSync(file).isFile()) return file;
    } catch {
      // not in this folder
    }
  }
  return null;
}

/** The Python of the virtual environment for this version, which is created on the first start. */
function environmentPython(python, env) {
  const folder = path.join(cacheFolder(env), "accord-agent", version);
  const inside = WINDOWS ? ["Scripts", "python.exe"] : ["bin", "python"];
  if (fs.existsSync(path.join(folder, ...inside))) return path.join(folder, ...inside);
  say(`installing version ${version} in ${folder}`);
  const draft = `${folder}.${process.pid}`; // renamed when it is complete: another start may run at the same time
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", `accord-agent==${version}`];
  const installed =
    succeeds(python, ["-m", "venv", draft], env) && succeeds(path.join(draft, ...inside), pip, env);
  try {
    if (installed) fs.renameSync(draft, folder);
  } catch {
    // the other start was faster
  }
  fs.rmSync(draft, { recursive: true, force: true });
  if (!installed) fail(1, `could not install accord-agent ${version} with ${python}; see the lines above`);
  return path.join(folder, ...inside);
}

function cacheFolder(env) {
  if (WINDOWS && env.LOCALAPPDATA) return env.LOCALAPPDATA;
  if (process.platform === "darwin") return path.join(os.homedir(), "Library", "Caches");
  return env.XDG_CACHE_HOME || path.join(os.homedir(), ".cache");
}

function succeeds(file, words, env) {
  return spawnSync(file, words, { env, stdio: ["ignore", 2, 2], windowsHide: true }).status === 0;
}

/** Runs the agent in place of the launcher: its signals, and its exit code or the signal that ended it. */
function run([file, ...words], env, stdio) {
  const child = spawn(file, words, { env, stdio, windowsHide: true });
  child.on("error", (error) => fail(127, `cannot start ${file} (${error.code ?? error.message})`));
  for (const signal of SIGNALS) {
    // Ctrl-C in a terminal reaches the agent too, which would otherwise get it twice.
    process.on(signal, () => (signal === "SIGINT" && tty.isatty(0) ? undefined : child.kill(signal)));
  }
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code);
    SIGNALS.forEach((name) => process.removeAllListeners(name));
    process.kill(process.pid, signal);
  });
}

function say(message) {
  fs.writeSync(2, `accord-agent: ${message}\n`); // process.stderr may lose the line at exit
}

function fail(code, message) {
  say(message);
  process.exit(code);
}
