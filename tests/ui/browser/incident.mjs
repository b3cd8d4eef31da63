// The walk of docs/how-to/post-mortem.md: the file of `sexton incident`, opened without network, as the person who got it does.
//
// node incident.mjs CONFIG.json, where CONFIG is {chromium, out, walk, file, command}. Told as JSON: the steps in the words of the
// page, the texts of the page, what a click on the command that has the text `command` selects, and what went wrong.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const config = JSON.parse(readFileSync(process.argv[2], "utf8"));
const browser = await chromium.launch({ executablePath: config.chromium, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1180, height: 900 }, offline: true, colorScheme: "light", locale: "en-US" });
const page = await context.newPage();
const told = { steps: [], errors: [], foreign: [] };
page.on("console", (message) => message.type() === "error" && told.errors.push(message.text()));
page.on("pageerror", (error) => told.errors.push(String(error)));
page.on("request", (request) => !/^(data|file):/.test(request.url()) && told.foreign.push(request.url()));

const step = async (text, act, clip) => {
  await act();
  const name = clip ? `${config.walk}-${told.steps.length + 1}.png` : null;
  if (name) await page.screenshot({ path: `${config.out}/${name}`, clip, animations: "disabled", caret: "hide" });
  told.steps.push({ text, picture: name });
};

await step("Open the file in a browser; it needs neither network nor scripts. *Cause* and *Who did it* come first.", async () => {
  await page.goto(`file://${config.file}`);
  told.text = await page.innerText("main");
}, { x: 0, y: 0, width: 1180, height: 760 });
const command = page.locator("pre.command").filter({ hasText: config.command }).first();
await step("Under *What to do*, click a command to select all of it. Copy it into a terminal, and replace `HOST:PORT` with your brokers.", async () => {
  await command.scrollIntoViewIfNeeded();
  const top = await page.locator("section", { has: page.getByRole("heading", { name: "What to do" }) }).boundingBox();
  await page.evaluate((y) => window.scrollBy(0, y - 20), top.y);
  await command.click();
  told.selected = await page.evaluate(() => String(getSelection()));
}, { x: 0, y: 0, width: 1180, height: 560 });
await step("*Evidence* lists every record that proves what happened, with its position in the log; *Made from* lists the hashes of all files.", async () => {
  await page.getByRole("heading", { name: "Evidence" }).scrollIntoViewIfNeeded();
  told.evidence = await page.locator("section", { has: page.getByRole("heading", { name: "Evidence" }) }).innerText();
});
await browser.close();
process.stdout.write(JSON.stringify(told));
