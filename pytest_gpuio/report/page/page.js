"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  for (const name of ["cells", "latency", "cpu", "history"]) {
    const { keys, rows } = page[name];
    page[name] = rows.map((values) => Object.fromEntries(keys.map((key, place) => [key, values[place]])));
  }
  const PER_PAGE = 100;
  // Beyond so many rows a canvas draws faster than the browser lays out shapes; shapes print and scale better.
  const MOST_SHAPES = 1500;
  const KEYS = ["machine", "phase", "workload", "medium", "path"];
  const form = document.getElementById("filters");
  const root = document.documentElement;
  const views = new Map();
  const numbers = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
  let sort = { key: "gbs", down: true };
  let first = 0;
  let shown = [];

  // How far it is: the table stands, what is in sight is drawn, all is drawn.
  const ready = (state) => { root.dataset.ready = state; performance.mark(`ready ${state}`); };

  // ---- theme: the system's unless chosen here
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const setTheme = (dark) => { root.dataset.theme = dark ? "dark" : "light"; };
  setTheme(system.matches);
  document.getElementById("theme").addEventListener("click", () => { setTheme(root.dataset.theme !== "dark"); redraw(); });
  system.addEventListener("change", (event) => { setTheme(event.matches); redraw(); });
  if (!form) { ready("all"); return; } // nothing was measured: there are tables only

  function config(shapes) {
    const style = getComputedStyle(root);
    // Shapes follow the theme by themselves, on paper as well.
    const colour = (name) => (shapes ? `var(--${name})` : style.getPropertyValue(`--${name}`).trim());
    const [ink, dim, line] = ["ink", "dim", "line"].map(colour);
    const font = style.fontFamily || "system-ui, sans-serif";
    return {
      background: "transparent",
      font,
      view: { stroke: line },
      axis: { labelColor: dim, titleColor: dim, gridColor: line, domainColor: line, tickColor: line, gridOpacity: 0.6, labelFontSize: 11, titleFontSize: 11.5, titleFontWeight: "normal" },
      legend: { labelColor: ink, titleColor: ink, labelLimit: 260, labelFontSize: 12 },
      header: { labelColor: ink, titleColor: ink, labelFontSize: 12 },
      title: { color: ink },
    };
  }

  // ---- filters
  for (const key of KEYS) {
    const values = [...new Set(page.cells.map((row) => row[key]))].sort();
    form.elements[key].replaceChildren(new Option("all", ""), ...values.map((value) => new Option(value, value)));
    form.elements[key].closest("label").hidden = values.length < 2;
  }
  function passes(row) {
    for (const key of KEYS) {
      const wanted = form.elements[key].value;
      if (wanted && row[key] !== undefined && row[key] !== wanted) return false;
    }
    if (form.elements.settled.checked && row.settled === false) return false;
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return true;
    const text = `${row.case} ${row.label || ""} ${row.cell || ""} ${row.flags || ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }

  // ---- charts: each draws a named dataset, those in sight first, the others when the browser has time
  const placeOf = (chart) => document.getElementById(`chart-${chart.name}`);
  function rowsOf(chart) {
    const rows = page[chart.dataset].filter(passes);
    const figure = placeOf(chart).closest("figure");
    figure.classList.toggle("none", !rows.length);
    figure.querySelector(".empty").hidden = rows.length > 0;
    return rows;
  }
  async function embed(chart) {
    const place = placeOf(chart);
    const rows = rowsOf(chart);
    const shapes = page[chart.dataset].length <= MOST_SHAPES;
    const spec = { $schema: page.schema, ...chart.spec, data: { name: "rows" }, datasets: { rows } };
    if (typeof spec.width === "number") Object.assign(spec, { width: "container", autosize: { type: "fit-x", contains: "padding" } });
    const result = await window.vegaEmbed(place, spec, { renderer: shapes ? "svg" : "canvas", actions: { export: true, source: false, compiled: false, editor: false }, config: config(shapes) });
    views.get(chart.name)?.finalize();
    views.set(chart.name, result.view);
  }
  async function draw(chart) {
    if (views.has(chart.name)) return;
    views.set(chart.name, null);
    await embed(chart);
  }
  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 50));
  function drawRest() {
    const next = page.charts.find((chart) => !views.has(chart.name));
    if (next) idle(async () => { await draw(next); drawRest(); });
    else ready("all");
  }
  const near = new IntersectionObserver(async (seen) => {
    for (const { isIntersecting, target } of seen) {
      const chart = isIntersecting && page.charts.find((one) => placeOf(one) === target);
      if (chart) await draw(chart);
    }
    if (root.dataset.ready === "table") { ready("charts"); drawRest(); }
  }, { rootMargin: "100px" });
  async function redraw() {
    // Shapes take their colours from the page; what was painted is painted again.
    for (const chart of page.charts) if (views.get(chart.name) && page[chart.dataset].length > MOST_SHAPES) await embed(chart);
  }
  window.addEventListener("beforeprint", () => { for (const chart of page.charts) draw(chart); });
  async function refresh() {
    for (const chart of page.charts) {
      const view = views.get(chart.name);
      const rows = rowsOf(chart);
      if (view && rows.length) await view.data("rows", rows).resize().runAsync();
    }
  }

  // ---- the table of cells
  const head = document.querySelector("#cells thead tr");
  const body = document.querySelector("#cells tbody");
  function nanoseconds(value) {
    if (value === null) return "-";
    for (const [factor, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) if (value >= factor) return `${numbers.format(value / factor)} ${unit}`;
    return `${numbers.format(value)} ns`;
  }
  function cellText(column, row) {
    const value = row[column.key];
    if (value === null || value === undefined || value === "") return "-";
    if (column.kind === "ns") return nanoseconds(value);
    return typeof value === "number" ? numbers.format(value) : value;
  }
  const fastest = Math.max(...page.cells.map((row) => row.gbs), Number.MIN_VALUE);
  function makeHead() {
    head.replaceChildren(...page.columns.map((column) => {
      const th = document.createElement("th");
      th.scope = "col";
      if (column.kind !== "text") th.className = "number";
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = column.title + (sort.key === column.key ? (sort.down ? " ▼" : " ▲") : "");
      th.setAttribute("aria-sort", sort.key === column.key ? (sort.down ? "descending" : "ascending") : "none");
      button.addEventListener("click", () => {
        sort = { key: column.key, down: sort.key === column.key ? !sort.down : column.kind !== "text" };
        first = 0;
        table();
        head.querySelectorAll("button")[page.columns.indexOf(column)].focus();
      });
      th.append(button);
      return th;
    }));
  }
  function compare(a, b) {
    const [x, y] = [a[sort.key], b[sort.key]];
    if (x === y) return a.case < b.case ? -1 : 1;
    if (x === null || x === undefined || x === "") return 1;
    if (y === null || y === undefined || y === "") return -1;
    return (x < y ? -1 : 1) * (sort.down ? -1 : 1);
  }
  function line(row) {
    const tr = document.createElement("tr");
    page.columns.forEach((column, place) => {
      const td = document.createElement("td");
      td.textContent = cellText(column, row);
      if (column.kind !== "text") td.className = "number";
      if (column.key === "gbs" && row.gbs > 0) {
        const share = Math.round((100 * row.gbs) / fastest);
        td.style.background = `linear-gradient(to left, var(--tint) ${share}%, transparent ${share}%)`;
      }
      if (column.key === "flags") td.className = "flags";
      if (place === 0) {
        const open = document.createElement("button");
        open.type = "button";
        open.className = "open";
        open.textContent = "+";
        open.setAttribute("aria-expanded", "false");
        open.setAttribute("aria-label", `evidence of ${row.label}`);
        open.addEventListener("click", () => {
          const there = tr.nextSibling && tr.nextSibling.className === "more" ? tr.nextSibling : null;
          open.setAttribute("aria-expanded", String(!there));
          open.textContent = there ? "+" : "-";
          if (there) return there.remove();
          const more = document.createElement("tr");
          more.className = "more";
          const wide = document.createElement("td");
          wide.colSpan = page.columns.length;
          wide.textContent = `${row.case} | ${row.evidence || "see the results file"}${row.imported ? " | imported from another tool" : ""}`;
          more.append(wide);
          tr.after(more);
        });
        td.prepend(open);
      }
      tr.append(td);
    });
    return tr;
  }
  function table() {
    makeHead();
    shown = page.cells.filter(passes).sort(compare);
    first = Math.max(0, Math.min(first, Math.floor((shown.length - 1) / PER_PAGE) * PER_PAGE));
    body.replaceChildren(...shown.slice(first, first + PER_PAGE).map(line));
    document.getElementById("count").textContent = `${shown.length} of ${page.cells.length} rows${page.total > page.cells.length ? ` (best of ${page.total} cells)` : ""}`;
    document.getElementById("range").textContent = shown.length ? `${first + 1} to ${Math.min(first + PER_PAGE, shown.length)} of ${shown.length}` : "none";
    document.getElementById("no-cells").hidden = shown.length > 0;
    document.getElementById("previous").disabled = first === 0;
    document.getElementById("next").disabled = first + PER_PAGE >= shown.length;
  }
  document.getElementById("previous").addEventListener("click", () => { first -= PER_PAGE; table(); });
  document.getElementById("next").addEventListener("click", () => { first += PER_PAGE; table(); });

  let waiting = 0;
  function changed() {
    first = 0;
    table();
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 120);
  }
  form.addEventListener("input", changed);
  form.addEventListener("reset", () => setTimeout(changed));
  form.addEventListener("submit", (event) => event.preventDefault());

  table();
  ready("table");
  for (const chart of page.charts) near.observe(placeOf(chart));
  if (!page.charts.length) ready("all");
})();
