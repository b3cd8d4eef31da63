// The walks of docs/how-to by clicks, in headless Chromium against a real Airflow; and what its forms refuse.
//
// node walks.mjs CONFIG.json, where CONFIG is {chromium, out, url, walk, users: {admin: password, approver: password}, ...}.
// Told as JSON: the steps of the walk, in the words of its page, with the pictures that were taken in `out`; and what
// was read on the way. What is not a person's doing (waiting for a scheduler) is no step.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";
import { collectErrors, logIn } from "./airflow.mjs";

const PATIENCE_MS = 1_440_000;

const config = JSON.parse(readFileSync(process.argv[2], "utf8"));
const browser = await chromium.launch({ executablePath: config.chromium, args: ["--no-sandbox"] });
const told = { steps: [], errors: [], foreign: [] };
const own = new URL(config.url).origin;

// A window of somebody who has logged in as people do.
const enter = async (user, viewport = { width: 1100, height: 720 }) => {
  const context = await browser.newContext({ viewport, locale: "en-US", timezoneId: "UTC" });
  context.setDefaultTimeout(120_000); // a busy machine
  await context.addInitScript(() => {
    const still = new CSSStyleSheet(); // the moving edges of a run's graph are drawn anew sixty times a second
    still.replaceSync("*, ::before, ::after { animation: none !important; transition: none !important }");
    document.adoptedStyleSheets = [still];
  });
  const page = await context.newPage();
  collectErrors(page, told.errors);
  page.on("request", (request) => !/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== own && told.foreign.push(request.url()));
  await logIn(page, config.url, user, config.users[user]);
  return page;
};

const within = (box, other) => {
  const [x, y] = [Math.max(box.x, other.x), Math.max(box.y, other.y)];
  const [right, bottom] = [Math.min(box.x + box.width, other.x + other.width), Math.min(box.y + box.height, other.y + other.height)];
  return { x, y, width: right - x, height: bottom - y };
};

// A step of the page: its text and what is done; with a `height` also a picture of the part of the page that this gives,
// cut to the window and to that height.
const step = async (text, act, height) => {
  const part = await act();
  const name = height ? `${config.walk}-${told.steps.length + 1}.png` : null;
  if (name) {
    const page = part.page();
    await part.evaluate((found) => {
      const view = found.ownerDocument.defaultView;
      view.scrollTo(0, view.scrollY + found.getBoundingClientRect().top - 100); // below what stays at the top
      const language = found.ownerDocument.getElementById("language");
      if (language) language.style.visibility = "hidden"; // not every machine has a font for it
    });
    await page.waitForTimeout(1_000); // what fades in is there
    let clip = within(await part.boundingBox(), { x: 0, y: 0, ...page.viewportSize() });
    if (await dialog(page).isVisible()) clip = within(clip, await dialog(page).boundingBox());
    clip.height = Math.min(clip.height, height);
    await page.screenshot({ path: `${config.out}/${name}`, animations: "disabled", caret: "hide", clip });
  }
  told.steps.push({ text, picture: name });
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

// A page that is still loading can lose a click, or lead back to itself: a person begins again.
const dag = async (page, name) => {
  const at = (path) => page.waitForURL((url) => url.pathname === path, { timeout: 20_000 }).then(() => true, () => false);
  await until(page, async () => {
    await page.getByTestId("nav-dags-link").click();
    if (!(await at("/dags"))) return false;
    await until(page, async () => (await page.getByTestId("toggle-pause").count()) > 1, 200);
    await page.getByRole("link", { name, exact: true }).first().click();
    return at(`/dags/${name}`);
  });
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

const unpauses = (page) => dialog(page).getByRole("checkbox", { name: /^Unpause/ });

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
  for (const name of ["offset_retention", "maintenance", "audit_replicas", "audit_transactions", "audit_lag", "restore_offsets", "apply_tombstones"]) {
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
    await unpauses(page).uncheck({ force: true }); // or a refused run would switch the schedule on
    await send(page).click();
    const answer = dialog(page).getByText(/Invalid input for param/);
    await answer.waitFor();
    told.refused[`${name}.${asked}`] = (await answer.innerText()).split("\n")[0];
    await dialog(page).screenshot({ path: `${config.out}/refused-${asked}.png` });
    await page.keyboard.press("Escape");
    await dialog(page).waitFor({ state: "detached" });
  }
};

// What Airflow itself answers about a run; a person looks at its page instead.
const ask = async (page, path) => (await page.request.get(`${config.url}/api/v2/dags/${path}`)).json();

const ended = async (page, name, run) => {
  let found;
  await until(page, async () => ["success", "failed"].includes((found = (await ask(page, `${name}/dagRuns/${encodeURIComponent(run)}`)).state)));
  return found;
};

// As tests/airflow/parking.py tells: what is answered before the scheduler has heard that it asks, asks again.
const hasParked = (run) =>
  readFileSync(config.schedulerLog, "utf8")
    .split("\n")
    .some((line) => line.includes("event with state success") && line.includes(`task_id='approve', run_id='${run}'`));

const asks = async (page, name, run) => {
  const task = `${name}/dagRuns/${encodeURIComponent(run)}/taskInstances/approve`;
  await until(page, async () => {
    const { state } = await ask(page, task);
    if (state === "upstream_failed") throw new Error(`${run} does not ask`);
    return state === "awaiting_input" && hasParked(run);
  });
};

// Turns the switch of a DAG on; a run of the last full interval starts.
const switchOn = async (page, name) => {
  let run;
  await dag(page, name);
  await page.getByTestId("toggle-pause").click();
  await until(page, async () => (run = (await ask(page, `${name}/dagRuns?limit=1`)).dag_runs[0]?.dag_run_id));
  return run;
};

// Forms sent as they open.
const untouched = async () => {
  const page = await enter("admin");
  told.runs = {};
  for (const name of ["offset_retention", "maintenance", "audit_replicas", "audit_transactions", "audit_lag", "restore_offsets"]) {
    await dag(page, name);
    await form(page);
    told.runs[name] = await sent(page, name);
  }
};

// The instants that the dashboard's page of runs lists.
const runs = async (frame) => {
  await menu(frame, "Runs");
  await frame.locator("main h1", { hasText: "Published runs" }).waitFor();
  return frame.locator("main tbody tr td:first-child").allInnerTexts();
};

const body = (page) => page.locator("body");
const shown = (frame) => frame.locator("body");

const scheduledRetention = async () => {
  const page = await enter("admin", { width: 1100, height: 620 });
  await step("Open *Dags, offset_retention* and switch it on. A run for the last full interval starts.", async () => {
    told.run = await switchOn(page, "offset_retention");
    await page.reload();
    await page.locator("a[href*='/offset_retention/runs/']").first().waitFor();
    return body(page);
  }, 420);
  told.state = await ended(page, "offset_retention", told.run);
  await step("Once a run has published its tables, open *Browse, Consumer groups*: it shows the cluster at the end of the interval.", async () => {
    return shown(await dashboard(page));
  }, 520);
  await step("Choose *Runs*: it lists each published run, and how many of its checks passed.", async () => {
    const frame = page.frameLocator("iframe");
    told.runs = await runs(frame);
    return shown(frame);
  }, 260);
  await step("Open a run's task *validate_tables* and choose *Details*: *Data Docs* lists what was checked, *Report* is the page of the run, *Spark UI* shows the jobs. *Dashboard* of *publish_tables* opens this run in the dashboard.", async () => {
    told.links = {};
    const docs = await linked(page, "validate_tables", "Data Docs");
    await linked(page, "validate_tables", "Report");
    await linked(page, "validate_tables", "Spark UI");
    await linked(page, "publish_tables", "Dashboard");
    await docs.locator("main li a").first().click();
    await docs.getByText("Evaluated Expectations").first().waitFor();
    await docs.waitForLoadState();
    const facts = () => [[...document.styleSheets].map((sheet) => sheet.href && sheet.href.split("/").pop()), typeof jQuery];
    [told.styles, told.scripts] = await docs.evaluate(facts);
    return body(docs);
  }, 420);
};

// What a button of a task leads to, in a window whose errors are not ours: Data Docs have scripts, which may not run.
const linked = async (page, task, name) => {
  await page.goto(`${config.url}/dags/offset_retention/runs/${encodeURIComponent(told.run)}/tasks/${task}/details`);
  const link = page.getByRole("link", { name, exact: true });
  const other = await page.context().newPage();
  const answer = await other.goto(await link.getAttribute("href"));
  told.links[name] = [answer.status(), new URL(other.url()).pathname, await other.title()];
  return other;
};

const backfill = async () => {
  const page = await enter("admin", { width: 1000, height: 820 });
  await step("Open *Dags, offset_retention*, press *Trigger* and choose *Backfill*.", async () => {
    await dag(page, "offset_retention");
    await form(page);
    told.untouched = await send(page).isEnabled();
    await dialog(page).getByText("Run this Dag for a range of dates").click();
  });
  await step("Choose the range, in UTC. Each interval that begins in the range gets a run, at most *Max Active Runs* at a time. *All Runs* also repeats earlier runs.", async () => {
    await pick(page, config.from);
    await pick(page, config.to);
    await dialog(page).getByText("All Runs").click();
    await dialog(page).getByRole("spinbutton").first().fill("2");
    await dialog(page).getByText(/runs? will be triggered|runs will/i).first().waitFor();
    return dialog(page);
  }, 680);
  await step("Press *Run Backfill*. The bar above the list of runs stays until all runs have ended.", async () => {
    await send(page, "Run Backfill").click();
    // Of an Airflow on SQLite whose scheduler writes at that very moment; a person presses once more.
    await until(page, async () => {
      const isLocked = await dialog(page).getByText("Database is locked").isVisible();
      if (isLocked) await send(page, "Run Backfill").click();
      return !(await dialog(page).isVisible());
    });
    await page.getByText("Backfill in progress").waitFor();
    return body(page);
  }, 420);
  await until(page, async () => (await (await page.request.get(`${config.url}/api/v2/backfills?dag_id=offset_retention`)).json()).backfills.every((each) => each.completed_at));
  await step("Open *Browse, Consumer groups*, then *Runs*: each instant now has its tables. Choose one to see the cluster as it was then.", async () => {
    const frame = await dashboard(page);
    told.runs = await runs(frame);
    return shown(frame);
  }, 340);
};

const newestPlan = async (frame) => {
  await menu(frame, "Plans");
  await frame.locator("main tbody a[href*='/plans/']").first().click();
  return frame.locator("header code").innerText();
};

const openLedger = async (page) => {
  const frame = await dashboard(page);
  await menu(frame, "Plans");
  await frame.locator("main h1", { hasText: "Plans" }).waitFor();
  await frame.locator("main a[href*='/ledger/']:has(code)").first().click();
  await frame.locator("main h1", { hasText: "Ledger" }).waitFor();
  const rows = await frame.locator("main tbody tr").all();
  told.ledger = await Promise.all(rows.map((row) => row.locator("td").allInnerTexts()));
  return shown(frame);
};

// What waits for an answer, as the page of the DAG leads to it; the part of the page that has the question and its answers,
// scrolled to either of them.
const question = async (page, name, words, { toAnswers = false } = {}) => {
  await dag(page, name);
  await page.getByText("Required Actions").first().click();
  const found = page.getByText(words).first();
  await found.waitFor();
  told.question = await found.innerText();
  const seen = toAnswers ? page.getByRole("button", { name: "Approve" }) : found;
  await seen.evaluate((part, block) => part.scrollIntoView({ block }), toAnswers ? "end" : "start");
  return found.locator("xpath=ancestor::*[.//button[normalize-space()='Approve'] and .//*[normalize-space()='Task ID']][1]");
};

const approves = async (page) => {
  const approve = page.getByRole("button", { name: "Approve" });
  await approve.scrollIntoViewIfNeeded();
  await approve.click();
  await approve.waitFor({ state: "detached" });
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
};

const cleanUp = async () => {
  const page = await enter("admin", { width: 1100, height: 760 });
  await step("Open *Browse, Consumer groups*, then *Plans*, and choose the newest plan. Copy its *plan_id*.", async () => {
    const frame = await dashboard(page);
    told.plan = await newestPlan(frame);
    return shown(frame);
  }, 560);
  await step("Choose *To apply_tombstones* and press *Trigger*. Enter the plan_id under *Plan*, choose *coordinator* as *Sink*, and press *Trigger*.", async () => {
    await page.frameLocator("iframe").getByRole("link", { name: "To apply_tombstones" }).click();
    await page.waitForURL((url) => url.pathname === "/dags/apply_tombstones");
    await form(page);
    await open(page, "What to apply");
    await field(page, "plan_id").fill(told.plan);
    await dialog(page).locator("#element_sink input[role=combobox]").fill("coordinator");
    await page.keyboard.press("Enter");
    return dialog(page);
  }, Infinity);
  told.run = await sent(page, "apply_tombstones");
  await asks(page, "apply_tombstones", told.run);
  const other = await enter("approver", { width: 1360, height: 900 });
  await step("Another person logs in, opens *Dags, apply_tombstones, Required Actions* and reads what would be deleted.", async () => question(other, "apply_tombstones", "Delete what plan"), 500);
  await step("The other person presses *Approve*. The run deletes what was shown.", async () => approves(other));
  told.state = await ended(other, "apply_tombstones", told.run);
  await step("Open *Browse, Consumer groups*, then *Plans*, and choose the newest entry of the *Ledger*: it shows the outcome for each offset, and who approved it.", async () => openLedger(other), 360);
};

const restore = async () => {
  const page = await enter("admin", { width: 1100, height: 760 });
  await step("Open *Dags, restore_offsets* and press *Trigger*. Open *From where* and fill in one of its three fields, for example with the plan_id of an applied plan. Press *Trigger*.", async () => {
    await dag(page, "restore_offsets");
    await form(page);
    await open(page, "From where");
    await field(page, "from_ledger").fill(config.plan);
    await field(page, "from_ledger").blur();
    return dialog(page);
  }, Infinity);
  told.run = await sent(page, "restore_offsets");
  await asks(page, "restore_offsets", told.run);
  const other = await enter("approver", { width: 1360, height: 900 });
  await step("Another person logs in, opens *Dags, restore_offsets, Required Actions* and reads the difference between then and now.", async () => question(other, "restore_offsets", "Write back what restore", { toAnswers: true }), Infinity);
  await step("The other person presses *Approve*. The run commits these offsets again.", async () => approves(other));
  told.state = await ended(other, "restore_offsets", told.run);
  await step("Open *Browse, Consumer groups*, then *Plans*, and choose the newest entry of the *Ledger*: it shows the outcome for each offset.", async () => openLedger(other), 360);
};

const incident = async () => {
  const page = await enter("admin", { width: 1100, height: 760 });
  const isListed = async (frame) => (await frame.locator("main tbody a", { hasText: config.group }).count()) > 0;
  await step("Open *Browse, Consumer groups*, then *Groups*. Press ‹ next to *As of* until the group is listed: it existed at that instant.", async () => {
    const frame = await dashboard(page);
    await menu(frame, "Groups");
    await frame.locator("main h1", { hasText: "Groups" }).waitFor();
    told.listed = [await isListed(frame)];
    while (!told.listed.at(-1) && told.listed.length < 9) {
      const instant = await frame.locator("#as-of-shown").innerText();
      await frame.locator("#before").click();
      await until(page, async () => (await frame.locator("#as-of-shown").innerText()) !== instant, 100);
      await frame.locator("main h1", { hasText: "Groups" }).waitFor();
      told.listed.push(await isListed(frame));
    }
    return frame.locator("body");
  }, 420);
  await step("Choose the group, then *to the newest*. *History*, at the end of the page, lists what the group lost, when and why.", async () => {
    const frame = page.frameLocator("iframe");
    await frame.locator("main tbody a", { hasText: config.group }).first().click();
    await frame.locator("main h1", { hasText: config.group }).waitFor();
    await frame.getByRole("link", { name: "to the newest" }).click();
    await frame.getByText("This run has no such group").waitFor();
    told.story = await frame.locator("ol.story li").allInnerTexts();
    return frame.locator("section:has(ol.story)");
  }, Infinity);
};

// The form of a DAG that has to be given something, and what came of it.
const lastMonth = async () => {
  const page = await enter("admin", { width: 1100, height: 820 });
  await step("Open *Dags, offset_history*, press *Trigger*, and fill in *From*, *To* and *Minutes between instants*.", async () => {
    await dag(page, "offset_history");
    await form(page);
    told.untouched = await send(page).isEnabled();
    await open(page, "What to describe");
    await field(page, "from").fill(config.from);
    await field(page, "to").fill(config.to);
    await dialog(page).getByRole("spinbutton").first().fill("1");
    await dialog(page).getByRole("spinbutton").first().blur();
    return dialog(page);
  }, 680);
  await step("Press *Trigger*. The log of the task *build_history* shows the progress. If a run was stopped, clear it; it then continues where it stopped.", async () => {
    told.run = await sent(page, "offset_history");
    told.state = await ended(page, "offset_history", told.run);
    await page.goto(`${config.url}/dags/offset_history/runs/${encodeURIComponent(told.run)}/tasks/build_history`);
    await page.getByText(/build_history: published 2/).first().waitFor();
    return body(page);
  });
  await step("Open *Browse, Consumer groups*, then *Lost*.", async () => {
    const frame = await dashboard(page);
    await menu(frame, "Lost");
    await frame.locator("main h1", { hasText: "Lost offsets" }).waitFor();
    told.lost = await frame.locator("main").innerText();
    await menu(frame, "Runs");
    await frame.locator("main h1", { hasText: "Published runs" }).waitFor();
    told.runs = await frame.locator("main tbody tr td:first-child").allInnerTexts();
    await menu(frame, "Lost");
    await frame.locator("main h1", { hasText: "Lost offsets" }).waitFor();
    return shown(frame);
  }, 420);
};

const keep = async () => {
  const page = await enter("admin", { width: 1280, height: 760 });
  const trigger = async (name, act = async () => {}) => {
    await dag(page, name);
    await form(page);
    await act();
    return sent(page, name);
  };
  const end = async (name, run) => ((told.runs ??= {})[run] = [name, await ended(page, name, run)]);
  await step("Open *Dags, keep_offsets* and switch it on. This starts a dry run: the log of its task *keep* shows what would be kept.", async () => {
    told.dry = await switchOn(page, "keep_offsets");
    await end("keep_offsets", told.dry);
    await page.goto(`${config.url}/dags/keep_offsets/runs/${encodeURIComponent(told.dry)}/tasks/keep`);
    await page.getByText(/nobody has approved anything; it would do: keep/).first().waitFor();
    return body(page);
  }, 460);
  await step("Open *Dags, approve_keep*, press *Trigger* and, in the form, *Trigger*. The defaults cover every held group for 30 days.", async () => (told.approval = await trigger("approve_keep")));
  await asks(page, "approve_keep", told.approval);
  const other = await enter("approver", { width: 1360, height: 900 });
  await step("Another person logs in, opens *Dags, approve_keep, Required Actions* and reads what every later run may do.", async () => question(other, "approve_keep", "Keep alive what"), 648);
  await step("The other person presses *Approve*.", async () => approves(other));
  await end("approve_keep", told.approval);
  await step("From now on, an hourly run keeps the offsets that fall due. To start a run at once, open *Dags, keep_offsets*, press *Trigger* and, in the form, *Trigger*.", async () => (told.kept = await trigger("keep_offsets")));
  await end("keep_offsets", told.kept);
  await step("After the next run of *offset_retention*, open *Browse, Consumer groups*. *Kept alive by holds* counts the offsets that were kept and those that could not be kept, with the reason.", async () => {
    const run = await trigger("offset_retention");
    await end("offset_retention", run);
    const frame = await dashboard(page);
    const part = frame.getByRole("heading", { name: "Kept alive by holds" }).locator("xpath=..");
    told.holds = await part.locator("tbody td").allInnerTexts();
    return part;
  }, 400);
  await step("To end the approval, open *Dags, approve_keep* and press *Trigger*. Open *How to end it*, turn *Revoke* on and press *Trigger*. Revoking needs no approval.", async () => {
    told.end = await trigger("approve_keep", async () => {
      await open(page, "How to end it");
      await dialog(page).locator("label:has(input[name='element_revoke'])").click();
    });
    await end("approve_keep", told.end);
  });
};

const WALKS = { forms, untouched, "scheduled-retention": scheduledRetention, backfill, "clean-up": cleanUp, restore, incident, "last-month": lastMonth, keep };

try {
  await WALKS[config.walk]();
} catch (error) {
  for (const context of browser.contexts()) for (const page of context.pages()) await page.screenshot({ path: `${config.out}/failed-${config.walk}.png` });
  throw error;
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(told, null, 1));
