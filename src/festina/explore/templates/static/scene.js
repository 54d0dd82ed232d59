"use strict";
// One scene: knobs are sent to the server; theory and training come back as arrays and fill the plots.
const all = (query, within = document) => [...within.querySelectorAll(query)], one = (query) => document.querySelector(query);
const scene = one(".scene"), form = one(".knobs"), clock = one(".clock"), play = one(".play");
const ranges = all('input[type="range"]', form), documents = [], views = [];
window.painted = [];  // times for benchmarks: what was painted, and how long after the knob moved

// Numbers are shown with few digits; a logarithmic slider holds the power of ten.
const digits = (value) => Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-2) ? value.toExponential(1).replace("e+", "e") : String(+value.toPrecision(3));
// A link or a lecture may give a value between two positions of the slider: it holds until the slider moves.
const valueOf = (input) => input.type === "checkbox" ? input.checked : input.type !== "range" ? input.value
  : input.dataset.exact !== undefined ? +input.dataset.exact : input.dataset.log === undefined ? +input.value : +(10 ** +input.value).toPrecision(3);
const knobs = () => Object.fromEntries(all("[name]", form).map((input) => [input.name, valueOf(input)]));
const label = (input) => { const text = digits(valueOf(input)); input.previousElementSibling.value = text; input.setAttribute("aria-valuetext", text); };

// One message is on its way at a time: positions in between are skipped.
let number = 0, asked = 0, waiting = false, again = false, socket = null;
function ask() {
  if (!socket || socket.readyState !== WebSocket.OPEN) return;
  if (waiting) { again = true; return; }
  waiting = true;
  number += 1;
  socket.send(JSON.stringify({n: number, knobs: knobs()}));
  history.replaceState(null, "", "?" + new URLSearchParams(knobs()));
}
function connect() {
  socket = new WebSocket(`ws://${location.host}/live/${scene.dataset.scene}`);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => { waiting = false; ask(); };
  socket.onmessage = (event) => receive(event.data);
  socket.onclose = () => { say("status", "The explorer has stopped. Start it again with `festina explore`; this page then continues."); setTimeout(connect, 2000); };
}
const say = (where, words) => { const place = one(`.${where}`); if (place.textContent !== words) place.textContent = words; };

// A message: length of the JSON, JSON, arrays in single precision.
let frames = {}, times = {};  // what changes with training time, by source and by seed
function receive(data) {
  const length = new DataView(data).getUint32(0, true), head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  let at = 4 + length;
  const arrays = head.arrays.map(([source, column, shape]) => {
    const values = new Float32Array(data, at, shape.reduce((a, b) => a * b, 1));
    at += 4 * values.length;
    return {source, column, shape, values};
  });
  if (head.kind === "theory" || head.kind === "error") { waiting = false; if (again) { again = false; ask(); } }
  if (head.n !== number && !(head.kind === "theory")) return;
  if (head.kind === "theory") {
    for (const name of ["notice", "python", "shell"]) say(name, head[name]);
    const experiment = /^festina run (\S+)/.exec(head.shell), link = one(".experiment");
    link.hidden = !experiment;
    if (experiment) link.href = `/experiment/${experiment[1]}`;
    say("agreement", ""); say("status", "training …");
    frames = {}; times = {};
    for (const [name, source] of sources) if (!name.endsWith(".theory")) empty(source);
    fill(arrays, "theory");
  } else if (head.kind === "training") fill(arrays, head.seed);
  else if (head.kind === "trained") { say("agreement", head.words); say("status", ""); }
  else if (head.kind === "status") say("status", head.words);
  else if (head.kind === "error") { say("status", ""); complain(head.words); }
  const started = asked, kind = head.kind + (head.seed ?? "");
  requestAnimationFrame(() => setTimeout(() => window.painted.push([kind, performance.now() - started])));
}
const complain = (words) => { const place = one(".problem"); place.textContent = words; place.hidden = !words; };

// Sources of the plots, by name; a name may stand in several plots.
const sources = [];
const empty = (source) => { source.data = Object.fromEntries(Object.keys(source.data).map((column) => [column, column === "column" || column === "row" ? source.data[column] : []])); };
const named = (name) => sources.filter(([each]) => each === name).map(([, source]) => source);
function fill(arrays, seed) {
  const columns = {};
  for (const {source, column, shape, values} of arrays) {
    if (source === "times") times[seed] = values;
    else if (shape.length === 1) (columns[`${source}.${seed}`] ??= {})[column] = values;
    else (frames[`${source}.${seed}`] ??= {})[column] = {values, shape, seed};
  }
  for (const [name, data] of Object.entries(columns)) for (const source of named(name)) source.data = {...source.data, ...data};
  show();
}

// Play through training time: the clock runs from the first to the last frame.
function show() {
  const part = +clock.value / 1000, longest = Math.max(0, ...Object.values(times).map((each) => each.at(-1)));
  const now = part * longest;
  for (const [name, columns] of Object.entries(frames)) {
    const data = {};
    for (const [column, {values, shape, seed}] of Object.entries(columns)) {
      const grid = times[seed];
      let k = grid.findLastIndex((each) => each <= now * (1 + 1e-6));
      k = Math.max(k, 0);
      const width = values.length / shape[0];
      data[column] = values.subarray(k * width, (k + 1) * width);
    }
    for (const source of named(name)) source.data = {...source.data, ...data};
  }
  const still = longest === 0;
  one(".player").hidden = still;
  one(".now").value = still ? "" : `${clock.dataset.name} = ${digits(now)}`;
  for (const each of documents) { const line = each.get_model_by_name("now"); if (line) { line.location = now; line.visible = part < 1; } }
}
const LENGTH = 6000;  // milliseconds of the whole training
let started = 0;
function tick(time) {
  if (play.getAttribute("aria-pressed") !== "true") return;
  clock.value = Math.min(1000, 1000 * (time - started) / LENGTH);
  show();
  if (+clock.value >= 1000) playing(false); else requestAnimationFrame(tick);
}
function playing(on) {
  play.setAttribute("aria-pressed", on);
  play.textContent = on ? "❚❚" : "▶";
  play.setAttribute("aria-label", on ? "Pause" : "Play through training");
  if (on) { started = performance.now() - (+clock.value >= 1000 ? 0 : +clock.value / 1000 * LENGTH); requestAnimationFrame(tick); }
}
play.onclick = () => playing(play.getAttribute("aria-pressed") !== "true");
clock.oninput = () => { playing(false); show(); };

// Controls.
form.oninput = (event) => { delete event.target.dataset.exact; if (event.target.type === "range") label(event.target); asked = performance.now(); complain(""); ask(); };
form.onsubmit = (event) => event.preventDefault();
one(".defaults").onclick = (event) => { event.preventDefault(); location.search = ""; };
const copied = (button, text) => navigator.clipboard.writeText(text).then(() => { const words = button.textContent; button.textContent = "copied"; setTimeout(() => { button.textContent = words; }, 1200); });
one(".link").onclick = (event) => copied(event.target, location.href);
for (const button of all(".copy")) button.onclick = () => copied(button, button.nextElementSibling.textContent);

// Lecture mode: full screen, large text. Up and down select a knob, left and right move it.
const large = one(".large"), fields = all("[name]", form);
let selected = 0;
fields.forEach((field, k) => { field.onfocus = () => { selected = k; }; });
function lecture(on) {
  large.setAttribute("aria-pressed", on);
  document.body.classList.toggle("lecture", on);
  if (on) document.documentElement.requestFullscreen?.().catch(() => {}); else if (document.fullscreenElement) document.exitFullscreen();
  if (on) fields[selected].focus();
  scale();
}
large.onclick = () => lecture(large.getAttribute("aria-pressed") !== "true");
function select(by) { selected = (selected + by + fields.length) % fields.length; fields[selected].focus(); }
const step = (rel) => one(`a[rel="${rel}"][href]`);
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const on = document.body.classList.contains("lecture"), field = event.target.closest("[name]");
  const moves = {Escape: () => on && lecture(false)};
  for (const [key, link] of [["PageDown", step("next")], ["PageUp", step("prev")]]) if (link) moves[key] = () => { location.href = link.href; };
  if (on && field?.tagName !== "SELECT") Object.assign(moves, {ArrowUp: () => select(-1), ArrowDown: () => select(1)});
  if (on && !field) Object.assign(moves, {ArrowLeft: () => fields[selected].focus(), ArrowRight: () => fields[selected].focus()});
  if (!event.target.closest("button, select, input[type=checkbox], summary")) moves[" "] = () => play.click();
  if (!moves[event.key] || event.target === clock && event.key.startsWith("Arrow")) return;
  if (event.key !== "Escape") event.preventDefault();
  moves[event.key]();
});

// Download a plot as a picture, or its numbers as a table.
function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${scene.dataset.scene}-${name}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function table(plot) {
  const columns = [];
  for (const [name, source, where] of sources) if (where === plot) for (const [column, values] of Object.entries(source.data)) if (values.length) columns.push([`${name}.${column}`, values]);
  const rows = Math.max(0, ...columns.map(([, values]) => values.length));
  const lines = [columns.map(([name]) => name).join(",")];
  for (let k = 0; k < rows; k++) lines.push(columns.map(([, values]) => values[k] ?? "").join(","));
  return new Blob([lines.join("\n") + "\n"], {type: "text/csv"});
}
for (const button of all("[data-save]")) button.onclick = async () => {
  const plot = all(".plot").indexOf(button.closest(".plot")), kind = button.dataset.save;
  const blob = kind === "csv" ? table(plot) : await views[plot].export(kind).to_blob();
  download(blob, `${plot + 1}.${kind}`);
};

// Text of the plots is as large as the text of the page.
function scale() {
  const size = parseFloat(getComputedStyle(document.body).fontSize), px = (part) => `${Math.round(size * part)}px`;
  for (const view of views) {
    const plot = view.model;
    plot.title.text_font_size = px(.95);
    for (const axis of [...plot.below, ...plot.left]) if (axis.axis_label !== undefined) { axis.axis_label_text_font_size = px(.88); axis.major_label_text_font_size = px(.82); }
    for (const legend of plot.center) if (legend.label_text_font_size) legend.label_text_font_size = px(.8);
  }
}
async function start() {
  Bokeh.set_log_level("error");  // empty plots are expected until the first numbers arrive
  for (const [k, place] of all(".plot").entries()) {
    const item = JSON.parse(place.querySelector("script").textContent), target = place.querySelector(".drawn");
    const manager = await Bokeh.embed.embed_item(item, target.id);
    const view = [...manager][0] ?? manager.roots?.[0] ?? Object.values(manager)[0];
    views.push(view);
    documents.push(view.model.document);
    for (const model of view.model.document._all_models.values()) if (model.type === "ColumnDataSource" && model.name) sources.push([model.name, model, k]);
    target.setAttribute("aria-label", view.model.title.text);
  }
  scale();
  addEventListener("resize", scale);
  ranges.forEach(label);
  asked = performance.now();
  connect();
}
start();
