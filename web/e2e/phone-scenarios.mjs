/** Scenarios of the phone: notifications by Web Push, with a stand-in for the push service. */
import assert from "node:assert/strict";
import { checkAccessibility, TIMEOUT_MS } from "./browser-test.mjs";
import { PushService, usePushService } from "./push-service.mjs";

const PHONE = { width: 390, height: 844 };
const TABLET = { width: 820, height: 1180 };
const SECRETS = ["secret.txt", "hidden words", "write"];

async function openDevice(test, viewport) {
  const options = { viewport, hasTouch: true, isMobile: true };
  const context = await test.newContext(options);
  const service = (test.pushService = new PushService(test.certificate));
  await service.listen();
  await usePushService(context, service);
  const tab = await test.openTab(test.link, context);
  return { context, service, tab, worker: await openWorker(context, tab.page) };
}

/** Delivers messages to the service worker as the browser does, and reads what it shows. */
async function openWorker(context, page) {
  const devtools = await context.newCDPSession(page);
  const registered = new Promise((resolve) => {
    devtools.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => {
      const [registration] = registrations.filter((one) => !one.isDeleted);
      if (registration) resolve(registration.registrationId);
    });
  });
  await devtools.send("ServiceWorker.enable");
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
  const registrationId = await registered;
  const origin = new URL(page.url()).origin;
  /** Waits until a notification is shown, or is not. Showing one sends no event to the page. */
  const shown = (tag, wanted = true) =>
    page.evaluate(
      async ([name, isWanted, patience]) => {
        const registration = await navigator.serviceWorker.ready;
        const deadline = performance.now() + patience;
        while (performance.now() < deadline) {
          const found = (await registration.getNotifications()).find((one) => one.tag === name);
          if (found && isWanted) {
            const { body, actions, silent } = found;
            return { body, actions: actions.map(({ action }) => action), silent };
          }
          if (!found && !isWanted) return null;
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        throw new Error(`the notification ${name} is ${isWanted ? "not" : "still"} shown`);
      },
      [tag, wanted, TIMEOUT_MS],
    );
  return {
    shown,
    /** Returns the notification that the message shows. */
    async push(message) {
      const data = JSON.stringify(message);
      await devtools.send("ServiceWorker.deliverPushMessage", { origin, registrationId, data });
      return shown(message.route);
    },
    /** Replaces the subscription, as the browser does when its push service wants that. */
    async replaceSubscription(endpoint, subscription) {
      const [worker] = context.serviceWorkers();
      await worker.evaluate(
        async ([oldEndpoint, next]) => {
          const event = new ExtendableEvent("pushsubscriptionchange");
          const done = new Promise((resolve) => {
            event.waitUntil = (work) => resolve(work);
          });
          Object.assign(event, {
            oldSubscription: { endpoint: oldEndpoint, options: {} },
            newSubscription: { toJSON: () => next },
          });
          self.dispatchEvent(event);
          await done;
        },
        [endpoint, subscription],
      );
    },
    async click(tag, action) {
      const [worker] = context.serviceWorkers();
      await worker.evaluate(
        async ([wanted, pressed]) => {
          const notifications = await self.registration.getNotifications();
          const notification = notifications.find((one) => one.tag === wanted);
          self.dispatchEvent(new NotificationEvent("notificationclick", { notification, action: pressed }));
        },
        [tag, action],
      );
    },
  };
}

async function chooseNotifications(tab, name) {
  await tab.page.getByRole("button", { name: "Notify me" }).tap();
  await tab.page.getByRole("checkbox", { name }).tap();
  await tab.page.getByRole("button", { name: "Send a test" }).and(tab.page.locator(":enabled")).waitFor();
}

/** Lets the gateway send a test to a device; returns the status of its response. */
async function sendTest(test, endpoint) {
  const headers = {
    Authorization: `Bearer ${decodeURIComponent(test.link.split("#token=")[1])}`,
    "Content-Type": "application/json",
  };
  const body = JSON.stringify({ endpoint });
  return (await fetch(`${test.origin()}/api/push/test`, { method: "POST", headers, body })).status;
}

/** Checks what is shown in both themes: no violations, and nothing wider than the screen. */
async function checkView(tab, place) {
  for (const colorScheme of ["light", "dark"]) {
    await tab.page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await checkAccessibility(tab, `${place}, ${colorScheme}`);
  }
  assert.equal(await tab.fitsWidth(), true, `${place} is wider than the screen`);
}

export const PHONE_SCENARIOS = {
  async "notifications on a phone"(test) {
    const { tab, service, worker } = await openDevice(test, PHONE);
    const { page } = tab;
    await page.goto(test.link.replace(/#.*/, "#/inbox"));
    await chooseNotifications(tab, "An agent waits for me");
    await page.getByRole("checkbox", { name: "A session is done" }).tap();
    await page.getByRole("checkbox", { name: "A session is done" }).and(page.locator(":enabled")).waitFor();
    await checkView(tab, "notifications");

    await page.getByRole("button", { name: "Send a test" }).tap();
    await page.getByText("The test was sent.").waitFor();
    const trial = await service.next();
    assert.equal(trial.kind, "test");
    assert.equal((await worker.push(trial)).body, "Notifications work.");

    await page.goto(test.link.replace(/#.*/, "#/new"));
    await page.getByLabel("Folder", { exact: true }).fill(test.folder);
    await page.getByRole("button", { name: "Start" }).tap();
    await tab.prompt.fill("write secret.txt: hidden words");
    await page.getByRole("button", { name: "Send" }).tap();
    const question = await service.next();
    assert.equal(question.kind, "permission_requested");
    assert.equal(question.urgency, "high");
    assert.ok(question.pending >= 1);
    assert.equal(question.size, trial.size);
    for (const secret of SECRETS) assert.ok(!JSON.stringify(question).includes(secret));
    const notification = await worker.push(question);
    assert.equal(notification.body, "A session asks for permission.");
    assert.deepEqual(notification.actions, ["allow", "reject"]);
    assert.equal(notification.silent, true, "the page is visible");

    // "Allow" opens the question and does not answer it.
    await page.goto(test.link.replace(/#.*/, "#/new"));
    await worker.click(question.route, "allow");
    await page.waitForURL((url) => url.hash === question.route);
    await tab.card.waitFor();
    await tab.waitForAnswers();
    const focused = await page.evaluate(() => document.activeElement?.hasAttribute("data-request"));
    assert.equal(focused, true, "the card has the focus, and none of its answers");
    await checkView(tab, "question in the inbox");
    await tab.card.getByRole("button", { name: "Allow", exact: true }).tap();
    await page.getByText("This question was answered already").waitFor();
    await worker.shown(question.route, false);

    const end = await service.next();
    assert.equal(end.kind, "turn_ended");
    assert.equal((await worker.push(end)).body, "A session is done.");
    await worker.click(end.route, "");
    await page.waitForURL((url) => url.hash === end.route);
    await tab.waitForText("Done.");
    await tab.idle.waitFor();
    await checkView(tab, "conversation");
    await page.getByRole("link", { name: "Back to the sessions" }).tap();
    await page.getByRole("link", { name: /write secret.txt/ }).waitFor();
    await checkView(tab, "sessions");

    // A subscription that the browser has replaced goes to the gateway while no page is asked.
    const known = await page.evaluate(() => localStorage.getItem("accord.push"));
    const next = service.subscribe([...service.devices.values()][0].serverKey);
    await worker.replaceSubscription(known, next);
    assert.deepEqual(
      [await sendTest(test, known), await sendTest(test, next.endpoint)],
      [404, 204],
      "the gateway knows the new subscription and has forgotten the old one",
    );
    assert.equal((await service.next()).kind, "test");

    // A late tap on the notification of an answered question.
    await page.goto(test.link.replace(/#.*/, question.route));
    await page.getByText("This question was answered already").waitFor();
    test.assertClean();
  },

  async "notifications on a tablet"(test) {
    const { tab, service } = await openDevice(test, TABLET);
    const { page } = tab;
    await page.goto(test.link.replace(/#.*/, "#/inbox"));
    await chooseNotifications(tab, "A session is done");
    await checkView(tab, "notifications");
    await tab.startSession();
    await tab.prompt.fill("hello");
    await page.getByRole("button", { name: "Send" }).tap();
    assert.equal((await service.next()).kind, "turn_ended");
    await tab.idle.waitFor();
    await checkView(tab, "conversation beside the sessions");

    // Turning the last one off ends the subscription.
    await page.goto(test.link.replace(/#.*/, "#/inbox"));
    await page.getByRole("button", { name: "Notify me" }).tap();
    await page.getByRole("checkbox", { name: "A session is done" }).tap();
    await page.getByRole("button", { name: "Send a test" }).and(page.locator(":disabled")).waitFor();
    await page.getByRole("checkbox", { name: "A session is done", checked: false }).waitFor();
    assert.equal(await page.evaluate(() => localStorage.getItem("accord.push")), null);

    // A browser that blocks notifications is told where to allow them.
    const blocked = await test.newContext({ viewport: TABLET, hasTouch: true, isMobile: true });
    await blocked.addInitScript(() => {
      Object.defineProperty(Notification, "permission", { get: () => "denied" });
    });
    const other = await test.openTab(test.link, blocked);
    await other.page.getByRole("link", { name: "Inbox" }).tap();
    await other.page.getByRole("button", { name: "Notify me" }).tap();
    await other.page.getByText("Notifications are blocked.").waitFor();
    test.assertClean();

    // Signing out ends the subscription, too.
    await page.getByRole("checkbox", { name: "A session is done" }).tap();
    await page.getByRole("button", { name: "Send a test" }).and(page.locator(":enabled")).waitFor();
    const endpoint = await page.evaluate(() => localStorage.getItem("accord.push"));
    assert.equal(await sendTest(test, endpoint), 204);
    await page.getByRole("button", { name: "Sign out" }).tap();
    await page.getByLabel("Token or pairing link").waitFor();
    assert.equal(await sendTest(test, endpoint), 404);
  },
};
