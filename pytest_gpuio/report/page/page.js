"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const PER_PAGE = 100;
  const KEYS = ["phase", "workload", "medium", "path"];
  const form = document.getElementById("filters");
  const root = document.documentElement;
  const views = new Map();
  const numbers = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
  let sort = { key: "gbs", down: true };
  let first = 0;
  let shown = [];

  // ---- theme: the system's unless chosen here
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const setTheme = (dark) => { root.dataset.theme = dark ? "dark" : "light"; };
  setTheme(system.matches);

  function config() {
    const style = getComputedStyle(root);
    const ink = style.getPropertyValue("--ink").trim();
    const line = style.getPropertyValue("--line").trim();
    return {
      background: "transparent",
      view: { stroke: line },
      axis: { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line },
      legend: { labelColor: ink, titleColor: ink, labelLimit: 260 },
      header: { labelColor: ink, titleColor: ink },
      title: { color: ink },
    };
  }

  // ---- filters
  for (const key of KEYS) {
    const values = [...new Set(page.cells.map((row) => row[key]))].sort();
    form.elements[key].replaceChildren(new Option("all", ""), ...values.map((value) => new Option(value, value)));
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

  // ---- charts: each draws a named dataset
  // and only once somebody can see it: a page of many charts opens as fast as one of two.
  const near = new IntersectionObserver(async (seen) => {
    for (const { isIntersecting, target } of seen) {
      const chart = isIntersecting && page.charts.find((one) => `chart-${one.name}` === target.id);
      if (!chart || views.has(chart.name)) continue;
      views.set(chart.name, null);
      await embed(chart, target);
    }
    root.dataset.ready = "charts";
  }, { rootMargin: "200px" });
  async function embed(chart, place) {
    const spec = { $schema: page.schema, ...chart.spec, data: { name: "rows" }, datasets: { rows: page[chart.dataset].filter(passes) } };
    const result = await window.vegaEmbed(place, spec, { actions: { export: true, source: false, compiled: false, editor: false }, config: config() });
    views.get(chart.name)?.finalize();
    views.set(chart.name, result.view);
  }
  async function redraw() {
    for (const chart of page.charts) if (views.has(chart.name)) await embed(chart, document.getElementById(`chart-${chart.name}`));
  }
  async function drawAll() {
    for (const chart of page.charts) if (!views.has(chart.name)) await embed(chart, document.getElementById(`chart-${chart.name}`));
  }
  window.addEventListener("beforeprint", drawAll);
  async function refresh() {
    for (const chart of page.charts) {
      const view = views.get(chart.name);
      if (view) await view.data("rows", page[chart.dataset].filter(passes)).resize().runAsync();
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
  document.getElementById("theme").addEventListener("click", () => { setTheme(root.dataset.theme !== "dark"); redraw(); });
  system.addEventListener("change", (event) => { setTheme(event.matches); redraw(); });

  table();
  root.dataset.ready = "table";
  for (const chart of page.charts) near.observe(document.getElementById(`chart-${chart.name}`));
  if (!page.charts.length) root.dataset.ready = "charts";
})();
