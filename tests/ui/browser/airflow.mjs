// What the scripts share that look at Airflow's own pages.

// Airflow's forms hold the Monaco editor, which leaves a promise rejected with `Canceled` where it is closed while it is
// still loading (microsoft/monaco-editor#4702, #4389): nothing has failed.
export const collectErrors = (page, errors) =>
  page.on("pageerror", (error) => String(error) === "Canceled: Canceled" || errors.push(`${page.url()}: ${error}`));

// As people do.
export const logIn = async (page, url, user, password) => {
  await page.goto(url);
  await page.locator("input[name=username]").fill(user);
  await page.locator("input[name=password]").fill(password);
  await page.locator("button[type=submit]").click();
  await page.waitForURL((at) => !at.pathname.includes("login"));
};
