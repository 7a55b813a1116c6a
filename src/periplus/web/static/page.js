"use strict";
// Keys, copying, relative times and the state of the live stream. Everything else works without scripts.
(() => {
  const byId = (id) => document.getElementById(id);
  const rows = () => [...document.querySelectorAll("main .row")].filter((row) => row.offsetParent !== null);
  const isTyping = (element) => element.matches("input, select, textarea, [contenteditable]");
  let at = -1;
  let awaitsPage = 0;

  function moveTo(step) {
    const all = rows();
    if (!all.length) return;
    const focused = all.findIndex((row) => row.contains(document.activeElement));
    at = Math.min(Math.max((focused >= 0 ? focused : at) + step, 0), all.length - 1);
    all.forEach((row, index) => row.classList.toggle("at", index === at));
    const target = all[at].querySelector("a, button, summary") || all[at];
    target.focus({ preventScroll: true });
    all[at].scrollIntoView({ block: "nearest" });
  }

  function follow(selector) {
    const link = document.querySelector(selector);
    if (link) link.click();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]") && event.key !== "?") return;
    if (awaitsPage && Date.now() - awaitsPage < 1500) {
      awaitsPage = 0;
      const link = document.querySelector(`a[data-go="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); return; }
    }
    switch (event.key) {
      case "/": { const field = byId("q") || byId("find"); if (field) { event.preventDefault(); field.focus(); field.select(); } break; }
      case "j": moveTo(1); break;
      case "k": moveTo(-1); break;
      case "]": follow("a[rel=next]"); break;
      case "[": follow("a[rel=prev]"); break;
      case "g": awaitsPage = Date.now(); break;
      case "?": { const keys = byId("keys"); if (keys.open) keys.close(); else keys.showModal(); break; }
    }
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "copied";
    } catch {
      const code = button.parentElement.querySelector("code");
      if (code) getSelection().selectAllChildren(code);
      button.textContent = "select and copy";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1600);
  });

  // A form that is answered while it is typed in keeps the address that says the same.
  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (!form || form.dataset.address === undefined) return;
    const said = new URLSearchParams([...new FormData(form)].filter(([, value]) => value)).toString();
    history.replaceState(null, "", said ? `${form.action}?${said}` : form.action);
  });

  const steps = [[60, "second"], [60, "minute"], [24, "hour"], [30, "day"], [12, "month"], [Infinity, "year"]];
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  function ago(date) {
    let amount = (date - Date.now()) / 1000;
    for (const [size, unit] of steps) {
      if (Math.abs(amount) < size) return unit === "second" ? "just now" : relative.format(Math.round(amount), unit);
      amount /= size;
    }
  }
  function refresh(root) {
    for (const time of root.querySelectorAll("time[datetime]:not(.exact)")) {
      const date = Date.parse(time.dateTime);
      if (!Number.isNaN(date)) time.textContent = ago(date);
    }
    for (const button of root.querySelectorAll("button.copy[hidden]")) button.hidden = false;
  }
  refresh(document);
  setInterval(() => refresh(document), 30000);
  document.addEventListener("htmx:after:swap", () => refresh(document));

  const live = byId("live");
  const state = byId("live-state");
  if (live && state) {
    const say = (text, isLost = false) => {
      state.classList.toggle("lost", isLost);
      if (state.textContent !== text) state.textContent = text;
    };
    const isLost = () => say("The server does not answer; what is shown may be old.", true);
    let hasWatched = false;
    live.addEventListener("watching", () => {
      say("live ·");
      if (hasWatched) live.dispatchEvent(new CustomEvent("changed")); // what came while nobody listened is not told
      hasWatched = true;
      // A browser has six connections for all tabs. The extension gives one back when its tab is hidden; this tab began so.
      if (document.hidden) document.dispatchEvent(new Event("visibilitychange"));
    });
    live.addEventListener("htmx:sse:error", isLost);
    live.addEventListener("htmx:sse:close", () => say("Not live any more: load the page again.", true));
    document.addEventListener("htmx:error", isLost);
    // An answer that tells a problem is not shown in a part of the page: what was there stays, and this says so.
    document.addEventListener("htmx:after:request", (event) => {
      const status = event.detail.ctx.response.status;
      if (status >= 400) say("This cannot be shown anew now, and may be old. Load the page again to see why.", true);
      else if (state.classList.contains("lost")) say("live ·");
    });
  }
})();
