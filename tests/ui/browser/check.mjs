// Opens pages in headless Chromium of several widths, light or dark, and tells what is wrong with them as JSON.
//
// node check.mjs CONFIG.json, where CONFIG is {chromium, out, shots?, cookies: [...], pages: [{name, url, steps?, tell?}], looks: [[width, "light" or "dark"]]}.
// Told per page and look: axe-core's findings, errors of the console (CSP violations among them), failed requests, and
// requests to anywhere else than the page's own server; of the element `tell` what it says. Screenshots go to `out` unless `shots` is false.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const config = JSON.parse(readFileSync(process.argv[2], "utf8"));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath: config.chromium, args: ["--no-sandbox"] });
// The pages in one look, one after the other.
const seenIn = async ([width, theme]) => {
  const told = [];
  const context = await browser.newContext({
    viewport: { width, height: 900 }, colorScheme: theme, locale: config.locale ?? "en-US", timezoneId: "Asia/Shanghai",
  });
  await context.addCookies(config.cookies ?? []);
  for (const each of config.pages) {
    const page = await context.newPage();
    const own = new URL(each.url).origin;
    const errors = [], foreign = [], dialogs = [];
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("request", (request) => !/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== own && foreign.push(request.url()));
    page.on("dialog", (dialog) => { dialogs.push(dialog.message()); dialog.dismiss(); });
    const answer = await page.goto(each.url, { waitUntil: "networkidle", timeout: 120_000 });
    for (const step of each.steps ?? []) {
      if (step.press) await page.keyboard.press(step.press);
      if (step.type) await page.keyboard.type(step.type, { delay: 20 });
      if (step.focus) await page.focus(step.focus);
      if (step.store) { await page.evaluate(([key, value]) => localStorage.setItem(key, value), step.store); await page.reload({ waitUntil: "networkidle" }); }
      if (step.wait) await page.waitForTimeout(step.wait);
      if (step.leads) await page.waitForURL((url) => url.href.includes(step.leads), { waitUntil: "networkidle" });
      if (step.shows) await page.locator(step.shows[0]).filter({ hasText: step.shows[1] }).first().waitFor({ state: "attached" });
      if (step.idle) await page.waitForLoadState("networkidle");
    }
    if (config.shots ?? true) await page.screenshot({ path: `${config.out}/${each.name}-${width}-${theme}.png`, fullPage: config.fullPage ?? true });
    const focus = await page.evaluate(() => document.activeElement?.getAttribute("name") || document.activeElement?.tagName);
    const language = await page.evaluate(() => document.documentElement.lang);
    const text = each.tell ? await page.innerText(each.tell) : "";
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    // In a world of its own: the page's policy forbids inline scripts, as it should.
    const client = await context.newCDPSession(page);
    const { frameTree } = await client.send("Page.getFrameTree");
    const { executionContextId: contextId } = await client.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
    await client.send("Runtime.evaluate", { expression: axe, contextId });
    const { result } = await client.send("Runtime.evaluate", {
      expression: "axe.run(document, {resultTypes: ['violations']}).then((found) => JSON.stringify(found.violations))",
      contextId, awaitPromise: true, returnByValue: true,
    });
    const violations = JSON.parse(result.value).map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.slice(0, 3).map((node) => node.html.slice(0, 200)), count: nodes.length }));
    told.push({ name: each.name, width, theme, status: answer.status(), url: page.url(), focus, language, text, overflow, errors, foreign, dialogs, violations });
    await page.close();
  }
  await context.close();
  return told;
};

const told = (await Promise.all(config.looks.map(seenIn))).flat(); // a page mostly waits until the network is idle
await browser.close();
process.stdout.write(JSON.stringify(told, null, 1));
