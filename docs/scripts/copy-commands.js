// The copy button of a console block copies its commands, without the prompts and the output.
document.addEventListener(
  "click",
  (event) => {
    const button = event.target.closest?.(".highlight .md-code__button");
    const code = button?.closest(".highlight").querySelector("code");
    if (!code?.querySelector(".gp") || !navigator.clipboard) return; // .gp: the prompt
    event.stopPropagation();
    const lines = code.innerText.split("\n");
    const isCommand = (line, index) => line.startsWith("$ ") || (index > 0 && lines[index - 1].endsWith("\\"));
    const commands = lines.filter(isCommand).map((line) => line.replace(/^\$ /, ""));
    navigator.clipboard.writeText(commands.join("\n"));
    button.title = "Copied the commands";
  },
  true,
);
