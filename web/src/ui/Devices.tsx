/** The tokens of devices and programs, and the links that share a session: create, see and revoke them. */
import { useEffect, useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { useGateway } from "../state/gateway.ts";
import { relativeTime } from "../text/format.ts";
import { errorReport } from "../wire/extension-methods.ts";
import type { CreatedLink, TokenEntry } from "../wire/management-methods.ts";
import { Dialog } from "./Dialog.tsx";
import { ErrorText, Icon } from "./elements.tsx";
import { LinkView } from "./LinkView.tsx";
import { addingDevice } from "./navigation.ts";

const DAY = 24 * 3600;
const LIFETIMES = [
  ["devices.forever", 0],
  ["devices.day", DAY],
  ["devices.month", 30 * DAY],
  ["devices.year", 365 * DAY],
] as const;

export function Devices() {
  const gateway = useGateway();
  const [list, setList] = useState<{ tokens: TokenEntry[]; manageable: boolean } | null>(null);
  const [error, setError] = useState<string | null>(null);
  const load = () =>
    gateway.manage.tokens().then(setList, (reason: unknown) => setError(errorReport(reason).message));
  useEffect(() => void load(), [gateway]);
  const revoke = async (token: TokenEntry) => {
    setError(null);
    try {
      await gateway.manage.revokeToken(token.id);
    } catch (reason) {
      setError(errorReport(reason).message);
    }
    await load();
  };
  const close = () => {
    addingDevice.value = false;
    void load();
  };
  const devices = list?.tokens.filter((token) => token.session === null) ?? [];
  const shares = list?.tokens.filter((token) => token.session !== null) ?? [];
  return (
    <>
      {list?.manageable && (
        <section class="settings-section" aria-labelledby="devices-title">
          <header>
            <h3 id="devices-title">{t("devices.title")}</h3>
            <button
              type="button"
              class="small"
              onClick={() => {
                addingDevice.value = true;
              }}
            >
              <Icon name="phone" /> {t("devices.add")}
            </button>
          </header>
          <p class="muted">{t("devices.help")}</p>
          <TokenList tokens={devices} onRevoke={revoke} />
        </section>
      )}
      <section class="settings-section" aria-labelledby="shares-title">
        <h3 id="shares-title">{t("shares.title")}</h3>
        {error && <ErrorText>{error}</ErrorText>}
        {shares.length === 0 ? (
          <p class="muted">{t("shares.empty")}</p>
        ) : (
          <TokenList tokens={shares} onRevoke={revoke} />
        )}
      </section>
      {addingDevice.value && <AddDevice onClose={close} />}
    </>
  );
}

interface TokenListProps {
  tokens: readonly TokenEntry[];
  onRevoke: (token: TokenEntry) => Promise<void>;
}

function TokenList({ tokens, onRevoke }: TokenListProps) {
  return (
    <ul class="settings-list">
      {tokens.map((token) => (
        <TokenItem key={token.id} token={token} onRevoke={() => void onRevoke(token)} />
      ))}
    </ul>
  );
}

function TokenItem({ token, onRevoke }: { token: TokenEntry; onRevoke: () => void }) {
  const gateway = useGateway();
  const [asking, setAsking] = useState(false);
  const shared =
    token.session !== null && token.agent !== null
      ? gateway.findListedSession(token.agent, token.session)
      : undefined;
  const name = shared?.title ?? (token.name || token.session || t("devices.unnamed"));
  return (
    <li>
      <div>
        <p>
          <strong>{name}</strong> {token.current && <span class="tag">{t("devices.current")}</span>}{" "}
          {token.readOnly && token.session === null && <span class="tag">{t("devices.readOnlyTag")}</span>}{" "}
          {!token.valid && <span class="tag">{t("devices.expired")}</span>}
        </p>
        <p class="muted">{usageText(token)}</p>
      </div>
      {asking ? (
        <span class="button-row" role="group" aria-label={t("devices.revokeQuestion", { name })}>
          <button type="button" class="small reject" onClick={onRevoke}>
            {t("devices.revoke")}
          </button>
          <button type="button" class="small" onClick={() => setAsking(false)}>
            {t("session.deleteKeep")}
          </button>
        </span>
      ) : (
        <button
          type="button"
          class="small quiet"
          aria-label={t("devices.revokeName", { name })}
          onClick={() => setAsking(true)}
        >
          {t("devices.revoke")}
        </button>
      )}
    </li>
  );
}

function usageText(token: TokenEntry): string {
  const used = token.lastUsed ? t("devices.used", { when: relativeTime(token.lastUsed) }) : t("devices.unused");
  const end = token.expires ? t("devices.expires", { date: new Date(token.expires).toLocaleString() }) : "";
  return [used, end].filter(Boolean).join(" · ");
}

/** Creates a token, and shows its link and QR code. */
function AddDevice({ onClose }: { onClose: () => void }) {
  const gateway = useGateway();
  const [name, setName] = useState("");
  const [readOnly, setReadOnly] = useState(false);
  const [lifetime, setLifetime] = useState(0);
  const [link, setLink] = useState<CreatedLink | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const create = async () => {
    setBusy(true);
    setError(null);
    try {
      const expiresIn = lifetime === 0 ? null : lifetime;
      setLink(await gateway.manage.createToken({ name: name.trim() || t("devices.phone"), readOnly, expiresIn }));
    } catch (reason) {
      setError(errorReport(reason).message);
    } finally {
      setBusy(false);
    }
  };
  if (link) {
    return (
      <Dialog title={t("devices.ready")} onClose={onClose}>
        {link.qr && link.localAddress === null && <p>{t("devices.scan")}</p>}
        <LinkView link={link} />
      </Dialog>
    );
  }
  return (
    <Dialog title={t("devices.add")} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!busy) void create();
        }}
      >
        <div class="field">
          <label for="device-name">{t("devices.name")}</label>
          <input
            id="device-name"
            type="text"
            maxLength={64}
            autofocus
            placeholder={t("devices.phone")}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </div>
        <div class="field">
          <label for="device-lifetime">{t("devices.lifetime")}</label>
          <select
            id="device-lifetime"
            value={lifetime}
            onChange={(event) => setLifetime(Number(event.currentTarget.value))}
          >
            {LIFETIMES.map(([key, value]) => (
              <option key={value} value={value}>
                {t(key)}
              </option>
            ))}
          </select>
        </div>
        <label class="choice">
          <input
            type="checkbox"
            checked={readOnly}
            onChange={(event) => setReadOnly(event.currentTarget.checked)}
          />
          <span>{t("devices.readOnly")}</span>
        </label>
        {error && <ErrorText>{error}</ErrorText>}
        <div class="button-row">
          <button type="submit" class="primary" disabled={busy}>
            {t("devices.create")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
