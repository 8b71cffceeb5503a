"use strict";
// The plot of /series/N. The page's own table has the same numbers.
(() => {
  const figure = document.getElementById("plot");
  if (!figure) return;
  const shown = JSON.parse(document.getElementById("plotted").textContent);
  const panel = document.getElementById("point");
  const choices = document.getElementById("choices");
  const isTime = shown.x === "time";
  const UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]];
  const CHANGE = { confirmed: [], dismissed: [1, 3] };
  const NARROW = 640;
  const all = shown.series.filter((one) => one.at.length);
  const largest = Math.max(...all.map((one) => Math.max(...one.seconds)));
  const [size, unit] = UNITS.find(([each]) => largest >= each) || UNITS[3];
  const said = (seconds, digits = 4) => `${+(seconds / size).toPrecision(digits)} ${unit}`;
  const longest = Math.max(...all.map((one) => one.at.length));
  let chosen = null; // {one, i}
  let plot = null;

  // Where a result stands: no two of a series at one place, or the plot would drop one of them.
  for (const one of all) {
    one.x = one.at.map((at, i) => (isTime ? at : i + longest - one.at.length));
    for (let i = 1; i < one.x.length; i += 1) if (one.x[i] <= one.x[i - 1]) one.x[i] = one.x[i - 1] + 1e-3;
  }

  // The colours are those of the legend, which the style sheet names for dark and light.
  let colours = {};
  function readColours() {
    const of = (selector) => getComputedStyle(document.querySelector(selector)).color;
    const root = getComputedStyle(document.documentElement);
    colours = { ink: root.color, quiet: of(".plotbar"), series: [] };
    shown.series.forEach((_, k) => colours.series.push(of(`.key${k}`)));
    const probe = document.createElement("span");
    document.body.append(probe);
    for (const name of ["bad", "good", "doubt", "line", "bandfill"]) {
      probe.className = `probe-${name}`;
      colours[name] = getComputedStyle(probe).color;
    }
    probe.remove();
  }
  const colourOf = (one) => colours.series[shown.series.indexOf(one)];

  // What of the x axis is shown; nothing is known of it before the first drawing.
  const seen = (u) => ({ min: u.scales.x.min ?? -Infinity, max: u.scales.x.max ?? Infinity });

  function xRange(u, min, max) {
    const room = (max - min) * 0.015 || 1;
    return min === u.data[0][0] && max === u.data[0].at(-1) ? [min - room, max + room] : [min, max];
  }

  function yRange(u) {
    const { min, max } = seen(u);
    let low = Infinity, high = -Infinity;
    for (const one of all) one.x.forEach((x, i) => {
      if (x < min || x > max) return;
      low = Math.min(low, one.low[i], one.seconds[i]);
      high = Math.max(high, one.high[i], one.seconds[i]);
    });
    if (low > high) [low, high] = [0, largest];
    const room = (high - low) * 0.1 || high * 0.05 || 1e-9;
    return shown.y === "zero" ? [0, high * 1.08] : [Math.max(0, low - room), high + room];
  }

  function line(u, x, colour, dash, from = 0) {
    const at = Math.round(u.valToPos(x, "x", true));
    if (at < u.bbox.left || at > u.bbox.left + u.bbox.width) return null;
    const { ctx } = u;
    ctx.strokeStyle = colour;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash(dash.map((length) => length * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(at, u.bbox.top + from * u.bbox.height);
    ctx.lineTo(at, u.bbox.top + u.bbox.height);
    ctx.stroke();
    ctx.setLineDash([]);
    return at;
  }

  // Words above a line, where those before leave room.
  function label(u, at, text, colour, row, ends) {
    const { ctx } = u;
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    const wide = ctx.measureText(text).width;
    const left = Math.min(at + 3 * devicePixelRatio, u.bbox.left + u.bbox.width - wide);
    if (left < (ends[row] || 0)) return;
    ends[row] = left + wide + 8 * devicePixelRatio;
    ctx.fillStyle = colour;
    ctx.textAlign = "left";
    ctx.textBaseline = "bottom";
    ctx.fillText(text, left, u.bbox.top - (2 + 14 * row) * devicePixelRatio);
  }

  // "build b7347 → b8390" is told as b8390, any other move by what moved.
  const nameMove = (word) => word.startsWith("build ") ? word.split(" → ")[1] : word.split(" ")[0];

  function background(u) {
    const one = all[0], { ctx } = u, ends = [];
    ctx.save(); // uPlot remembers what it has set, and would not set it again
    const now = one.levels.at(-1);
    if (now && one.smallest_effect) {
      ctx.save();
      const top = u.valToPos(now.seconds * (1 + one.smallest_effect), "y", true);
      const bottom = u.valToPos(now.seconds * (1 - one.smallest_effect), "y", true);
      const left = one.levels.length > 1 ? u.valToPos(one.x[now.begin], "x", true) : u.bbox.left;
      ctx.fillStyle = colours.bandfill;
      ctx.beginPath();
      ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
      ctx.clip();
      ctx.fillRect(left, top, u.bbox.left + u.bbox.width - left, bottom - top);
      ctx.restore();
    }
    one.moved.forEach((words, i) => {
      const grave = words.filter((word) => !word.startsWith("bundle "));
      if (!words.length) return;
      const at = line(u, one.x[i], colours.quiet, grave.length ? [4, 4] : [], grave.length ? 0 : 0.97);
      if (at !== null && grave.length && figure.clientWidth >= NARROW) {
        label(u, at, grave.map(nameMove).join(", "), colours.quiet, 0, ends);
      }
    });
    ctx.restore();
  }

  function foreground(u) {
    const { ctx } = u, ends = [];
    ctx.save();
    for (const one of all) for (const change of [...one.changes].reverse()) {
      const i = one.job.indexOf(change.job);
      if (i < 0) continue;
      const colour = change.state === "dismissed" ? colours.quiet
        : change.state !== "confirmed" ? colours.doubt
        : change.direction === "faster" ? colours.good : colours.bad;
      const at = line(u, one.x[i], colour, CHANGE[change.state] || [6, 3]);
      const by = change.ratio ? ` ${change.ratio >= 1 ? "+" : "−"}${Math.abs((change.ratio - 1) * 100).toFixed(1)}%` : "";
      const levelled = step(one, i);
      const text = levelled ? `${levelled}${by ? ` (${by.trim()})` : ""}` : `${change.direction}${by}, ${change.state}`;
      if (at !== null) label(u, at, text, colour, 1, ends);
    }
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    for (const one of all) points(u, one);
    for (const one of all) levels(u, one);
    ctx.restore();
    ctx.restore();
  }

  // A line for each stretch without a change, up to where the next one begins.
  function levels(u, one) {
    const { ctx } = u;
    ctx.strokeStyle = colourOf(one);
    ctx.lineWidth = 2 * devicePixelRatio;
    one.levels.forEach((level, i) => {
      const next = one.levels[i + 1];
      const y = u.valToPos(level.seconds, "y", true);
      ctx.beginPath();
      ctx.moveTo(u.valToPos(one.x[level.begin], "x", true), y);
      ctx.lineTo(next ? u.valToPos(one.x[next.begin], "x", true) : u.bbox.left + u.bbox.width, y);
      ctx.stroke();
    });
  }

  // Both levels beside a change: 10.03 → 10.95 us.
  function step(one, i) {
    const k = one.levels.findIndex((level) => level.begin === i);
    return k > 0 ? `${said(one.levels[k - 1].seconds).split(" ")[0]} → ${said(one.levels[k].seconds)}` : "";
  }

  function points(u, one) {
    const { ctx } = u, colour = colourOf(one), { min, max } = u.scales.x;
    const radius = (one.at.length > 300 ? 2 : 3) * devicePixelRatio;
    one.x.forEach((value, i) => {
      if (value < min || value > max || isHidden(one, i)) return;
      const x = u.valToPos(value, "x", true), y = u.valToPos(one.seconds[i], "y", true);
      const isChosen = chosen && chosen.one === one && chosen.i === i;
      ctx.strokeStyle = ctx.fillStyle = one.flag[i] ? colours.quiet : colour;
      ctx.lineWidth = devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(x, u.valToPos(one.low[i], "y", true));
      ctx.lineTo(x, u.valToPos(one.high[i], "y", true));
      ctx.stroke();
      ctx.beginPath();
      ctx.arc(x, y, isChosen ? radius * 1.8 : radius, 0, 2 * Math.PI);
      if (one.flag[i]) ctx.stroke(); else ctx.fill();
      if (isChosen) {
        ctx.beginPath();
        ctx.strokeStyle = colours.ink;
        ctx.lineWidth = 2 * devicePixelRatio;
        ctx.arc(x, y, radius * 2.6, 0, 2 * Math.PI);
        ctx.stroke();
      }
    });
  }

  // Drivers and builds that are not ticked are left out of the plot; their levels stay.
  const hidden = new Set();
  const isHidden = (one, i) => hidden.has(`driver ${one.driver[i]}`) || hidden.has(`build ${one.build[i]}`);

  function offer(what) {
    const named = new Set(all.flatMap((one) => one[what]).filter(Boolean));
    if (named.size < 2) return;
    const group = element("fieldset", "", choices);
    element("legend", `${what}s`, group);
    for (const name of named) {
      const label = element("label", "", group);
      const box = element("input", "", label);
      box.type = "checkbox";
      box.checked = true;
      label.append(` ${name}`);
      box.addEventListener("change", () => {
        hidden[box.checked ? "delete" : "add"](`${what} ${name}`);
        plot.redraw(false, true);
      });
    }
  }

  function nearest(u, left, top) {
    let best = null, least = 40 * 40;
    for (const one of all) one.x.forEach((value, i) => {
      if (isHidden(one, i)) return;
      const dx = u.valToPos(value, "x") - left;
      if (Math.abs(dx) > 40) return;
      const away = dx * dx + (u.valToPos(one.seconds[i], "y") - top) ** 2 / 4;
      if (away < least) [best, least] = [{ one, i }, away];
    });
    return best;
  }

  function choose(found) {
    if (!found || (chosen && chosen.one === found.one && chosen.i === found.i)) return;
    chosen = found;
    plot.redraw(false);
    tell(found);
  }

  function element(name, text, parent) {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  function tell({ one, i }) {
    panel.replaceChildren();
    const words = element("div", "", panel);
    const head = element("p", "", words);
    const link = element("a", `job ${one.job[i]}`, head);
    link.href = `/jobs/${one.job[i]}`;
    const interval = `${said(one.low[i])} to ${said(one.high[i])}`;
    head.append(`: ${said(one.seconds[i])} (${interval}), ${new Date(one.at[i] * 1e3).toISOString().slice(0, 16).replace("T", " ")} UTC`);
    if (all.length > 1) element("p", one.name, words);
    element("p", `driver ${one.driver[i] || "none"}, ${one.build[i] ? `build ${one.build[i]}` : `bundle ${one.bundle[i]}`}`, words);
    if (one.moved[i].length) element("p", `since the one before: ${one.moved[i].join("; ")}`, words);
    if (one.flag[i]) element("p", `left out of the series: ${one.flag[i]}`, words);
    const change = one.changes.find((each) => each.job === one.job[i]);
    if (change) element("p", `here it ${change.direction === "failed" ? "" : "became "}${change.direction} (${change.state})`, words);
    histogram(one, i);
  }

  const kept = new Map();
  let waiting = 0;
  function histogram(one, i) {
    const job = one.job[i];
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      if (!kept.has(job)) {
        const answer = await fetch(`/api/jobs/${job}/samples`);
        if (!answer.ok) return;
        kept.set(job, (await answer.json()).rows);
      }
      if (!chosen || chosen.one !== one || chosen.i !== i) return;
      const metric = one.name.split(", ").pop();
      const found = kept.get(job).find((row) => row.metric === metric);
      if (found && found.samples.length > 1) panel.append(bars(found.samples));
    }, 120);
  }

  function bars(samples) {
    const low = Math.min(...samples), high = Math.max(...samples);
    const count = Math.min(24, Math.max(5, Math.ceil(Math.sqrt(samples.length))));
    const bins = new Array(count).fill(0);
    for (const each of samples) bins[Math.min(count - 1, Math.floor(((each - low) / (high - low || 1)) * count))] += 1;
    const figure = element("figure", "");
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", `0 0 ${count * 8} 48`);
    svg.setAttribute("class", "histogram");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `histogram of ${samples.length} samples from ${said(low)} to ${said(high)}`);
    bins.forEach((bin, k) => {
      const tall = (46 * bin) / Math.max(...bins);
      const bar = document.createElementNS(space, "rect");
      Object.entries({ x: k * 8 + 0.5, y: 48 - tall, width: 7, height: tall }).forEach(([name, value]) => bar.setAttribute(name, value));
      svg.append(bar);
    });
    figure.append(svg);
    element("figcaption", `${samples.length} samples, ${said(low)} to ${said(high)}`, figure);
    return figure;
  }

  function move(key) {
    const at = chosen || { one: all[0], i: all[0].at.length };
    const last = at.one.at.length - 1;
    if (key === "ArrowUp" || key === "ArrowDown") {
      const next = all[(all.indexOf(at.one) + (key === "ArrowUp" ? 1 : all.length - 1)) % all.length];
      return { one: next, i: Math.min(at.i, next.at.length - 1) };
    }
    const to = { ArrowLeft: at.i - 1, ArrowRight: at.i + 1, Home: 0, End: last }[key];
    return { one: at.one, i: Math.max(0, Math.min(last, to)) };
  }

  // A day, or an hour between days, in UTC; the first one says the year too.
  function moment(at, i) {
    const iso = new Date(at * 1e3).toISOString();
    const short = iso.slice(11, 16) === "00:00" ? iso.slice(5, 10) : iso.slice(11, 16);
    return i ? short : `${short}\n${iso.slice(0, 4)}`;
  }

  function height() { return figure.clientWidth < NARROW ? 280 : 380; }

  function draw() {
    readColours();
    const axis = { stroke: () => colours.quiet, grid: { stroke: () => colours.line, width: 1 }, ticks: { stroke: () => colours.line, width: 1 } };
    const tables = all.map((one) => [one.x, one.seconds]);
    plot = new uPlot({
      width: figure.clientWidth,
      height: height(),
      tzDate: (at) => uPlot.tzDate(new Date(at * 1e3), "Etc/UTC"),
      legend: { show: false },
      padding: [36, 12, 0, 0],
      cursor: { points: { show: false }, drag: { x: true, y: false, dist: 6 } },
      scales: { x: { time: isTime, range: xRange }, y: { range: yRange } },
      axes: [
        { ...axis, ...(isTime ? { values: (_, ticks) => ticks.map(moment) } : {}) },
        { ...axis, size: 76, values: (_, ticks) => ticks.map((tick) => said(tick)) },
      ],
      series: [{}, ...all.map(() => ({ paths: () => null, points: { show: false } }))],
      hooks: {
        drawAxes: [background],
        draw: [foreground],
        setCursor: [(u) => u.cursor.left >= 0 && choose(nearest(u, u.cursor.left, u.cursor.top))],
      },
    }, uPlot.join(tables), figure);
    figure.dataset.drawn = "yes";
  }

  if (choices) ["driver", "build"].forEach(offer);
  draw();
  figure.addEventListener("keydown", (event) => {
    if (["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) {
      event.preventDefault();
      choose(move(event.key));
    } else if (event.key === "Enter" && chosen) location.assign(`/jobs/${chosen.one.job[chosen.i]}`);
    else if (event.key === "Escape") plot.setScale("x", { min: plot.data[0][0], max: plot.data[0].at(-1) });
  });
  new ResizeObserver(() => {
    if (plot.width !== figure.clientWidth) plot.setSize({ width: figure.clientWidth, height: height() });
  }).observe(figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); plot.redraw(false); });
})();
