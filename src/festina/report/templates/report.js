"use strict";
const page = document.documentElement, all = (query, within = document) => [...within.querySelectorAll(query)];

// Light or dark, as the system prefers until the reader chooses.
const kept = {get: () => { try { return localStorage.theme } catch { return null } }, set: (value) => { try { localStorage.theme = value } catch { /* a page from disk may not store */ } }};
page.dataset.theme = kept.get() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
document.querySelector(".theme").onclick = () => kept.set(page.dataset.theme = page.dataset.theme === "dark" ? "light" : "dark");
for (const figure of all("figure")) figure.classList.toggle("plain", !figure.querySelector("image, img"));

// Filter by verdict, source and words.
const search = document.querySelector(".search"), shown = document.querySelector(".shown");
const pressed = (kind) => new Set(all(`button[data-${kind}][aria-pressed="true"]`).map((each) => each.dataset[kind]));
const rows = all("tr[id]").map((row) => ({row, words: `${row.closest("article").dataset.label} ${row.textContent}`.toLowerCase()}));
function filter() {
  const verdicts = pressed("verdict"), groups = pressed("group"), several = all("button[data-group]").length > 0;
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const everything = verdicts.size === all("button[data-verdict]").length && !words.length;
  let count = 0;
  for (const {row, words: text} of rows) {
    row.hidden = !verdicts.has(row.dataset.verdict) || !words.every((word) => text.includes(word));
    count += !row.hidden && (!several || groups.has(row.closest(".group").dataset.group));
  }
  for (const group of all(".group")) {
    group.hidden = several && !groups.has(group.dataset.group);
    for (const article of all("article", group)) {
      const failed = article.querySelector(".problem") && verdicts.has("problem") && !words.length;
      article.hidden = !everything && !failed && !article.querySelector("tr[id]:not([hidden])");
    }
  }
  shown.value = `${count} of ${rows.length} claims`;
}
search.oninput = filter;
for (const button of all(".chips button")) button.onclick = () => {
  button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "false");
  if (button.dataset.hides) document.body.classList.toggle(`hides-${button.dataset.hides}`);
  filter();
};

// A link to a claim shows it although a filter hides it.
function visit() {
  let name = location.hash.slice(1);
  try { name = decodeURIComponent(name); } catch { /* a % that encodes nothing */ }
  const target = document.getElementById(name);
  all(".here").forEach((each) => each.classList.remove("here"));
  if (!target) return;
  if (target.closest("[hidden]")) {
    search.value = "";
    all("button[data-verdict], button[data-group]").forEach((each) => each.setAttribute("aria-pressed", true));
    filter();
  }
  target.classList.add("here");
  let frames = 10;  // sections are laid out when they come near the screen, and change their height
  const settle = () => { target.scrollIntoView(); if (frames--) requestAnimationFrame(settle); };
  settle();
}
addEventListener("hashchange", visit);
addEventListener("load", visit);

// The values below the pointer; `data-axes` holds the box and the limits of each axes.
const number = (value) => value === 0 ? "0" : Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3 ? value.toExponential(2) : value.toPrecision(4);
function values(svg, event) {
  const {x, y} = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  for (const axes of all("[data-axes]", svg)) {
    const {box, scales, limits} = JSON.parse(axes.dataset.axes), [left, top, right, low] = box;
    if (x < left || x > right || y < top || y > low) continue;
    const found = [(x - left) / (right - left), (low - y) / (low - top)].map((share, axis) => {
      const log = scales[axis] === "log", [from, to] = limits[axis].map((limit) => log ? Math.log10(limit) : limit);
      const value = from + share * (to - from);
      return number(log ? 10 ** value : value);
    });
    return `x ${found[0]}, y ${found[1]}`;
  }
  return "";
}
for (const figure of all("figure")) {
  const svg = figure.querySelector("svg"), caption = figure.querySelector("output");
  if (svg) svg.onpointermove = (event) => {
    caption.value = values(svg, event);
  };
  figure.onpointerleave = () => { caption.value = ""; };
  figure.querySelector(".enlarge").onclick = () => enlarge(svg || figure.querySelector("img"));
}

// An enlarged figure: the wheel and the buttons zoom, dragging moves.
const zoom = document.querySelector("dialog"), sheet = zoom.querySelector(".sheet");
let box, whole;
const look = (svg) => svg && svg.setAttribute("viewBox", box.join(" "));
function scale(svg, factor, [x, y] = [box[0] + box[2] / 2, box[1] + box[3] / 2]) {
  factor = Math.min(factor, whole[2] / box[2]);
  box = [x - (x - box[0]) * factor, y - (y - box[1]) * factor, box[2] * factor, box[3] * factor];
  look(svg);
}
function enlarge(figure) {
  const copy = figure.cloneNode(true);
  sheet.replaceChildren(copy);
  zoom.showModal();
  if (copy.tagName !== "svg") return;
  box = whole = copy.getAttribute("viewBox").split(/[\s,]+/).map(Number);
  const place = (event) => { const {x, y} = new DOMPoint(event.clientX, event.clientY).matrixTransform(copy.getScreenCTM().inverse()); return [x, y]; };
  copy.onwheel = (event) => { event.preventDefault(); scale(copy, event.deltaY > 0 ? 1.2 : 1 / 1.2, place(event)); };
  let from = null;
  copy.onpointerdown = (event) => { from = place(event); copy.setPointerCapture(event.pointerId); };
  copy.onpointerup = () => { from = null; };
  copy.onpointermove = (event) => {
    zoom.querySelector("output").value = values(copy, event);
    if (!from) return;
    const [x, y] = place(event);
    box = [box[0] + from[0] - x, box[1] + from[1] - y, box[2], box[3]];
    look(copy);
  };
}
for (const button of all("[data-zoom]", zoom)) button.onclick = () => {
  const svg = sheet.querySelector("svg"), how = button.dataset.zoom;
  if (how === "close") return zoom.close();
  if (!svg) return;
  if (how === "all") { box = whole; look(svg); } else scale(svg, how === "in" ? 1 / 1.4 : 1.4);
};

// A button copies the text below its heading.
for (const button of all("button.copy")) button.onclick = async () => {
  const text = button.closest("h4").nextElementSibling;
  getSelection().selectAllChildren(text);
  try { await navigator.clipboard.writeText(text.textContent); button.textContent = "copied"; } catch { button.textContent = "press Ctrl-C"; }
  setTimeout(() => { button.textContent = "copy"; }, 2000);
};
filter();
