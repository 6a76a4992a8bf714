"use strict";
// The curves of a report, to work with. Data: see gossip/report/page/build.py. All text of a run
// becomes text nodes and never markup.

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "var(--ink)"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3"]; // the next seven are dashed, ...
const FIRST = [
  ["train_loss"], ["test_error"], ["alpha_e_ratio", "alpha_e", "lr"], ["sigma_w2"],
  ["delta", "grad_var"], ["consensus_distance"],
];
const LINEAR = new Set(["alpha_e_ratio", "epoch", "seconds", "learners", "batch_size"]);
const HEIGHT = 300, LEFT = 62, RIGHT = 10, TOP = 8, BOTTOM = 34;

const data = JSON.parse(document.getElementById("data").textContent);
const hidden = new Set();
const figures = [];
let spread = false;

// ---- elements

function add(parent, name, attributes = {}, text = null) {
  const svg = ["svg", "g", "path", "line", "rect", "text", "circle", "clipPath", "title"];
  const made = svg.includes(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return parent.appendChild(made);
}

function checkbox(parent, text, checked, changed) {
  const label = add(parent, "label");
  const box = add(label, "input", { type: "checkbox" });
  box.checked = checked;
  box.addEventListener("change", () => changed(box.checked));
  if (text) label.append(text);
  return label;
}

const look = (i) => ({
  color: COLOURS[i % COLOURS.length],
  dash: DASHES[Math.floor(i / COLOURS.length) % DASHES.length],
});

function swatch(parent, { color, dash }) {
  const made = add(parent, "svg", { class: "swatch", viewBox: "0 0 20 4" });
  const style = `stroke:${color};stroke-dasharray:${dash || "none"}`;
  add(made, "line", { x1: 0, x2: 20, y1: 2, y2: 2, "stroke-width": 4, style });
}

const shown = (value) =>
  value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)
    ? value.toExponential(3).replace(/\.?0+e/, "e")
    : String(Number(value.toPrecision(5)));

// ---- series: what a figure draws

// What a column is called: an error says of what kind it is.
function called(column) {
  return data.names[column] ?? column;
}

function columns() {
  const names = new Set(data.runs.flatMap((run) => Object.keys(run.curves)));
  const parts = [...names].filter((name) => name.includes("/")).map((name) => name.split("/")[0]);
  return [...names].concat([...new Set(parts)].map((name) => `${name}/*`));
}

// A column of the runs that are shown; "lr/*" is every part of lr: its layers or its learners.
function series(column) {
  const found = [];
  data.runs.forEach((run, i) => {
    if (hidden.has(run.label)) return;
    const prefix = column.endsWith("/*") ? column.slice(0, -1) : null;
    for (const name of Object.keys(run.curves)) {
      if (prefix === null ? name !== column : !name.startsWith(prefix)) continue;
      const part = prefix === null ? "" : `: ${name.slice(prefix.length)}`;
      const { step, value } = run.curves[name];
      const drawn = look(prefix === null ? i : found.length);
      found.push({ run, name, label: run.label + part, ...drawn, step, value });
    }
  });
  return spread ? bySeed(found) : found;
}

// Runs that differ in the seed only, as one: their mean, and the least and the largest of them.
function bySeed(all) {
  const groups = new Map();
  for (const one of all) {
    const key = `${one.run.group} ${one.name}`;
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()].map((members) => {
    if (members.length === 1) return members[0];
    const steps = members[0].step.filter((step) => members.every((m) => inside(m, step)));
    const at = steps.map((step) => members.map((m) => interpolated(m, step)));
    const mean = at.map((values) => values.reduce((a, b) => a + b) / values.length);
    const label = `${members[0].run.group}, mean of ${members.length} seeds`;
    const low = at.map((values) => Math.min(...values));
    const high = at.map((values) => Math.max(...values));
    return { ...members[0], label, step: steps, value: mean, low, high };
  });
}

const inside = (one, step) => one.step[0] <= step && step <= one.step[one.step.length - 1];

function nearestBelow(sorted, x) {
  let low = 0, high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (sorted[middle] <= x) low = middle; else high = middle - 1;
  }
  return low;
}

function interpolated(one, step) {
  const i = nearestBelow(one.step, step);
  if (one.step[i] === step || i + 1 === one.step.length) return one.value[i];
  const share = (step - one.step[i]) / (one.step[i + 1] - one.step[i]);
  return one.value[i] + share * (one.value[i + 1] - one.value[i]);
}

// ---- scales

function scale(domain, range, log) {
  const f = log ? Math.log10 : (v) => v;
  const [a, b] = domain.map(f);
  const to = (v) => range[0] + ((f(v) - a) / (b - a)) * (range[1] - range[0]);
  const from = (p) => {
    const v = a + ((p - range[0]) / (range[1] - range[0])) * (b - a);
    return log ? 10 ** v : v;
  };
  return { to, from, ticks: log && b - a >= 0.7 ? decades(a, b) : round(domain) };
}

function decades(a, b) {
  const every = Math.ceil((b - a) / 6), within = b - a < 2 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let k = Math.floor(a); k <= b; k++) {
    if (k % every === 0) ticks.push(...within.map((m) => m * 10 ** k));
  }
  return ticks.filter((v) => a <= Math.log10(v) && Math.log10(v) <= b);
}

function round([low, high]) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((m) => m * power >= rough) * power;
  const first = Math.ceil(low / step);
  const ticks = Array.from({ length: 7 }, (_, k) => (first + k) * step);
  return ticks.filter((v) => v <= high + step / 1e6).map((v) => Number(v.toPrecision(12)));
}

// Whether an axis can show a range: numbers far enough apart to be told from one another.
function wide([low, high], log) {
  return high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high)) && (!log || low > 0);
}

function extent(values, log) {
  let low = Infinity, high = -Infinity;
  for (const v of values) {
    if (log && v <= 0) continue;
    if (v < low) low = v;
    if (v > high) high = v;
  }
  if (low > high) return null;
  if (!wide([low, high], false)) return log ? [low / 2, high * 2] : [low - (Math.abs(low) || 1), high + (Math.abs(high) || 1)];
  if (log) return [low / (high / low) ** 0.04, high * (high / low) ** 0.04];
  return [low - 0.04 * (high - low), high + 0.04 * (high - low)];
}

// ---- one figure

function logarithmic(column) {
  return !LINEAR.has(column) && data.runs.some((run) => run.curves[column]?.value.some((v) => v > 0));
}

class Figure {
  constructor(column) {
    this.column = column;
    this.log = { x: false, y: logarithmic(column) };
    this.view = null; // what was zoomed to: {x: [low, high], y: [low, high]}
    this.box = add(document.getElementById("figures"), "div", { class: "figure" });
    const bar = add(this.box, "div", { class: "bar" });
    this.select = add(bar, "select", { "aria-label": "column" });
    this.select.addEventListener("change", () => this.choose(this.select.value));
    checkbox(bar, "log x", this.log.x, (on) => this.relog("x", on));
    this.logY = checkbox(bar, "log y", this.log.y, (on) => this.relog("y", on)).firstChild;
    const csv = add(bar, "button", { type: "button" }, "CSV");
    csv.addEventListener("click", () => this.download());
    const all = add(bar, "button", { type: "button" }, "all");
    all.addEventListener("click", () => this.zoom(null));
    this.svg = add(this.box, "svg", { class: "plot", role: "img" });
    this.values = add(this.box, "div", { class: "values", hidden: "" });
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  choose(column) {
    this.column = column;
    this.logY.checked = this.log.y = logarithmic(column);
    this.zoom(null);
  }

  relog(axis, on) {
    this.log[axis] = on;
    this.zoom(null);
  }

  zoom(view) {
    if (view && !["x", "y"].every((axis) => !view[axis] || wide(view[axis], this.log[axis]))) return;
    this.view = view;
    this.draw();
  }

  // The points that the axes can show.
  visible() {
    return this.series.map((one) => {
      const kept = [];
      one.step.forEach((step, i) => {
        if ((!this.log.x || step > 0) && (!this.log.y || one.value[i] > 0)) kept.push(i);
      });
      return { ...one, kept };
    });
  }

  draw() {
    const width = Math.max(240, this.svg.clientWidth || 480);
    this.series = series(this.column);
    this.options();
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("height", HEIGHT);
    this.svg.setAttribute("aria-label", `${called(this.column)} over steps`);
    const drawn = this.visible();
    const xs = extent(drawn.flatMap((s) => s.kept.map((i) => s.step[i])), this.log.x);
    const ys = extent(drawn.flatMap((s) => s.kept.flatMap((i) => ends(s, i))), this.log.y);
    if (xs === null || ys === null) {
      this.x = null;
      const empty = this.series.length ? "nothing positive: switch log off" : "not recorded";
      add(this.svg, "text", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" }, empty);
      return;
    }
    this.x = scale(this.view?.x ?? xs, [LEFT, width - RIGHT], this.log.x);
    this.y = scale(this.view?.y ?? ys, [HEIGHT - BOTTOM, TOP], this.log.y);
    this.width = width;
    this.axes();
    this.paths(drawn);
  }

  options() {
    const names = columns();
    this.select.replaceChildren();
    for (const name of names.includes(this.column) ? names : [this.column, ...names]) {
      const option = add(this.select, "option", { value: name }, called(name));
      option.selected = name === this.column;
    }
  }

  axes() {
    const bottom = HEIGHT - BOTTOM, right = this.width - RIGHT;
    for (const tick of this.x.ticks) {
      const x = this.x.to(tick);
      add(this.svg, "line", { class: "grid", x1: x, x2: x, y1: TOP, y2: bottom });
      add(this.svg, "text", { x, y: bottom + 15, "text-anchor": "middle" }, shown(tick));
    }
    for (const tick of this.y.ticks) {
      const y = this.y.to(tick);
      add(this.svg, "line", { class: "grid", x1: LEFT, x2: right, y1: y, y2: y });
      add(this.svg, "text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, shown(tick));
    }
    const middle = (LEFT + right) / 2;
    add(this.svg, "text", { x: middle, y: HEIGHT - 4, "text-anchor": "middle" }, "step");
    const size = { x: LEFT, y: TOP, width: right - LEFT, height: bottom - TOP };
    add(this.svg, "rect", { class: "frame", ...size });
    const id = `clip${figures.indexOf(this)}`;
    add(add(this.svg, "clipPath", { id }), "rect", size);
    this.curves = add(this.svg, "g", { "clip-path": `url(#${id})` });
  }

  paths(drawn) {
    const point = (step, value) => `${this.x.to(step).toFixed(1)},${this.y.to(value).toFixed(1)}`;
    for (const one of drawn) {
      if (one.low) {
        const kept = one.kept.filter((i) => !this.log.y || one.low[i] > 0);
        const up = kept.map((i) => point(one.step[i], one.high[i]));
        const down = kept.map((i) => point(one.step[i], one.low[i])).reverse();
        const d = `M${[...up, ...down].join("L")}Z`;
        const style = `fill:${one.color}`;
        if (kept.length) add(this.curves, "path", { class: "band", d, style, opacity: 0.2 });
      }
      const points = one.kept.map((i) => point(one.step[i], one.value[i]));
      if (points.length === 1) points.push(points[0]);
      if (!points.length) continue;
      const style = `stroke:${one.color};stroke-dasharray:${one.dash || "none"}`;
      const ends = { "stroke-linecap": one.dash ? "butt" : "round" };
      add(this.curves, "path", { class: "curve", style, ...ends, d: `M${points.join("L")}` });
    }
  }

  // Values of all curves at the points nearest to the pointer.
  hover(px, py) {
    this.svg.querySelectorAll(".cursor").forEach((old) => old.remove());
    this.values.hidden = true;
    if (!this.x || px < LEFT || px > this.width - RIGHT) return;
    const wanted = this.x.from(px);
    const found = this.series.filter((one) => one.step.length).map((one) => {
      const i = nearestBelow(one.step, wanted);
      const next = one.step[i + 1] - wanted < wanted - one.step[i] ? i + 1 : i;
      return { one, i: next };
    });
    if (!found.length) return;
    const distance = ({ one, i }) => Math.abs(this.x.to(Math.max(one.step[i], 1e-9)) - px);
    const step = found.reduce((a, b) => (distance(b) < distance(a) ? b : a));
    const x = this.x.to(step.one.step[step.i]);
    add(this.svg, "line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM });
    this.values.replaceChildren();
    add(this.values, "div", {}, `step ${step.one.step[step.i]}`);
    for (const { one, i } of found) {
      const line = add(this.values, "div");
      swatch(line, one);
      add(line, "span", {}, one.label);
      const range = one.low ? ` (${shown(one.low[i])} to ${shown(one.high[i])})` : "";
      add(line, "span", {}, shown(one.value[i]) + range);
    }
    this.values.hidden = false;
    const left = x > this.width / 2 ? x - this.values.offsetWidth - 12 : x + 12;
    this.values.style.left = `${Math.max(0, left)}px`;
    this.values.style.top = `${this.svg.getBoundingClientRect().top - this.box.getBoundingClientRect().top + TOP + 6}px`;
  }

  listen() {
    let start = null, frame = null;
    const at = (event) => {
      const box = this.svg.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    this.svg.addEventListener("pointerdown", (event) => {
      if (!this.x || event.button) return;
      start = { at: at(event), moving: event.shiftKey, x: this.x, y: this.y };
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => {
      const [px, py] = at(event);
      if (start === null) return this.hover(px, py);
      const [x0, y0] = start.at;
      if (start.moving) return this.move(start, px - x0, py - y0);
      frame ??= add(this.svg, "rect", { class: "zoom" });
      const sizes = { x: Math.min(px, x0), y: Math.min(py, y0), width: Math.abs(px - x0), height: Math.abs(py - y0) };
      for (const [key, value] of Object.entries(sizes)) frame.setAttribute(key, value);
    });
    this.svg.addEventListener("pointerup", (event) => {
      const [px, py] = at(event);
      frame?.remove();
      const { at: [x0, y0], moving } = start ?? { at: [px, py] };
      start = frame = null;
      if (moving || Math.abs(px - x0) < 6 || !this.x) return;
      // A flat stroke is meant for x alone.
      const flat = Math.abs(py - y0) < 12;
      const y = flat ? this.view?.y : [Math.max(py, y0), Math.min(py, y0)].map(this.y.from);
      this.zoom({ x: [Math.min(px, x0), Math.max(px, x0)].map(this.x.from), y });
    });
    this.svg.addEventListener("pointercancel", () => { frame?.remove(); start = frame = null; });
    this.svg.addEventListener("pointerleave", () => start ?? this.hover(-1, -1));
    this.svg.addEventListener("dblclick", () => this.zoom(null));
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey || !this.x) return; // a page has to scroll
      event.preventDefault();
      const [px, py] = at(event), factor = event.deltaY > 0 ? 1.25 : 0.8;
      const around = (axis, p, a, b) => [p + (a - p) * factor, p + (b - p) * factor].map(axis.from);
      this.zoom({
        x: around(this.x, px, LEFT, this.width - RIGHT),
        y: around(this.y, py, HEIGHT - BOTTOM, TOP),
      });
    }, { passive: false });
  }

  move({ x, y }, dx, dy) {
    this.zoom({
      x: [LEFT - dx, this.width - RIGHT - dx].map(x.from),
      y: [HEIGHT - BOTTOM - dy, TOP - dy].map(y.from),
    });
  }

  csv() {
    const quoted = (text) => `"${text.replaceAll('"', '""')}"`;
    const lines = ["run,column,step,value,least,largest"];
    for (const one of this.series) {
      one.step.forEach((step, i) => {
        const range = one.low ? `${one.low[i]},${one.high[i]}` : ",";
        lines.push(`${quoted(one.label)},${quoted(one.name)},${step},${one.value[i]},${range}`);
      });
    }
    return lines.join("\n") + "\n";
  }

  download() {
    save(this.csv(), this.column);
  }
}

const ends = (one, i) => (one.low ? [one.low[i], one.value[i], one.high[i]] : [one.value[i]]);

function save(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = `${name.replaceAll(/[^\w-]+/g, "-")}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// ---- the page

function runsBar() {
  const bar = document.getElementById("runs");
  bar.replaceChildren();
  data.runs.forEach((run, i) => {
    const label = checkbox(bar, "", !hidden.has(run.label), (on) => {
      on ? hidden.delete(run.label) : hidden.add(run.label);
      redraw();
    });
    swatch(label, look(i));
    label.append(run.label);
  });
  if (new Set(data.runs.map((run) => run.group)).size < data.runs.length) {
    checkbox(bar, "spread over seeds", spread, (on) => { spread = on; redraw(); });
  }
}

function redraw() {
  for (const figure of figures) figure.draw();
}

function another(column) {
  const figure = new Figure(column);
  figures.push(figure);
  figure.draw();
}

// ---- runs that go on

function table() {
  const [head, body] = document.querySelectorAll("thead tr, tbody");
  head.replaceChildren();
  body.replaceChildren();
  for (const name of data.head) add(head, "th", {}, name);
  for (const row of data.rows) {
    const line = add(body, "tr");
    for (const text of row) add(line, "td", {}, text);
  }
}

async function refresh() {
  const said = document.getElementById("live");
  said.hidden = false;
  try {
    const answer = await fetch("data.json");
    if (!answer.ok) throw new Error(await answer.text());
    const before = data.runs.map((run) => run.label).join("\n");
    Object.assign(data, await answer.json());
    if (data.runs.map((run) => run.label).join("\n") !== before) runsBar();
    table();
    redraw();
    said.textContent = `as of ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    said.textContent = `no news: ${error.message}`;
  }
  setTimeout(refresh, 1000 * data.every);
}

function start() {
  document.getElementById("picture").open = false;
  document.getElementById("curves").hidden = false;
  runsBar();
  const names = columns();
  const first = FIRST.map((wanted) => wanted.find((name) => names.includes(name))).filter(Boolean);
  for (const name of first.length ? first : names.slice(0, 1)) another(name);
  document.getElementById("more").addEventListener("click", () => another(names[0]));
  for (const button of document.querySelectorAll("button[data-spectrum]")) {
    const { label, real, imaginary } = data.spectra[button.dataset.spectrum];
    const rows = real.map((value, k) => `${k + 1},${value},${imaginary[k]}\n`);
    button.hidden = false;
    button.addEventListener("click", () => save("k,real,imaginary\n" + rows.join(""), label));
  }
  if (data.every) setTimeout(refresh, 1000 * data.every);
}

start();
