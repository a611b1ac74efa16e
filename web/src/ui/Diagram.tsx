/** A Mermaid diagram as an image, with its source behind a button. While it is drawn, the source is shown. */
import { useEffect, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { drawDiagram, svgImage } from "../text/diagram.ts";
import { useDarkTheme } from "./appearance.ts";
import { CodeBlock } from "./ContentBlocks.tsx";
import { CopyButton } from "./CopyButton.tsx";

type Drawing = { url: string; width: number | null };

export function Diagram({ source }: { source: string }) {
  const dark = useDarkTheme();
  const [drawing, setDrawing] = useState<Drawing | null>(null);
  const [failed, setFailed] = useState(false);
  const [showsSource, setShowsSource] = useState(false);
  useEffect(() => {
    let current = true;
    let url = "";
    const draw = async () => {
      const svg = await drawDiagram(source, dark);
      if (!current) return;
      setFailed(svg === null);
      if (svg === null) return;
      const image = svgImage(svg);
      url = image.url;
      setDrawing(image);
    };
    void draw();
    return () => {
      current = false;
      if (url !== "") URL.revokeObjectURL(url);
    };
  }, [source, dark]);
  if (drawing === null) {
    return (
      <>
        <CodeBlock text={source} language="mermaid" />
        {failed && <p class="muted">{t("diagram.failed")}</p>}
      </>
    );
  }
  return (
    <figure class="code diagram">
      <figcaption>
        <span>{t("diagram.title")}</span>
        <span>
          <button
            type="button"
            class="quiet small"
            aria-pressed={showsSource}
            onClick={() => setShowsSource(!showsSource)}
          >
            {t("diagram.source")}
          </button>
          <CopyButton text={source} />
        </span>
      </figcaption>
      {showsSource ? (
        <CodeBlock text={source} language="mermaid" />
      ) : (
        <div class="diagram-area" tabIndex={0} role="region" aria-label={t("diagram.title")}>
          <img src={drawing.url} width={drawing.width ?? undefined} alt={t("diagram.alt", { source })} />
        </div>
      )}
    </figure>
  );
}
