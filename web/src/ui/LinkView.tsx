/** A link with a new token: its QR code, the address, and a button that copies it. It is shown only once. */
import { t } from "../messages/messages.ts";
import type { CreatedLink } from "../wire/management-methods.ts";
import { CopyButton } from "./CopyButton.tsx";
import { Icon } from "./elements.tsx";
import { RichText } from "./RichText.tsx";

/** Light modules around the code, which cameras need. */
const QUIET_ZONE = 3;

export function LinkView({ link, onRevoke }: { link: CreatedLink; onRevoke?: () => void }) {
  return (
    <div class="link-view">
      {link.qr && link.localAddress === null && <QrCode rows={link.qr} />}
      <div>
        <p>{t("link.once")}</p>
        <div class="link-row">
          <input
            type="text"
            readOnly
            aria-label={t("link.label")}
            value={link.link}
            onFocus={(event) => event.currentTarget.select()}
          />
          <CopyButton text={link.link} />
        </div>
        {link.expires && (
          <p class="muted">{t("link.expires", { date: new Date(link.expires).toLocaleString() })}</p>
        )}
        {link.localAddress !== null && (
          <p class="notice warning">
            <Icon name="warning" />
            <span>
              <RichText message="link.local" values={{ address: link.localAddress }} />
            </span>
          </p>
        )}
        {onRevoke && (
          <button type="button" class="small quiet" onClick={onRevoke}>
            {t("devices.revoke")}
          </button>
        )}
      </div>
    </div>
  );
}

/** Black on white in both themes, so that every camera can read it. */
function QrCode({ rows }: { rows: readonly string[] }) {
  const size = rows.length + 2 * QUIET_ZONE;
  const path = rows
    .flatMap((row, y) =>
      [...row.matchAll(/1+/g)].map(
        (run) => `M${run.index + QUIET_ZONE} ${y + QUIET_ZONE}h${run[0].length}v1h-${run[0].length}z`,
      ),
    )
    .join("");
  return (
    <svg class="qr-code" viewBox={`0 0 ${size} ${size}`} role="img" aria-label={t("link.code")}>
      <path d={path} />
    </svg>
  );
}
