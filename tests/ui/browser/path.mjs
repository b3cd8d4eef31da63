// A person's path, in headless Chromium: from Airflow's menu to the group that loses offsets next, its story, what-if,
// a plan and the form that asks to apply it; then, as somebody else, to the approval, and to what came of it.
//
// node path.mjs CONFIG.json, where CONFIG is {chromium, out, url, minutes, schedulerLog,
// asks: {user, password}, approves: {...}}.
// Told as JSON: what was read on the way. Screenshots of each stop go to `out`.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";
import { collectErrors, logIn } from "./airflow.mjs";

const PATIENCE_MS = 180_000;

const config = JSON.parse(readFileSync(process.argv[2], "utf8"));
const browser = await chromium.launch({ executablePath: config.chromium, args: ["--no-sandbox"] });
const told = { errors: [], foreign: [] };
const own = new URL(config.url).origin;
let stop = 0;

const shot = (page, name) => page.screenshot({ path: `${config.out}/${++stop}-${name}.png` });

// A window of somebody who has logged in as people do.
const enter = async ({ user, password }) => {
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, locale: "en-US" });
  context.setDefaultTimeout(120_000); // a busy machine
  const page = await context.newPage();
  collectErrors(page, told.errors);
  page.on("request", (request) => !/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== own && told.foreign.push(request.url()));
  await logIn(page, config.url, user, password);
  return page;
};

// Airflow's menu leads to the dashboard, which it frames.
const dashboard = async (page) => {
  await page.getByRole("button", { name: "Browse" }).click();
  await page.getByRole("menuitem", { name: "Consumer groups" }).click();
  const frame = page.frameLocator("iframe");
  await frame.locator("main h1").waitFor();
  return frame;
};

const newestPlan = async (frame) => {
  await frame.getByRole("navigation", { name: "Sexton" }).getByRole("link", { name: "Plans" }).click();
  await frame.locator("main tbody a[href*='/plans/']").first().click();
  return frame.locator("header code").innerText();
};

const asksFor = async (page) => {
  let frame = await dashboard(page);
  await shot(page, "overview");

  // What is due already goes at the next cleanup. Of the rest the first row is next: the table is in order of expiry.
  const soon = frame.getByRole("region", { name: "Losing offsets within a day" }).locator("tbody tr").first();
  told.next = (await soon.locator("td").first().innerText()).trim();
  await soon.locator("a").first().click();
  await frame.locator("h1", { hasText: told.next }).waitFor();
  told.offsets = await frame.locator("#offsets tbody tr").count();
  told.story = await frame.locator("ol.story li b").allInnerTexts();
  await shot(page, "story");

  await frame.getByRole("navigation", { name: "Sexton" }).getByRole("link", { name: "What if" }).click();
  await frame.locator("input[name=retention_minutes]").fill(String(config.minutes));
  await frame.locator("button[type=submit]").click();
  await frame.locator("#answer .cards").waitFor();
  told.whatIf = await frame.locator("#answer .card b").allInnerTexts();
  await shot(page, "what-if");

  told.plan = await newestPlan(frame);
  await shot(page, "plan");

  // The link leaves the frame: Airflow's own page of the DAG, where it is triggered.
  await frame.getByRole("link", { name: "To apply_tombstones" }).click();
  await page.waitForURL((url) => url.pathname === "/dags/apply_tombstones");
  await page.getByRole("button", { name: "Trigger" }).first().click();
  const form = page.locator(".chakra-dialog__content");
  await form.getByText("What to apply").click();
  await form.locator("#element_plan_id").fill(told.plan);
  await form.locator("#element_sink input[role=combobox]").fill("coordinator");
  await page.keyboard.press("Enter");
  await shot(page, "form");
  await form.getByRole("button", { name: "Trigger" }).click();
  await page.waitForURL(/\/dags\/apply_tombstones\/runs\//);
  told.run = decodeURIComponent(new URL(page.url()).pathname.split("/").pop());
};

// As tests/airflow/parking.py tells: what is answered before the scheduler has heard that it asks, asks again.
const hasParked = (run) =>
  readFileSync(config.schedulerLog, "utf8")
    .split("\n")
    .some((line) => line.includes("event with state success") && line.includes(`task_id='approve', run_id='${run}'`));

const approves = async (page) => {
  for (const end = Date.now() + PATIENCE_MS; !hasParked(told.run) && Date.now() < end; ) await page.waitForTimeout(1_000);
  if (!hasParked(told.run)) throw new Error(`the run ${told.run} does not ask`);
  const frame = await dashboard(page);
  await newestPlan(frame);
  await frame.getByRole("link", { name: "Pending approvals" }).click();
  await page.waitForURL(/\/required_actions/);
  const question = page.getByText("Delete what plan");
  for (const end = Date.now() + PATIENCE_MS; !(await question.first().isVisible()) && Date.now() < end; ) {
    await page.waitForTimeout(3_000);
    if (!(await question.first().isVisible())) await page.reload({ waitUntil: "networkidle" });
  }
  told.question = await question.first().innerText();
  const approve = page.getByRole("button", { name: "Approve" });
  await approve.scrollIntoViewIfNeeded();
  await shot(page, "approval");
  await approve.click();
  await approve.waitFor({ state: "detached" });
};

const looks = async (page) => {
  await page.goto(config.url);
  const frame = await dashboard(page);
  await newestPlan(frame);
  const ledger = frame.getByRole("link", { name: /^Ledger/ });
  for (const end = Date.now() + PATIENCE_MS; !(await ledger.isVisible()) && Date.now() < end; ) {
    await page.waitForTimeout(3_000);
    await newestPlan(frame);
  }
  await ledger.click();
  await frame.locator("main h1", { hasText: "Ledger" }).waitFor();
  const rows = await frame.locator("main tbody tr").all();
  told.ledger = await Promise.all(rows.map((row) => row.locator("td").allInnerTexts()));
  await shot(page, "ledger");
};

try {
  await asksFor(await enter(config.asks));
  const other = await enter(config.approves);
  await approves(other);
  await looks(other);
} catch (error) {
  for (const context of browser.contexts()) for (const page of context.pages()) await shot(page, "failed");
  throw error;
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(told, null, 1));
