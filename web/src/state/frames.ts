/** Work once per frame; in a hidden tab, where there are no frames, a few times a second. */

const waiting = new Set<() => void>();
let requested = false;

function run(): void {
  requested = false;
  const calls = [...waiting];
  waiting.clear();
  for (const call of calls) call();
}

export function nextFrame(call: () => void): void {
  waiting.add(call);
  if (requested) return;
  requested = true;
  if (document.hidden) setTimeout(run, 200);
  else requestAnimationFrame(run);
}

// A frame asked for just before the tab was hidden would come only when it is shown again.
document.addEventListener("visibilitychange", () => {
  if (document.hidden && requested) run();
});
