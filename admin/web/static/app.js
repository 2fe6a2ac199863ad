"use strict";
// The pages work without this file. It refreshes what is marked data-live, keeps relative
// times true, and draws the charts of a route.
(() => {
  const doc = document, html = doc.documentElement;
  const store = { get(k) { try { return localStorage.getItem(k); } catch { return null; } }, set(k, v) { try { localStorage.setItem(k, v); } catch { /* not kept */ } } };
  const $ = (id) => doc.getElementById(id);

  // A notice is shown once: a reload or a bookmark must not repeat it.
  const here = new URL(location.href);
  if (here.searchParams.has("notice")) {
    here.searchParams.delete("notice");
    history.replaceState(null, "", here);
  }

  // A narrow screen shows the current page's name in the navigation.
  const current = doc.querySelector("#nav a[aria-current]"), strip = doc.querySelector("#nav ul");
  if (current && strip.scrollWidth > strip.clientWidth) strip.scrollLeft = current.offsetLeft - strip.offsetLeft - 12;

  // Theme
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (html.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const themeButton = $("theme");
  if (themeButton) {
    themeButton.hidden = false;
    themeButton.addEventListener("click", () => {
      html.dataset.theme = isDark() ? "light" : "dark";
      store.set("outrider-theme", html.dataset.theme);
      drawAll();
    });
    dark.addEventListener("change", drawAll);
  }

  // Relative times
  const span = (s) => s < 60 ? `${Math.floor(s)} s` : s < 3600 ? `${Math.floor(s / 60)} min` : s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`;
  let skew = 0; // of this clock against the server's, in ms
  function age() {
    const now = Date.now() + skew;
    for (const t of doc.querySelectorAll("time[datetime]")) {
      const rel = t.querySelector(".rel");
      const d = (now - Date.parse(t.dateTime)) / 1000;
      const text = Math.abs(d) < 1 ? "now" : d < 0 ? `in ${span(-d)}` : `${span(d)} ago`;
      if (rel && rel.textContent !== text) rel.textContent = text;
    }
  }

  // Refreshing
  const parts = () => [...doc.querySelectorAll("[data-live]")];
  const live = $("live"), pauseButton = $("pause"), fresh = $("fresh");
  let paused = store.get("outrider-paused") === "yes", busy = false, last = Date.now(), failed = "", tag = null;
  const every = () => Math.min(...parts().map((p) => Number(p.dataset.live) || 5)) * 1000;

  function show() {
    if (!live) return;
    pauseButton.textContent = paused ? "Resume updates" : "Pause updates";
    pauseButton.setAttribute("aria-pressed", String(paused));
    const text = paused ? "Updates are paused" : failed;
    if (fresh.textContent !== text) fresh.textContent = text;
    live.classList.toggle("stale", paused || failed !== "");
  }

  // A part that somebody works in stays as it is: an open field, or text that is selected.
  function inUse(part) {
    const at = doc.activeElement, chosen = doc.getSelection();
    if (at && part.contains(at) && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName)) return true;
    return chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode);
  }

  // The focus goes to the same link or button of the new part.
  function replace(part, next) {
    if (part.innerHTML === next.innerHTML) return;
    const at = part.contains(doc.activeElement) ? doc.activeElement : null;
    const all = (root) => [...root.querySelectorAll("a[href],button,summary,[tabindex]")];
    const same = (e) => e.tagName + (e.getAttribute("href") || "") + e.textContent;
    const name = at && same(at), index = at ? all(part).indexOf(at) : -1;
    const at0 = part.querySelector("ul")?.scrollLeft || 0;
    part.innerHTML = next.innerHTML; // our own server's answer, escaped there
    if (at0) part.querySelector("ul").scrollLeft = at0;
    if (at) (all(part).find((e) => same(e) === name) || all(part)[index] || $("main")).focus({ preventScroll: true });
  }

  async function refresh() {
    if (busy || paused || doc.hidden || parts().length === 0) return;
    busy = true;
    try {
      // 304: the page is as it was. Without no-store the browser would make a 200 of it, from its own cache.
      const asked = { Accept: "text/html" };
      if (tag) asked["If-None-Match"] = tag;
      const answer = await fetch(location.href, { headers: asked, credentials: "same-origin", cache: "no-store" });
      if (answer.redirected && new URL(answer.url).pathname.endsWith("/login")) { location.reload(); return; }
      const date = Date.parse(answer.headers.get("Date"));
      if (date) skew = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
      if (answer.status !== 304) {
        const next = new DOMParser().parseFromString(await answer.text(), "text/html");
        doc.title = next.title;
        tag = answer.headers.get("ETag");
        for (const part of parts()) {
          const other = next.getElementById(part.id);
          if (!other) continue;
          if (inUse(part)) tag = null; // it is brought up to date later
          else replace(part, other);
        }
      }
      failed = answer.ok || answer.status === 304 ? "" : "The last update failed";
      last = Date.now();
      await loadCharts();
    } catch {
      failed = "The relay does not answer";
    } finally {
      busy = false;
      age();
      show();
    }
  }

  if (live && parts().length > 0) {
    live.hidden = false;
    pauseButton.addEventListener("click", () => {
      paused = !paused;
      store.set("outrider-paused", paused ? "yes" : "no");
      show();
      if (!paused) refresh();
    });
    doc.addEventListener("visibilitychange", () => { if (!doc.hidden && Date.now() - last >= every()) refresh(); });
    show();
  }
  setInterval(() => {
    if (doc.hidden) return; // a hidden tab asks for nothing
    age();
    if (Date.now() - last >= every()) { last = Date.now(); refresh(); }
  }, 1000);

  // Charts
  const kinds = {
    rate: [["rate", "per second", "--accent", true]],
    age: [["p50", "p50", "--good"], ["p95", "p95", "--warn"], ["p99", "p99", "--bad"]],
    failures: [["retried", "failed attempts", "--warn"], ["parked", "parked", "--hold"], ["dead", "dead", "--bad"], ["skipped", "skipped", "--muted"]],
  };
  const hour = $("hour"), charts = [];
  let data = null;
  const color = (name) => getComputedStyle(html).getPropertyValue(name).trim();
  const round = (v) => v == null ? "–" : v === 0 ? "0" : v < 0.01 ? v.toFixed(4) : v < 10 && !Number.isInteger(v) ? v.toFixed(2) : Math.round(v).toLocaleString("en");

  function draw(figure) {
    const plot = figure.querySelector(".plot"), series = kinds[figure.dataset.chart];
    const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    plot.textContent = "";
    const chart = new uPlot({
      width: plot.clientWidth, height: 170, padding: [8, 26, 0, 0],
      cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      legend: { live: true },
      scales: { x: { range: (u, min, max) => [min, Math.max(max, min + 60)] }, y: { range: (u, min, max) => [0, Math.max(max || 0, figure.dataset.chart === "age" ? 0.01 : 1) * 1.1] } },
      axes: [{ ...axis, size: 28, values: (u, at) => at.map((t) => new Date(t * 1000).toISOString().slice(11, at[1] - at[0] < 60 ? 19 : 16)) }, { ...axis, size: 48, values: (u, at) => at.map(round) }],
      series: [{ label: "UTC", value: (u, t) => t == null ? "–" : new Date(t * 1000).toISOString().slice(11, 19) },
        ...series.map(([, label, tone, filled]) => ({ label, stroke: color(tone), width: 1.6, fill: filled ? color("--accent-bg") : undefined, points: { show: false }, spanGaps: label[0] === "p" && label.length === 3, value: (u, v) => round(v) }))],
    }, values(figure), plot);
    chart.root.querySelector("canvas").setAttribute("aria-hidden", "true");
    return chart;
  }
  const values = (figure) => [data.at, ...kinds[figure.dataset.chart].map(([name]) => data[name])];

  function drawAll() {
    if (!hour || !data || !globalThis.uPlot) return;
    for (const c of charts.splice(0)) c.chart.destroy();
    for (const figure of hour.querySelectorAll("figure")) charts.push({ figure, chart: draw(figure) });
  }

  async function loadCharts() {
    if (!hour) return;
    const answer = await fetch(hour.dataset.src, { credentials: "same-origin" });
    if (!answer.ok) return;
    data = await answer.json();
    if (charts.length === 0) drawAll();
    else for (const c of charts) c.chart.setData(values(c.figure));
  }
  if (hour) {
    addEventListener("load", () => loadCharts().then(() => { html.dataset.charts = "drawn"; }, () => { /* the numbers are in the table */ }));
    addEventListener("resize", () => { for (const c of charts) c.chart.setSize({ width: c.figure.querySelector(".plot").clientWidth, height: 170 }); });
  }
})();
