/** Tries one pattern on one text and says whether it matches; a pattern that is none matches everything. */

self.onmessage = (event: MessageEvent<{ pattern: string; text: string }>) => {
  let found = true;
  try {
    found = new RegExp(event.data.pattern, "u").test(event.data.text);
  } catch {
    found = true;
  }
  self.postMessage(found);
};
