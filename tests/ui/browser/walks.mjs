// Walks by clicks, in headless Chromium against a real Airflow; and what its forms refuse.
//
// node walks.mjs CONFIG.json, where CONFIG is {chromium, out, url, walk, users: {admin: password, approver: password}, ...}.
// Told as JSON: the steps of the walk, in the words of its page, with the pictures that were taken in `out`; and what
// was read on the way. What is not a person's doing (waiting for a scheduler) is no step.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const PATIENCE_MS = 600_000;

const config = JSON.parse(readFileSync(process.argv[2], "utf8"));
const browser = await chromium.launch({ executablePath: config.chromium, args: ["--no-sandbox"] });
const told = { steps: [], errors: [], foreign: [] };
const own = new URL(config.url).origin;

// A window of somebody who has logged in as people do.
const enter = async (user, viewport = { width: 1100, height: 720 }) => {
  const context = await browser.newContext({ viewport, locale: "en-US", timezoneId: "UTC" });
  context.setDefaultTimeout(120_000); // a busy machine
  const page = await context.newPage();
  page.on("pageerror", (error) => told.errors.push(`${page.url()}: ${error}`));
  page.on("request", (request) => !/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== own && told.foreign.push(request.url()));
  await page.goto(config.url);
  await page.locator("input[name=username]").fill(user);
  await page.locator("input[name=password]").fill(config.users[user]);
  await page.locator("button[type=submit]").click();
  await page.waitForURL((url) => !url.pathname.includes("login"));
  return page;
};

// A step of the page: its text, what is done, and what its picture shows, the whole window or a part of it.
const step = async (text, act, { picture } = {}) => {
  const found = await act();
  const name = picture ? `${config.walk}-${told.steps.length + 1}.png` : null;
  if (name) {
    await picture.waitForTimeout?.(1_000); // what fades in is there
    await picture.screenshot({ path: `${config.out}/${name}`, animations: "disabled" });
  }
  told.steps.push({ text, picture: name });
  return found;
};

const until = async (page, isSo, pause = 2_000) => {
  for (const end = Date.now() + PATIENCE_MS; !(await isSo()); await page.waitForTimeout(pause)) {
    if (Date.now() > end) throw new Error(`it does not come to be: ${isSo}`);
  }
};

// Airflow's menu leads to the dashboard, which it frames.
const dashboard = async (page) => {
  await page.getByRole("button", { name: "Browse" }).click();
  await page.getByRole("menuitem", { name: "Consumer groups" }).click();
  const frame = page.frameLocator("iframe");
  await frame.locator("main h1").waitFor();
  return frame;
};

const menu = (frame, name) => frame.getByRole("navigation", { name: "Sexton" }).getByRole("link", { name }).click();

const dag = async (page, name) => {
  await page.getByTestId("nav-dags-link").click();
  await page.waitForURL((url) => url.pathname === "/dags");
  await until(page, async () => (await page.getByTestId("toggle-pause").count()) > 1, 200);
  await page.getByRole("link", { name, exact: true }).first().click();
  await page.waitForURL((url) => url.pathname === `/dags/${name}`);
  await until(page, async () => (await page.getByTestId("toggle-pause").count()) === 1, 200); // the list is gone
  await page.getByTestId("header-card").first().waitFor();
};

const dialog = (page) => page.locator(".chakra-dialog__content");
const send = (page, name = "Trigger") => dialog(page).getByRole("button", { name, exact: true });

// The form; a page that is still loading closes it again.
const form = async (page) => {
  const last = dialog(page).getByRole("button", { name: "Advanced Options" });
  for (let calm = 0; calm < 2; calm = (await last.isVisible()) ? calm + 1 : 0) {
    if (!(await last.isVisible())) {
      await page.getByTestId("trigger-dag-button").first().click();
      await last.waitFor();
    }
    await page.waitForTimeout(700);
  }
};

const open = async (page, section) => {
  await dialog(page).getByRole("button", { name: section, exact: true }).click();
  await page.waitForTimeout(500); // it unfolds
};

const field = (page, name) =>
  name === "retention_minutes" ? dialog(page).getByRole("spinbutton") : dialog(page).locator(`#element_${name}`);

const sent = async (page, name) => {
  await send(page).click();
  await page.waitForURL(new RegExp(`/dags/${name}/runs/`));
  return decodeURIComponent(new URL(page.url()).pathname.split("/").pop());
};

const pick = async (page, instant) => {
  const [date, time] = instant.split(" ");
  await dialog(page).getByText("Select date and time").first().click();
  await page.getByPlaceholder("YYYY/MM/DD").fill(date);
  await page.getByPlaceholder("HH:mm").fill(time);
  await page.keyboard.press("Escape");
  await page.getByPlaceholder("HH:mm").waitFor({ state: "detached" });
};

// Each form as it opens, what its button says once a field is filled, and the answers to what cannot be.
const forms = async () => {
  const page = await enter("admin");
  told.untouched = {};
  for (const name of ["offset_retention", "keep_house", "restore_offsets", "apply_tombstones"]) {
    await dag(page, name);
    await form(page);
    await page.waitForTimeout(500);
    told.untouched[name] = await send(page).isEnabled();
    if (name === "apply_tombstones") {
      await open(page, "What to apply");
      await field(page, "plan_id").fill("0".repeat(64));
      told.filled = await send(page).isEnabled();
      await field(page, "plan_id").fill("");
      told.emptied = await send(page).isEnabled();
    }
    await page.keyboard.press("Escape");
    await dialog(page).waitFor({ state: "detached" });
  }
  told.refused = {};
  for (const { name, section, field: asked, value } of config.refused) {
    await dag(page, name);
    await form(page);
    await open(page, section);
    await field(page, asked).fill(value);
    await field(page, asked).blur();
    await send(page).click();
    const answer = dialog(page).getByText(/Invalid input for param/);
    await answer.waitFor();
    told.refused[`${name}.${asked}`] = (await answer.innerText()).split("\n")[0];
    await dialog(page).screenshot({ path: `${config.out}/refused-${asked}.png` });
    await page.keyboard.press("Escape");
    await dialog(page).waitFor({ state: "detached" });
  }
};

const WALKS = { forms };

try {
  await WALKS[config.walk]();
} catch (error) {
  for (const context of browser.contexts()) for (const page of context.pages()) await page.screenshot({ path: `${config.out}/failed-${config.walk}.png` });
  throw error;
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(told, null, 1));
