// The page of `periplus run --monitor`. What a model, a tool or a file said is shown as text, and never as anything else.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const BARS_MAX = 120;
const BARS_LEAST = 24;
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const page = { steps: [], turns: new Map(), shown: "", focus: 0, version: -1, busy: false, again: false, over: false };
const $ = (id) => document.getElementById(id);

// -- small things ----------------------------------------------------------------------------------------------------

// Characters that cannot be seen, or that turn the order of others round, are named instead.
function plain(text) {
  return text.replace(HIDDEN, (one) => "⟦U+" + one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟧");
}

function el(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = plain(String(text));
  return made;
}

function drawn(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}

const count = (number) => number.toLocaleString("en");
const percent = (millionths) => (millionths === null || millionths === undefined ? "–" : (millionths / 1e4).toFixed(1) + " %");
const seconds = (ms) => (ms === null || ms === undefined ? "–" : (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + " s");
const price = (cost) => (cost === null || cost === undefined ? "price not known" : "$" + (cost / 1e6).toFixed(4));
const many = (number, word) => count(number) + " " + word + (number === 1 ? "" : "s");
const cut = (text, at) => { const all = Array.from(text); return [all.slice(0, at).join(""), all.slice(at).join("")]; };
const length = (text) => { let found = 0; for (const _ of text) found += 1; return found; };

function facts(list, pairs) {
  list.replaceChildren(...pairs.map(([name, value]) => {
    const pair = el("div");
    pair.append(el("dt", "", name), el("dd", "", value));
    return pair;
  }));
}

async function ask(path) {
  const answer = await fetch(path, { credentials: "omit", cache: "no-store" });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.problem);
  return told;
}

function complain(text) {
  $("problem").hidden = !text;
  $("problem").textContent = plain(text || "");
}

// -- the list of steps -----------------------------------------------------------------------------------------------

const keyOf = (turn, step) => turn + "." + step;

function turnItem(turn) {
  let held = page.turns.get(turn);
  if (held === undefined) {
    held = { item: el("li", "turn"), says: el("p"), list: el("ol", "steps") };
    held.item.append(held.says, held.list);
    page.turns.set(turn, held);
    $("turns").append(held.item);
  }
  return held;
}

function stepButton(turn, step) {
  const item = el("li");
  const button = el("button", "step");
  button.type = "button";
  button.tabIndex = -1;
  button.dataset.key = keyOf(turn, step);
  button.append(el("span", "what"), el("span", "cost"));
  item.append(button);
  turnItem(turn).list.append(item);
  return button;
}

function fillStep(button, row) {
  const calls = row.metrics;
  const [what, cost] = button.children;
  const names = (row.tools || []).join(", ");
  what.textContent = plain(calls.step + " · " + (names || row.says || "answered"));
  cost.replaceChildren(document.createTextNode(count(calls.fresh) + " fresh · " + count(calls.cached) + " cached · " + count(calls.output) + " out"));
  if (row.failed) cost.append(el("span", "failed", " · " + row.failed + " failed"));
}

function takeRows(told) {
  for (const [at, row] of told.steps.entries()) {
    const number = told.first + at;
    const key = keyOf(row.metrics.turn, row.metrics.step);
    let held = page.steps[number];
    if (held === undefined) {
      const waiting = document.querySelector(".step.waiting");
      if (waiting && waiting.dataset.key === key) waiting.classList.remove("waiting");
      const button = waiting && waiting.dataset.key === key ? waiting : stepButton(row.metrics.turn, row.metrics.step);
      held = page.steps[number] = { key, button };
    }
    held.row = row;
    fillStep(held.button, row);
  }
}

function takePending(told) {
  const waiting = document.querySelector(".step.waiting");
  const key = told.pending ? keyOf(...told.pending) : "";
  if (waiting && waiting.dataset.key !== key) waiting.parentElement.remove();
  if (!key || (waiting && waiting.dataset.key === key)) return;
  const button = stepButton(...told.pending);
  button.classList.add("waiting");
  button.children[0].textContent = told.pending[1] + " · " + (told.is_live ? "asked now" : "next");
  button.children[1].textContent = told.is_live ? "no answer yet" : "not answered";
}

function buttons() { return Array.from(document.querySelectorAll(".step")); }

function moveTo(button) {
  for (const one of document.querySelectorAll('.step[tabindex="0"]')) one.tabIndex = -1;
  button.tabIndex = 0;
}

$("turns").addEventListener("keydown", (event) => {
  const all = buttons();
  const at = all.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1, PageDown: at + 10, PageUp: at - 10 }[event.key];
  if (to === undefined || at < 0) return;
  event.preventDefault();
  const next = all[Math.max(0, Math.min(all.length - 1, to))];
  moveTo(next);
  next.focus();
  next.scrollIntoView({ block: "nearest" });
});

$("turns").addEventListener("click", (event) => {
  const button = event.target.closest(".step");
  if (!button) return;
  $("follow").checked = false;
  show(button.dataset.key, true);
});

// -- what stands above -----------------------------------------------------------------------------------------------

function takeOverview(told) {
  document.title = plain(told.session) + " · Periplus";
  $("title").textContent = plain(told.title || told.session);
  $("about").textContent = plain([told.session, told.model].filter(Boolean).join(" · "));
  const phases = { idle: "ready", ask: "the model is asked", act: "tools run", settle: "its answer is weighed" };
  const pill = $("state");
  pill.textContent = told.is_live ? phases[told.phase] || told.phase : told.phase === "idle" ? "from the store" : "not over";
  pill.classList.toggle("live", told.is_live);
  const sums = told.totals;
  const prompt = sums.fresh + sums.cached;
  facts($("totals"), [
    ["calls", count(sums.calls)], ["fresh", count(sums.fresh)], ["cached", count(sums.cached)],
    ["of the prompt cached", prompt ? Math.floor((100 * sums.cached) / prompt) + " %" : "–"], ["output", count(sums.output)],
    ["cost", told.cost], ["time of the model", seconds(sums.latency_ms)], ["retries", count(sums.retries)],
    ["prefix that survived", percent(told.survival)], ["folds", count(told.folds)],
  ]);
  for (const turn of told.turns) {
    const held = page.turns.get(turn.turn);
    if (held === undefined && !turn.steps && turn.reason) continue;
    const says = turnItem(turn.turn).says;
    says.replaceChildren(el("b", "", "Turn " + turn.turn + " "), document.createTextNode(plain(turn.request)));
    if (turn.reason && turn.reason !== "done") says.append(el("span", "failed", " · " + turn.reason));
    says.title = plain(turn.request);
  }
  complain(told.problem);
}

function drawChart() {
  const rows = page.steps.map((one) => one.row.metrics);
  $("chart").hidden = rows.length < 2;
  if (rows.length < 2) return;
  const size = Math.ceil(rows.length / BARS_MAX);
  const bins = [];
  for (let at = 0; at < rows.length; at += size) {
    const group = rows.slice(at, at + size);
    const mean = (name) => group.reduce((sum, one) => sum + one[name], 0) / group.length;
    const known = group.filter((one) => one.survival !== null).map((one) => one.survival);
    bins.push({ cached: mean("cached"), fresh: mean("fresh"), output: mean("output"),
                survival: known.length ? Math.min(...known) : null });
  }
  const most = Math.max(1, ...bins.map((bin) => bin.cached + bin.fresh + bin.output));
  const width = 10 * Math.max(BARS_LEAST, bins.length);
  const svg = drawn("svg", { viewBox: "0 0 " + width + " 130", preserveAspectRatio: "none", role: "img" });
  const last = rows[rows.length - 1];
  svg.setAttribute("aria-label", many(rows.length, "call") + ", at most " + count(Math.round(most)) + " tokens; the last: " + count(last.cached)
    + " cached, " + count(last.fresh) + " fresh, " + count(last.output) + " output, prefix survival " + percent(last.survival));
  svg.append(drawn("line", { x1: 0, y1: 120, x2: width, y2: 120, class: "axis" }));
  const line = [];
  bins.forEach((bin, at) => {
    let top = 120;
    for (const name of ["cached", "fresh", "output"]) {
      const high = (100 * bin[name]) / most;
      top -= high;
      svg.append(drawn("rect", { x: 10 * at + 1, y: top, width: 8, height: high, class: "bar-" + name }));
    }
    if (bin.survival !== null) line.push((10 * at + 5) + "," + (120 - (116 * bin.survival) / 1e6).toFixed(1));
  });
  if (line.length > 1) svg.append(drawn("polyline", { points: line.join(" "), class: "line-survival" }));
  $("plot").replaceChildren(svg);
  $("chart-title").textContent = "Tokens of each call" + (size > 1 ? ", the mean of " + size + " at a time" : "") + " (at most " + count(Math.round(most)) + ")";
}

// -- one step --------------------------------------------------------------------------------------------------------

function textBlock(text, left, kept, where) {
  const block = document.createDocumentFragment();
  const body = el("pre");
  body.tabIndex = 0;
  if (kept > 0) {
    const [before, after] = cut(text, kept);
    body.append(el("span", "kept-part", before), document.createTextNode(plain(after)));
  } else body.textContent = plain(text);
  block.append(body);
  if (left > 0) {
    const more = el("button", "more", "show more: " + many(left, "character") + " left");
    more.type = "button";
    let start = length(text);
    more.addEventListener("click", async () => {
      more.disabled = true;
      try {
        const part = await ask("api/part?" + new URLSearchParams({ ...where, start }));
        start += length(part.text);
        body.append(document.createTextNode(plain(part.text)));
        more.textContent = "show more: " + many(part.left, "character") + " left";
        if (part.left) more.disabled = false;
        else { more.remove(); body.focus(); }
      } catch (error) { more.textContent = plain(error.message); }
    });
    block.append(more);
  }
  return block;
}

function box(kind, head, ...blocks) {
  const made = el("section", "message " + kind);
  const line = el("div", "head");
  head.filter(Boolean).forEach((text, at) => line.append(el(at ? "span" : "b", "", text)));
  made.append(line, ...blocks);
  return made;
}

function callBlock(call, where) {
  const made = el("div", "call");
  const head = el("div", "head");
  head.append("calls ", el("b", "", call.name), " ", el("span", "note", call.id));
  made.append(head, textBlock(call.args, call.left, 0, where));
  return made;
}

function requestBlocks(told, at) {
  const found = [];
  let asked = 0;
  for (const one of told.messages) {
    const kept = one.kept === -1 ? "in the request before, word for word" : one.kept ? "the grey part stood in the request before" : told.first ? "" : "new";
    const head = [one.role, one.answers && "answers " + one.answers, one.outcome !== "ok" && one.outcome, kept];
    const blocks = [textBlock(one.text, one.left, one.kept, { ...at, what: "message", place: one.place })];
    for (const image of one.images) blocks.push(el("p", "note", "a picture: " + image));
    if (one.reasoning) blocks.push(el("p", "note", many(one.reasoning, "block") + " of reasoning, as the provider gave them"));
    for (const call of one.calls) blocks.push(callBlock(call, { ...at, what: "asked", place: asked++ }));
    found.push(box(one.kept === -1 ? "kept" : "", head, ...blocks));
  }
  return found;
}

function toolsBlock(told) {
  if (told.tools === null) return el("p", "note", "Which tools it was told of was not noted by the version that ran this session.");
  const made = el("details");
  made.append(el("summary", "", many(told.tools.length, "tool") + (told.tools_kept ? "" : ", not as in the request before")));
  for (const tool of told.tools) made.append(box(told.tools_kept && !told.first ? "kept" : "", [tool.name], textBlock(tool.description + "\n\n" + tool.parameters, 0, 0)));
  return made;
}

function outcomeBlock(one, at, place) {
  const [bad, state] = [one.outcome && one.outcome !== "ok", one.outcome || "no outcome yet"];
  const head = [one.call.name, state, one.outcome && seconds(one.duration_ms), one.decided && "the person said " + one.decided, one.handle];
  const blocks = [textBlock(one.call.args, one.call.left, 0, { ...at, what: "args", place })];
  if (one.outcome) blocks.push(textBlock(one.text, one.left, 0, { ...at, what: "output", place }));
  if (one.effects.length) blocks.push(el("p", "note", "changed " + one.effects.join(", ")));
  return box("output" + (bad ? " bad" : ""), head, ...blocks);
}

function metricsBlock(metrics) {
  const list = el("dl");
  facts(list, [
    ["fresh", count(metrics.fresh)], ["cached", count(metrics.cached)], ["output", count(metrics.output)], ["cost", price(metrics.cost)],
    ["time", seconds(metrics.latency_ms)], ["to the first token", seconds(metrics.first_token_ms)], ["retries", count(metrics.retries)],
    ["prefix survival", percent(metrics.survival) + (metrics.fold ? " (a fold)" : "")], ["bytes sent", count(metrics.request_bytes)],
    ["ended", metrics.finish_reason],
  ]);
  return list;
}

function stepBlocks(told) {
  const at = { turn: told.turn, step: told.step };
  told.first = told.messages.every((one) => one.kept === 0);
  const found = [];
  if (told.metrics) found.push(metricsBlock(told.metrics));
  if (told.as_sent === false) found.push(el("p", "warning", "A hook changed this request on its way, or it was made by another version: it is shown as the tape gave it."));
  const kept = told.messages.filter((one) => one.kept === -1).length;
  found.push(el("h3", "", "What the model saw"));
  found.push(el("p", "note", told.first ? "The first request: everything in it is new." : count(kept) + " of " + many(told.messages.length, "message") + " stood in the request before, and are grey."));
  found.push(toolsBlock(told));
  const blocks = requestBlocks(told, at);
  if (kept > 3) {
    const old = el("details");
    old.append(el("summary", "", "the " + count(kept) + " messages from before"), ...blocks.splice(0, kept));
    found.push(old);
  }
  found.push(...blocks);
  found.push(el("h3", "", told.metrics ? "Its answer" : "No answer yet"));
  if (told.metrics) {
    const blocks = [told.answer ? textBlock(told.answer, told.answer_left, 0, { ...at, what: "answer", place: 0 }) : el("p", "note", "no text")];
    if (told.reasoning) blocks.push(el("p", "note", many(told.reasoning, "block") + " of reasoning"));
    found.push(box("output", ["assistant", told.metrics.model], ...blocks));
  } else {
    const growing = box("output", ["assistant", "as it comes"], el("pre", "growing", page.growing));
    growing.hidden = !page.growing;
    found.push(growing);
  }
  if (told.outcomes.length) found.push(el("h3", "", "Its calls, and what became of them"), ...told.outcomes.map((one, place) => outcomeBlock(one, at, place)));
  for (const one of told.then) found.push(box("output", [one.what], ...(one.text ? [textBlock(one.text, 0, 0)] : [])));
  return found;
}

async function show(key, focus) {
  page.shown = key;
  for (const one of document.querySelectorAll('.step[aria-current="true"]')) one.removeAttribute("aria-current");
  const button = document.querySelector('.step[data-key="' + key + '"]');
  if (button) {
    button.setAttribute("aria-current", "true");
    moveTo(button);
    if (!focus) button.scrollIntoView({ block: "nearest" });
  }
  const [turn, step] = key.split(".");
  try {
    const told = await ask("api/step?" + new URLSearchParams({ turn, step }));
    const text = JSON.stringify(told);
    if (page.shown !== key || (page.text === text && document.body.dataset.shown === key)) return;
    page.told = told;
    page.text = text;
    $("step-title").textContent = "Turn " + turn + ", step " + step;
    $("step").replaceChildren(...stepBlocks(told));
    document.body.dataset.shown = key;
  } catch (error) {
    if (page.shown === key) $("step").replaceChildren(el("p", "problem", error.message));
  }
}

function isOpen(told) {
  return !told || !told.metrics || told.outcomes.some((one) => !one.outcome);
}

// -- what is new -----------------------------------------------------------------------------------------------------

async function refresh() {
  if (page.busy) { page.again = true; return; }
  page.busy = true;
  try {
    let told;
    do {
      told = await ask("api/session?first=" + Math.max(0, page.steps.length - 1));
      page.growing = told.growing;
      takeRows(told);
    } while (told.left > 0);
    takePending(told);
    takeOverview(told);
    drawChart();
    const all = buttons();
    const newest = all[all.length - 1];
    if (newest && !all.some((one) => one.tabIndex === 0)) moveTo(newest);
    if (newest && (!page.shown || $("follow").checked) && page.shown !== newest.dataset.key) await show(newest.dataset.key, false);
    else if (page.shown && page.told && isOpen(page.told)) {
      const growing = document.querySelector(".growing");
      const isSame = growing && told.pending && keyOf(...told.pending) === page.shown;
      if (isSame) { growing.textContent = plain(page.growing); growing.parentElement.hidden = !page.growing; }
      else await show(page.shown, true);
    } else if (page.shown && page.shown === page.steps.at(-1)?.key && told.version !== page.version) await show(page.shown, true);
    page.version = told.version;
    document.body.dataset.steps = page.steps.length;
  } catch (error) {
    if (!page.over) complain(error.message);
  } finally {
    page.busy = false;
    if (page.again) { page.again = false; refresh(); }
  }
}

function watch() {
  const events = new EventSource("events");
  events.addEventListener("open", () => { page.over = false; });
  events.addEventListener("change", refresh);
  events.addEventListener("error", () => {
    page.over = true;
    $("state").textContent = "the program has ended";
    $("state").classList.remove("live");
  });
}

(async () => {
  await refresh();
  const live = $("state").classList.contains("live");
  $("follow").checked = live;
  watch();
})();
