// What a newcomer sees first: Airflow's home page with its health, and the dashboard before anything is published.
//
// node home.mjs CONFIG.json, where CONFIG is {chromium, out, url, user, password, pages: {name: path of the dashboard}}.
// Told as JSON: the colour and the mark of each badge of the home page's health, heading and links of the pages, and where
// the first link of the framed dashboard leads to, once there is a button that triggers. Screenshots go to `out`.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";
import { collectErrors, logIn } from "./airflow.mjs";

const config = JSON.parse(readFileSync(process.argv[2], "utf8"));
const browser = await chromium.launch({ executablePath: config.chromium, args: ["--no-sandbox"] });
const told = { errors: [], health: {}, pages: {} };
const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, locale: "en-US" });
page.setDefaultTimeout(120_000); // a busy machine
collectErrors(page, told.errors);

try {
  await logIn(page, config.url, config.user, config.password);
  await page.getByText("Triggerer").first().waitFor();
  await page.screenshot({ path: `${config.out}/home.png` });
  const colourOf = (badge) => getComputedStyle(badge).backgroundColor;
  for (const name of ["MetaDatabase", "Scheduler", "Triggerer", "Dag Processor"]) {
    const badge = page.getByTestId("state-badge").filter({ hasText: name });
    told.health[name] = [await badge.evaluate(colourOf), await badge.locator("path").getAttribute("d")];
  }

  for (const [name, path] of Object.entries(config.pages)) {
    await page.goto(`${config.url}/sexton/${path}`);
    told.pages[name] = { heading: await page.locator("main h1").innerText(), links: await page.locator("main a").allInnerTexts() };
  }

  // Within Airflow the page is framed, and its link leaves the frame: for where the DAG is triggered.
  await page.goto(`${config.url}/plugin/sexton`);
  const frame = page.frameLocator("iframe");
  await frame.locator("main h1").waitFor();
  await page.screenshot({ path: `${config.out}/nothing.png` });
  await frame.locator("main a").first().click();
  await page.waitForURL((url) => url.pathname.startsWith("/dags/"));
  await page.getByRole("button", { name: "Trigger" }).first().waitFor();
  told.leadsTo = new URL(page.url()).pathname;
} finally {
  await page.screenshot({ path: `${config.out}/last.png` });
  await browser.close();
}
process.stdout.write(JSON.stringify(told, null, 1));
