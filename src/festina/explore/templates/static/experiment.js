"use strict";
// An experiment: the form is checked by the server, and a run is started and watched over one WebSocket.
const all = (query, within = document) => [...within.querySelectorAll(query)], one = (query) => document.querySelector(query);
const name = one(".experiment").dataset.experiment, form = one(".parameters"), inputs = all("[name]", form);
const starts = JSON.parse(one(".starts").textContent), usable = Boolean(one(".run").dataset.usable);
const valueOf = (input) => input.type === "checkbox" ? input.checked : input.value;
const values = () => Object.fromEntries(inputs.map((input) => [input.name, valueOf(input)]));
const say = (place, words) => { if (place.textContent !== words) place.textContent = words; if (place.classList.contains("problem")) place.hidden = !words; };

// One message about values is on its way at a time.
let socket = null, number = 0, waiting = false, again = false, valid = false, run = null, shown = "";
const send = (message) => socket && socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message));
function check() {
  address();
  if (waiting) { again = true; return; }
  waiting = send({kind: "check", n: ++number, values: values()}) !== false;
}
// The address holds the values that are not the defaults, so it can be sent to others and loaded again.
function address() {
  const changed = Object.entries(values()).filter(([key, value]) => value !== starts.defaults[key]);
  history.replaceState(null, "", changed.length ? `?${new URLSearchParams(changed)}` : location.pathname);
}
function connect() {
  socket = new WebSocket(`ws://${location.host}/live-run?experiment=${encodeURIComponent(name)}`);
  socket.onopen = () => { waiting = false; say(one(".state"), ""); check(); };
  socket.onmessage = (event) => receive(JSON.parse(event.data));
  socket.onclose = () => { valid = false; run = null; state(); say(one(".state"), "The explorer has stopped. Start it again with `festina explore`; this page then continues."); setTimeout(connect, 2000); };
}
function receive(message) {
  if (message.kind === "checked") {
    waiting = false;
    valid = !Object.keys(message.problems).length;
    for (const input of inputs) {
      const words = message.problems[input.name] ?? "";
      say(one(`[data-problem="${input.name}"]`), words);
      if (words) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid");
    }
    say(one(".several"), message.problems[""] ?? "");
    const count = Object.keys(message.problems).length;
    say(one(".invalid"), count ? "The experiment cannot be run with these values: the form says why." : "");
    say(one(".shell"), message.shell);
    say(one(".python"), message.python);
    if (again) { again = false; check(); }
    state();
  } else if (message.kind === "error") say(one(".failed"), message.words);
  else if (message.kind === "run") { run = message; follow(); }
}
const under_way = () => run && (run.state === "waiting" || run.state === "running");
function state() {
  one(".run").disabled = !usable || !valid || Boolean(under_way());
  one(".cancel").hidden = !under_way();
}
let clock = 0;
function follow() {
  state();
  const bar = one(".progress"), words = {waiting: `Waiting: place ${run.place} in the queue.`, running: "", done: `Done in ${run.seconds} s.`, failed: "", cancelled: run.words}[run.state];
  bar.hidden = run.state !== "running";
  bar.querySelector("progress").value = run.fraction;
  bar.querySelector("output").value = `${Math.round(100 * run.fraction)} % ${run.words} · ${Math.round(run.seconds)} s`;
  say(one(".state"), words);
  say(one(".failed"), run.state === "failed" ? run.words : "");
  one(".keeps").checked = run.keep;
  clearInterval(clock);
  if (run.state === "running") clock = setInterval(() => { run.seconds += 1; bar.querySelector("output").value = `${Math.round(100 * run.fraction)} % ${run.words} · ${Math.round(run.seconds)} s`; }, 1000);
  if (run.state === "done" && run.run !== shown) show(run.run, run.shell);
}

// The section of the report, with the style of reports, apart from the style of this page.
async function show(path, shell) {
  shown = path;
  const query = `run=${encodeURIComponent(path)}`, answer = await fetch(`/section?${query}`), text = await answer.text();
  const host = document.createElement("div"), root = host.attachShadow({mode: "open"});
  if (answer.ok) root.innerHTML = text; else root.textContent = text;
  for (const button of all("button.enlarge", root)) button.remove();
  for (const button of all("button.copy", root)) button.onclick = () => copied(button, button.closest("h4").nextElementSibling.textContent);
  for (const link of all('a[href^="#"]', root)) link.href = `/report?${query}${link.getAttribute("href")}`;
  const style = document.createElement("link");
  style.rel = "stylesheet"; style.href = "/report.css";
  root.prepend(style);
  one(".section").replaceChildren(host);
  one(".full a").href = `/report?${query}`;
  one(".result").hidden = false;
  const sample = one(".sample");
  if (sample) sample.hidden = true;
}

// Controls.
form.oninput = check;
form.onsubmit = (event) => event.preventDefault();
for (const button of all("[data-start]", form)) button.onclick = () => {
  for (const input of inputs) { const value = starts[button.dataset.start][input.name]; if (input.type === "checkbox") input.checked = value; else input.value = value; }
  check();
};
one(".run").onclick = () => { say(one(".failed"), ""); send({kind: "run", n: ++number, values: values(), keep: one(".keeps").checked}); };
one(".cancel").onclick = () => send({kind: "cancel"});
one(".keeps").onchange = (event) => send({kind: "keep", keep: event.target.checked});
const copied = (button, text) => navigator.clipboard.writeText(text).then(() => { button.textContent = "copied"; setTimeout(() => { button.textContent = "copy"; }, 1200); });
for (const button of all(".copy")) button.onclick = () => copied(button, button.nextElementSibling.textContent);
connect();
