/**
 * A stand-in for the push service of a browser, and for the part of the browser that decrypts its messages
 * (RFC 8291) and checks who has sent them (RFC 8292).
 */
import assert from "node:assert/strict";
import crypto from "node:crypto";
import { readFileSync } from "node:fs";
import https from "node:https";
import { TIMEOUT_MS } from "./browser-test.mjs";

export class PushService {
  messages = [];
  waiting = [];
  devices = new Map();

  /** `certificate` and `key` are PEM files of 127.0.0.1, which the gateway trusts. */
  constructor([certificate, key]) {
    const options = { cert: readFileSync(certificate), key: readFileSync(key) };
    this.server = https.createServer(options, (request, response) => {
      const parts = [];
      request.on("data", (part) => parts.push(part));
      request.on("end", () => {
        try {
          this.receive(request, Buffer.concat(parts));
          response.writeHead(201).end();
        } catch (error) {
          this.add(error);
          response.writeHead(400).end(String(error));
        }
      });
    });
  }

  async listen() {
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.origin = `https://127.0.0.1:${this.server.address().port}`;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }

  /** Creates the subscription of a browser to a server's key, in the form of `PushSubscription.toJSON`. */
  subscribe(serverKey) {
    const keys = crypto.createECDH("prime256v1");
    const device = { keys, publicKey: keys.generateKeys(), secret: crypto.randomBytes(16), serverKey };
    const endpoint = `${this.origin}/push/${this.devices.size + 1}`;
    this.devices.set(new URL(endpoint).pathname, device);
    const [p256dh, auth] = [device.publicKey, device.secret].map((bytes) => bytes.toString("base64url"));
    return { endpoint, expirationTime: null, keys: { p256dh, auth } };
  }

  /** The next message, decrypted. */
  async next() {
    const message = this.messages.shift() ?? (await this.wait());
    if (message instanceof Error) throw message;
    return message;
  }

  wait() {
    return new Promise((resolve, reject) => {
      const late = () => reject(new Error("the gateway sends no message to the push service"));
      const timer = setTimeout(late, TIMEOUT_MS);
      this.waiting.push((message) => {
        clearTimeout(timer);
        resolve(message);
      });
    });
  }

  add(message) {
    const waiting = this.waiting.shift();
    if (waiting) waiting(message);
    else this.messages.push(message);
  }

  receive(request, body) {
    const device = this.devices.get(request.url);
    assert.ok(device, `no device has the endpoint ${request.url}`);
    assert.equal(request.method, "POST");
    assert.equal(request.headers["content-encoding"], "aes128gcm");
    assert.ok(Number(request.headers["ttl"]) > 0);
    assert.match(request.headers["topic"], /^[\w-]{32}$/);
    checkSignature(request.headers["authorization"], device.serverKey, this.origin);
    this.add({ ...decrypt(body, device), size: body.length, urgency: request.headers["urgency"] });
  }
}

/** Checks that the message is of the server whose key the browser has subscribed to, and for this service. */
function checkSignature(authorization, serverKey, origin) {
  const [, token, key] = /^vapid t=(\S+), k=(\S+)$/.exec(authorization);
  assert.equal(key, serverKey);
  const [head, claims, signature] = token.split(".");
  const point = Buffer.from(key, "base64url");
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((part) => part.toString("base64url"));
  const publicKey = crypto.createPublicKey({ key: { kty: "EC", crv: "P-256", x, y }, format: "jwk" });
  const isGenuine = crypto.verify(
    "sha256",
    Buffer.from(`${head}.${claims}`),
    { key: publicKey, dsaEncoding: "ieee-p1363" },
    Buffer.from(signature, "base64url"),
  );
  assert.ok(isGenuine, "the signature is not of the key");
  const { aud, exp, sub } = JSON.parse(Buffer.from(claims, "base64url"));
  assert.equal(aud, origin);
  assert.ok(exp > Date.now() / 1000 && exp < Date.now() / 1000 + 86_400);
  assert.match(sub, /^(?:mailto:|https:)/);
}

function decrypt(body, { keys, publicKey, secret }) {
  const [salt, sender, record] = [body.subarray(0, 16), body.subarray(21, 86), body.subarray(86)];
  assert.equal(body[20], 65);
  const info = Buffer.concat([Buffer.from("WebPush: info\0"), publicKey, sender]);
  const key = Buffer.from(crypto.hkdfSync("sha256", keys.computeSecret(sender), secret, info, 32));
  const contentKey = Buffer.from(crypto.hkdfSync("sha256", key, salt, "Content-Encoding: aes128gcm\0", 16));
  const nonce = Buffer.from(crypto.hkdfSync("sha256", key, salt, "Content-Encoding: nonce\0", 12));
  const cipher = crypto.createDecipheriv("aes-128-gcm", contentKey, nonce);
  cipher.setAuthTag(record.subarray(-16));
  const padded = Buffer.concat([cipher.update(record.subarray(0, -16)), cipher.final()]);
  return JSON.parse(padded.subarray(0, padded.lastIndexOf(2)));
}

/**
 * Lets the pages of a context subscribe at this service: browsers without a network cannot reach that of their
 * maker.
 */
export async function usePushService(context, service) {
  await context.grantPermissions(["notifications"]);
  await context.exposeBinding("newSubscription", (_, serverKey) => service.subscribe(serverKey));
  await context.addInitScript(() => {
    let current = null;
    const toText = (bytes) =>
      btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
    PushManager.prototype.getSubscription = async () => current;
    PushManager.prototype.subscribe = async ({ applicationServerKey, userVisibleOnly }) => {
      if (!userVisibleOnly) throw new Error("a page must show each message");
      const subscription = await globalThis.newSubscription(toText(applicationServerKey));
      current = {
        endpoint: subscription.endpoint,
        options: { applicationServerKey, userVisibleOnly },
        toJSON: () => subscription,
        unsubscribe: async () => {
          current = null;
          return true;
        },
      };
      return current;
    };
  });
}
