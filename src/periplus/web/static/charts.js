// Draws <figure data-chart> with uPlot from the JSON in it. Colours come from the page's CSS variables; sizes follow the window.
"use strict";

(() => {
  const HEIGHT = 200;
  const drawn = new Map(); // area -> uPlot

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name, other) => style.getPropertyValue(name).trim() || other;
    return {
      text: read("--quiet", "#666"),
      line: read("--line", "#ccc"),
      series: [1, 2, 3, 4, 5, 6].map((n) => read(`--chart-${n}`, "#3b6ea5")),
    };
  }

  function shown(data, value) {
    if (value === null || value === undefined) return "–";
    const options = { minimumFractionDigits: data.digits, maximumFractionDigits: data.digits };
    const text = value.toLocaleString("en", options);
    return data.unit === "$" ? `$${text}` : data.unit ? `${text} ${data.unit}` : text;
  }

  function brief(value) {
    return value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
  }

  // Of each series the sum of itself and those before it.
  function stacked(rows) {
    const sums = new Array(rows.length ? rows[0].length : 0).fill(0);
    return rows.map((row) => row.map((value, i) => (sums[i] += value ?? 0)));
  }

  function options(data, area, theme) {
    const isLine = data.kind === "lines";
    const isStacked = data.kind === "stacked";
    const names = data.series;
    // The largest sum is drawn first, so that each series covers what belongs to those before it.
    const order = names.map((_, i) => (isStacked ? names.length - 1 - i : i));
    const raw = order.map((i) => names[i].values);
    const rows = isStacked ? stacked(names.map((one) => one.values)) : names.map((one) => one.values);
    const axis = { stroke: theme.text, grid: { stroke: theme.line, width: 1 }, ticks: { stroke: theme.line, width: 1 } };
    const series = order.map((i, place) => ({
      label: names[i].name,
      stroke: theme.series[i % theme.series.length],
      fill: isLine ? undefined : theme.series[i % theme.series.length],
      width: isLine ? 2 : 0,
      points: { show: isLine && data.times.length < 40 },
      paths: isLine ? undefined : uPlot.paths.bars({ size: [0.75, 40], align: 0 }),
      value: (_, __, ___, index) => shown(data, index === null ? null : raw[place][index]),
    }));
    const times = data.times;
    return {
      options: {
        width: area.clientWidth,
        height: HEIGHT,
        tzDate: (time) => uPlot.tzDate(new Date(time * 1e3), "Etc/UTC"),
        cursor: { drag: { x: false, y: false }, y: false },
        scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] }, x: { range: () => spread(times) } },
        series: [{ label: "Day", value: (_, time) => (time === null ? "–" : new Date(time * 1e3).toISOString().slice(0, 10)) }, ...series],
        axes: [
          { ...axis, grid: { show: false }, space: 60, values: (_, ticks) => ticks.map((time) => new Date(time * 1e3).toISOString().slice(5, 10)), incrs: [1, 2, 7, 14, 28, 91, 182, 364].map((n) => n * 86400) },
          { ...axis, size: 52, values: (_, ticks) => ticks.map(brief) },
        ],
      },
      rows: [times, ...order.map((i) => rows[i])],
    };
  }

  // Room for half a bar on both sides.
  function spread(times) {
    if (!times.length) return [0, 1];
    const step = times.length > 1 ? (times[times.length - 1] - times[0]) / (times.length - 1) : 86400;
    return [times[0] - step * 0.6, times[times.length - 1] + step * 0.6];
  }

  function draw(figure) {
    const area = figure.querySelector(".chart-area");
    const source = figure.querySelector('script[type="application/json"]');
    if (!area || !source || !area.clientWidth) return;
    const old = drawn.get(area);
    if (old) old.destroy();
    const made = options(JSON.parse(source.textContent), area, colours());
    drawn.set(area, new uPlot(made.options, made.rows, area));
    sizes.observe(area);
  }

  const sizes = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const plot = drawn.get(target);
      if (plot && contentRect.width && Math.round(contentRect.width) !== plot.width) {
        plot.setSize({ width: Math.round(contentRect.width), height: HEIGHT });
      }
    }
  });

  // Draws what is new on the page, and again what a swap has emptied; forgets what is gone.
  let isWaiting = false;
  function refresh() {
    isWaiting = false;
    for (const [area, plot] of drawn) {
      if (!area.isConnected || !area.firstChild) {
        plot.destroy();
        sizes.unobserve(area);
        drawn.delete(area);
      }
    }
    for (const figure of document.querySelectorAll("figure[data-chart]")) {
      const area = figure.querySelector(".chart-area");
      if (area && !drawn.has(area)) draw(figure);
    }
  }
  function later() {
    if (!isWaiting) {
      isWaiting = true;
      requestAnimationFrame(refresh);
    }
  }
  function again() {
    for (const figure of document.querySelectorAll("figure[data-chart]")) draw(figure);
  }

  function start() {
    refresh();
    new MutationObserver(later).observe(document.body, { childList: true, subtree: true });
    new MutationObserver(again).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "class"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    for (const one of document.querySelectorAll("figure[data-chart]")) one.closest("details")?.addEventListener("toggle", later);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
