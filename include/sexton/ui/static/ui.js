// The dashboard's own behaviour: colours and language, the time slider, local times, plots. Every page works without
// this script, except for the plots, whose numbers are also in the API.
"use strict";

(() => {
  const remembered = (key) => {
    try { return localStorage.getItem(key); } catch { return null; }
  };
  const remember = (key, value) => {
    try { localStorage.setItem(key, value); } catch { /* storage is disabled */ }
  };

  // Colours: the choice made here, else in Airflow (which also stores `theme` in localStorage), else in the system.
  const chosenTheme = () => remembered("sexton-theme") || remembered("theme");
  const applyTheme = () => {
    const theme = chosenTheme();
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  applyTheme();
  addEventListener("storage", applyTheme);

  const setLanguage = (language) => {
    document.cookie = `sexton_language=${language}; path=${document.body.dataset.base || "/"}; SameSite=Lax; max-age=31536000`;
  };

  // Use Airflow's language the first time, if no language has been chosen here.
  const followAirflow = () => {
    const theirs = remembered("i18nextLng");
    if (!theirs || /(^|; )sexton_language=/.test(document.cookie) || new URL(location.href).searchParams.has("lang")) return;
    const wanted = theirs.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
    setLanguage(wanted);
    if (wanted !== document.documentElement.lang) location.reload();
  };

  const withQuery = (name, value) => {
    const url = new URL(location.href);
    url.searchParams.set(name, value);
    return url.href;
  };

  const minuteText = (ms) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");

  const tools = () => {
    const theme = document.getElementById("theme");
    const label = () => {
      const now = remembered("sexton-theme") || "auto";
      theme.title = theme.dataset[now] || theme.dataset.auto;
      theme.setAttribute("aria-label", theme.title);
    };
    theme.hidden = false;
    label();
    theme.addEventListener("click", () => {
      const order = ["auto", "light", "dark"];
      const next = order[(order.indexOf(remembered("sexton-theme") || "auto") + 1) % order.length];
      remember("sexton-theme", next);
      applyTheme();
      label();
      dispatchEvent(new Event("sexton-theme"));
    });
    const language = document.getElementById("language");
    language.hidden = false;
    language.addEventListener("click", () => {
      setLanguage(language.dataset.language);
      const url = new URL(location.href);
      url.searchParams.delete("lang");
      location.replace(url.href);
    });
  };

  const slider = () => {
    const range = document.getElementById("as-of");
    if (!range) return;
    const instants = range.dataset.instants.split(",").map(Number);
    const output = document.getElementById("as-of-shown");
    range.addEventListener("input", () => {
      const text = `${minuteText(instants[range.value])} UTC`;
      output.textContent = text;
      range.setAttribute("aria-valuetext", text);
    });
    range.addEventListener("change", () => location.assign(withQuery("as_of", instants[range.value])));
  };

  const localTimes = (root) => {
    const format = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "long" });
    for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.getTime())) time.title = `${time.dateTime.replace("T", " ").slice(0, 19)} UTC\n${format.format(at)}`;
    }
  };

  const forms = () => {
    for (const select of document.querySelectorAll("select[data-go]")) {
      select.addEventListener("change", () => location.assign(select.value));
    }
    document.addEventListener("htmx:configRequest", (event) => {
      // Leave empty parameters out of the request and its URL.
      const asked = event.detail.parameters;
      for (const name of Object.keys(asked)) if (asked[name] === "") delete asked[name];
    });
    document.addEventListener("htmx:beforeSwap", (event) => {
      // FastAPI's own 422 is JSON and repeats the request's values: never show a response as HTML unless it is HTML.
      const kind = event.detail.xhr.getResponseHeader("Content-Type") || "";
      if (!kind.startsWith("text/html")) event.detail.serverResponse = "";
    });
    document.addEventListener("htmx:afterSettle", () => localTimes(document));
    document.addEventListener("keydown", (event) => {
      const typing = event.target.matches("input, select, textarea");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
        const first = document.querySelector("[data-first]");
        if (first) { event.preventDefault(); first.focus(); first.select(); }
      }
    });
  };

  // Within Airflow this page is in a frame: open a link to a page of Airflow in the window around the frame.
  const airflowLinks = () => {
    if (window.parent === window) return;
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a[data-airflow]");
      if (!link) return;
      event.preventDefault();
      const outside = window.parent.document.createElement("a");
      outside.href = link.href;
      outside.click();
    });
  };

  const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();

  // A variable has light-dark() unresolved: only a property that uses the colour has it resolved by the browser.
  const resolved = (name) => {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found || colour(name);
  };

  const compact = (value) => new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(value);
  const plain = (value) => (value === null || value === undefined ? "-" : value.toLocaleString("en"));

  const UNITS = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];
  // The two largest units of a span in seconds, as the pages write them.
  const span = (seconds) => {
    if (seconds === null || seconds === undefined) return "-";
    if (seconds < 1) return seconds ? `${Math.round(seconds * 1000)} ms` : "0";
    const parts = [];
    let left = Math.round(seconds);
    for (const [size, unit] of UNITS) {
      const number = Math.floor(left / size);
      left -= number * size;
      if (number || parts.length) parts.push([number, unit]);
    }
    return parts.slice(0, 2).filter(([number]) => number).map(([number, unit]) => `${number} ${unit}`).join(" ");
  };
  const SPAN_STEPS = [0.001, 0.01, 0.1, 1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 432_000, 864_000, 2_592_000, 8_640_000];

  const draw = (box, labels, found, lines, isSpan = false) => {
    const shown = isSpan ? span : plain;
    box.replaceChildren();
    const seconds = found.at_ms.map((ms) => ms / 1000);
    const isEmpty = !lines.some((line) => line.values.some((value) => value !== null));
    box.classList.toggle("empty", isEmpty);
    if (isEmpty) {
      box.textContent = labels.none;
      return null;
    }
    const axis = { stroke: resolved("--soft"), grid: { stroke: resolved("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const options = {
      width: box.clientWidth,
      height: 190,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { drag: { x: false, y: false } },
      ...(isSpan ? { scales: { y: { range: (_, __, most) => [0, 1.05 * (most || 1)] } } } : {}),
      axes: [
        { ...axis, space: 90, values: (_, ticks, __, ___, step) => ticks.map((at) => minuteText(at * 1000).slice(...(step < 86_400 ? [11, 16] : [5, 10]))) },
        // As many digits as the step needs, so that no two ticks have the same label.
        { ...axis, ...(isSpan ? { incrs: SPAN_STEPS } : {}), size: (_, labels) => 16 + 7.4 * Math.max(6, ...(labels ?? []).map((each) => String(each).length)), values: (_, ticks, __, ___, step) => ticks.map((value) => (isSpan ? span(value) : step < Math.abs(value) / 100 ? plain(value) : compact(value))) },
      ],
      series: [
        { label: labels.time, value: (_, at) => (at === null ? "-" : minuteText(at * 1000)) },
        ...lines.map((line) => ({
          label: line.label, stroke: resolved(line.colour), width: 1.6, spanGaps: isSpan, fill: line.fill ? resolved("--track") : undefined,
          dash: line.dash, points: { size: 5 }, value: (_, value) => shown(value),
        })),
      ],
    };
    const plot = new uPlot(options, [seconds, ...lines.map((line) => line.values)], box);
    requestAnimationFrame(() => plot.setLegend({ idx: seconds.length - 1 }));  // the newest, until somebody points at another
    return plot;
  };

  const inSeconds = (values) => values.map((ms) => (ms === null ? null : ms / 1000));

  const fillTable = (table, found) => {
    const body = table.tBodies[0];
    body.replaceChildren();
    found.at_ms.forEach((ms, number) => {
      const row = body.insertRow(0);
      row.insertCell().textContent = minuteText(ms);
      const spans = [found.lag_min_ms, found.lag_max_ms].map((values) => span(inSeconds(values)[number]));
      for (const text of [...[found.committed_offset, found.log_end_offset, found.lag].map((values) => plain(values[number])), ...spans]) {
        const cell = row.insertCell();
        cell.className = "n";
        cell.textContent = text;
      }
    });
  };

  const plots = () => {
    const place = document.getElementById("plots");
    if (!place) return;
    const labels = place.dataset;
    const form = document.getElementById("series-form");
    const choice = document.getElementById("series-of");
    form.addEventListener("submit", (event) => event.preventDefault());
    let found = null;
    let asked = 0;
    const drawAll = () => {
      if (!found || !window.uPlot) return;
      draw(document.getElementById("plot-offset"), labels, found, [
        { label: labels.committed, values: found.committed_offset, colour: "--accent" },
        { label: labels.end, values: found.log_end_offset, colour: "--later", dash: [4, 4] },
      ]);
      draw(document.getElementById("plot-lag"), labels, found, [{ label: labels.lag, values: found.lag, colour: "--due", fill: true }]);
      draw(document.getElementById("plot-lag-time"), labels, found, [
        { label: labels.atMost, values: inSeconds(found.lag_max_ms), colour: "--due", fill: true },
        { label: labels.atLeast, values: inSeconds(found.lag_min_ms), colour: "--accent", dash: [4, 4] },
      ], true);
    };
    const load = async () => {
      const url = new URL(form.dataset.url, location.href);
      for (const [name, value] of Object.entries(choice.value ? JSON.parse(choice.value) : {})) url.searchParams.set(name, value);
      const mine = ++asked;
      const answer = await fetch(url, { headers: { Accept: "application/json" } });
      if (mine !== asked) return;
      if (!answer.ok) {
        for (const box of place.querySelectorAll(".uplot-box")) box.textContent = `${answer.status} ${answer.statusText}`;
        return;
      }
      found = await answer.json();
      fillTable(document.getElementById("series-table"), found);
      drawAll();
    };
    choice.addEventListener("change", load);
    addEventListener("sexton-theme", drawAll);
    addEventListener("storage", drawAll);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    let resizing = 0;
    addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawAll, 120); });
    load();
  };

  addEventListener("DOMContentLoaded", () => {
    followAirflow();
    tools();
    slider();
    forms();
    airflowLinks();
    localTimes(document);
    plots();
    // If a plot is wider than the window, show its newest part first.
    for (const box of document.querySelectorAll("[data-newest-right] .scroll")) box.scrollLeft = box.scrollWidth;
  });
})();
