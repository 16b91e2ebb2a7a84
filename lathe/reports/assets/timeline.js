"use strict";
// The timeline: a row for each unit, tokens, scratchpads and DRAM over one axis of cycles; redrawn for each window.
{
  const LIGHT = {
    load: "#3b7dd8", gemm: "#2a9d5c", alu: "#d98a1f", transfer: "#8a63c9", store: "#c2496b", fetch: "#6f7f92",
    empty: "#d5dae1", "load->compute": "#a9c8f2", "compute->load": "#b5e0c4", "compute->store": "#bfe3d4",
    "store->compute": "#efc0cf", drain: "#efe0b9", memory: "#f3b8a6", "load queue": "#c9dcf5",
    "compute queue": "#cfe8d8", "store queue": "#f3d3dd", none: "#d5dae1",
  };
  const DARK = {
    load: "#5c9df0", gemm: "#45c07c", alu: "#e8a547", transfer: "#a98ae0", store: "#e06c8d", fetch: "#8c9bb0",
    empty: "#2b333d", "load->compute": "#27486f", "compute->load": "#245039", "compute->store": "#2a5a4b",
    "store->compute": "#643446", drain: "#5a5130", memory: "#70402f", "load queue": "#2c4057",
    "compute queue": "#2c4a3a", "store queue": "#57323f", none: "#2b333d",
  };
  lathe.kindColour = (name) => (lathe.isDark() ? DARK : LIGHT)[name] ?? "#888888";
}

// Draw the timeline of a run in the figure of a name. `runs` are all runs of the page, whose timelines have the
// same axes. `moved` is called with the visible window, so that the others can follow.
lathe.timelineOf = (run, name, { runs = [run], height = 540, moved = () => {} } = {}) => {
  const place = document.getElementById(name), total = Math.max(...runs.map((each) => each.cycles));
  const NEAR = 600; // entries that are drawn individually, at most
  const COLUMNS = 200; // columns of a window; half as many are drawn on each side for dragging
  const kinds = [...run.activities, ...run.causes];
  const fetch = run.units.length - 1, rows = [fetch, ...run.units.keys()].slice(0, run.units.length);
  const whole = [0, total], together = runs.length > 1;
  let window_ = [...whole], marks = null, selected = null, drawing = null, wanted = false, drawn = null;
  const mostTokens = Math.max(...runs.flatMap((each) => each.tokens.map(({ values }) => values.reduce((most, value) => Math.max(most, value), 0))));
  const memories = [...new Set(runs.flatMap((each) => each.memories.map((memory) => memory.name)))].sort();
  let mostBytes = 0; // per cycle, in any of the runs, in the drawn window
  const LINES = ["#3b7dd8", "#2a9d5c", "#d98a1f", "#c2496b", "#8a63c9", "#6f7f92"];

  const narrow = () => place.clientWidth < 560;
  let small = narrow();
  const axisOf = (at) => (at ? `y${at + 1}` : "y");
  const parts = [...rows.map(() => 1), 1.5, 2, 1.8];
  const texts = [...rows.map((unit) => run.units[unit]), "tokens", "scratchpads<br>% in use", "DRAM<br>bytes/cycle"];

  function layout() {
    const gap = 0.018, sum = parts.reduce((a, b) => a + b, 0), left = 1 - gap * (parts.length - 1);
    const made = {
      height, margin: { l: small ? 92 : 108, r: 12, t: 8, b: 40 }, dragmode: "zoom",
      barmode: "overlay", uirevision: name,
      xaxis: { title: { text: "cycle", standoff: 4 }, range: [...window_], anchor: axisOf(parts.length - 1),
        minallowed: 0, maxallowed: total, exponentformat: "none", separatethousands: true, zeroline: false },
      annotations: [],
    };
    const middles = [];
    let top = 1;
    parts.forEach((part, at) => {
      const domain = [Math.max(0, top - (part / sum) * left), top];
      made[`yaxis${at ? at + 1 : ""}`] = {
        domain, fixedrange: true, zeroline: false, nticks: 3, anchor: "x",
        ...(at < rows.length ? { range: [0, 1.24], showticklabels: false, ticks: "", showgrid: false }
          : { rangemode: "tozero", tickfont: { size: 10 }, ...(at === rows.length && mostTokens <= 3 ? { dtick: 1 } : {}),
            ...(together ? { range: [0, 1.06 * [Math.max(1, mostTokens), 100, mostBytes][at - rows.length]] } : {}) }),
      };
      made.annotations.push({
        text: texts[at], xref: "paper", yref: "paper", x: 0, xshift: at < rows.length ? -8 : small ? -26 : -34, y: (domain[0] + top) / 2,
        xanchor: "right", showarrow: false, align: "right", font: { size: small ? 9 : 11 },
      });
      middles.push((domain[0] + domain[1] - 0.2 * (domain[1] - domain[0])) / 2);
      top = domain[0] - gap;
    });
    made.shapes = arrows(middles);
    return made;
  }

  // Lines from the instructions that push tokens for the selected one, and to those that pop its tokens.
  function arrows(middles) {
    if (selected === null) return [];
    const line = (giver, taker) => ({
      type: "line", xref: "x", yref: "paper", x0: run.end(giver), y0: middles[rows.indexOf(run.columns.unit[giver])],
      x1: run.start(taker), y1: middles[rows.indexOf(run.columns.unit[taker])],
      line: { color: lathe.colour("text"), width: 1.6, dash: "dot" },
    });
    return [
      ...(run.from.get(selected) ?? []).filter(({ giver }) => giver >= 0).map(({ giver }) => line(giver, selected)),
      ...(run.to.get(selected) ?? []).map((taker) => line(selected, taker)),
    ];
  }

  const seen = new Set();
  const style = (unit, kind) => {
    const name = kinds[kind], first = !seen.has(name);
    seen.add(name);
    return { name: kind < run.activities.length ? name : `waits: ${name}`, legendgroup: name, showlegend: first,
      legendrank: kind, uid: `${unit}-${kind}` };
  };

  // The first cycle of each column; the last column extends to the window's end.
  const begins = (low, high, count) => Array.from({ length: count + 1 }, (_, at) => low + (at * (high - low)) / count);
  const held = (values) => [...values, values[values.length - 1]];

  function far(low, high, count) {
    const values = lathe.lod.columns(run, low, high, count), x = begins(low, high, count), traces = [];
    rows.forEach((unit, row) => values[unit].forEach((shares, kind) => {
      if (!shares) return;
      traces.push({
        ...style(unit, kind), type: "scatter", mode: "lines", x, y: held(shares), yaxis: axisOf(row), stackgroup: `u${unit}`,
        line: { width: 0, shape: "hv", color: lathe.kindColour(kinds[kind]) }, fillcolor: lathe.kindColour(kinds[kind]),
        hovertemplate: `${lathe.plain(run.units[unit])}: ${lathe.plain(kinds[kind])} %{y:.1%}<br>from cycle %{x:.0f}<extra></extra>`,
        meta: { unit },
      });
    }));
    return traces;
  }

  function near(low, high) {
    const boxes = new Map();
    const box = (unit, kind, i, from, to) => {
      if (to <= from) return;
      const key = unit * kinds.length + kind;
      if (!boxes.has(key)) boxes.set(key, { unit, kind, x: [], width: [], customdata: [] });
      const each = boxes.get(key);
      each.x.push(from);
      each.width.push(to - from);
      each.customdata.push(i);
    };
    lathe.lod.each(run, low, high, (unit, i, wait, begin, end, activity, cause, waited) => {
      box(unit, run.activities.length + cause, i, begin - wait, begin);
      box(unit, activity, i, begin, end - waited);
      box(unit, run.activities.length + run.causes.indexOf("memory"), i, end - waited, end);
    });
    const back = lathe.colour("back");
    return [...boxes.values()].sort((a, b) => a.kind - b.kind).map(({ unit, kind, ...columns }) => ({
      ...style(unit, kind), type: "bar", ...columns, y: columns.x.map(() => 1), offset: 0, yaxis: axisOf(rows.indexOf(unit)),
      marker: { color: lathe.kindColour(kinds[kind]), line: { width: kind < run.activities.length ? 0.6 : 0, color: back } },
      hovertemplate: `instruction %{customdata}<br>${lathe.plain(kinds[kind])} from cycle %{x}, %{width} cycles<extra></extra>`,
      meta: { unit },
    }));
  }

  // A strip above the rows where the selected item is active.
  function strips(low, high, count) {
    if (!marks) return [];
    const width = (high - low) / count, found = run.units.map(() => new Uint8Array(count));
    lathe.lod.each(run, low, high, (unit, i, wait, begin, end) => {
      if (!marks(i)) return;
      const a = Math.max(0, Math.floor((begin - low) / width)), b = Math.min(count - 1, Math.floor((end - low) / width));
      for (let at = a; at <= b; at++) found[unit][at] = 1;
    });
    return rows.map((unit, row) => {
      const x = [], y = [];
      let since = -1;
      for (let at = 0; at <= count; at++) {
        if (at < count && found[unit][at]) {
          if (since < 0) since = at;
        } else if (since >= 0) {
          const a = low + since * width, b = low + at * width;
          x.push(a, a, b, b, null);
          y.push(1.06, 1.2, 1.2, 1.06, null);
          since = -1;
        }
      }
      return { type: "scatter", mode: "lines", fill: "toself", x, y, yaxis: axisOf(row), name: "selected", legendgroup: "selected",
        showlegend: row === 0, line: { width: 0 }, fillcolor: lathe.colour("accent"), hoverinfo: "skip", uid: `s${unit}`,
        legendrank: 2000 };
    });
  }

  function curves(low, high, count) {
    const traces = [];
    run.tokens.forEach((curve, at) => traces.push({
      ...lathe.lod.steps(curve, low, high, count), type: "scatter", mode: "lines", yaxis: axisOf(rows.length),
      line: { shape: "hv", width: 1.2, color: LINES[at] }, name: `tokens ${curve.name}`, legendrank: 1000 + at, uid: `t${at}`,
      hovertemplate: `%{y} tokens ${lathe.plain(curve.name)}<br>cycle %{x:.0f}<extra></extra>`,
    }));
    run.memories.forEach((curve, at) => traces.push({
      ...lathe.lod.steps(curve, low, high, count), type: "scatter", mode: "lines", yaxis: axisOf(rows.length + 1),
      line: { shape: "hv", width: 1.4, color: LINES[memories.indexOf(curve.name) % LINES.length] }, name: `${curve.name} in use`, legendrank: 1100 + at,
      uid: `m${at}`, hovertemplate: `%{y:.1f} % of ${curve.depth} ${lathe.plain(curve.name)} vectors<br>cycle %{x:.0f}<extra></extra>`,
    }));
    const { read, written } = lathe.lod.traffic(run, low, high, count), x = begins(low, high, count);
    mostBytes = Math.max(...runs.flatMap((each) => {
      const bytes = each === run ? { read, written } : lathe.lod.traffic(each, low, high, count);
      return [each.bytes_per_cycle, ...bytes.read, ...bytes.written];
    }));
    [["read", held(read), LINES[0]], ["written", held(written), LINES[3]]].forEach(([name, y, color], at) => traces.push({
      type: "scatter", mode: "lines", x, y, yaxis: axisOf(rows.length + 2), line: { shape: "hv", width: 1.2, color },
      name: `DRAM ${name}`, legendrank: 1200 + at, uid: `d${at}`,
      hovertemplate: `%{y:.2f} bytes per cycle ${name}<br>from cycle %{x:.0f}<extra></extra>`,
    }));
    traces.push({ type: "scatter", mode: "lines", x: [low, high], y: [run.bytes_per_cycle, run.bytes_per_cycle],
      yaxis: axisOf(rows.length + 2), line: { dash: "dot", width: 1, color: lathe.colour("quiet") }, name: "bus bandwidth",
      legendrank: 1202, uid: "bus", hovertemplate: `bus bandwidth: ${run.bytes_per_cycle} bytes per cycle<extra></extra>` });
    return traces;
  }

  async function draw() {
    wanted = true;
    if (drawing) return drawing;
    drawing = (async () => {
      while (wanted) {
        wanted = false;
        const [a, b] = window_, width = b - a;
        const low = Math.max(0, a - width / 2), high = Math.min(total, b + width / 2);
        const count = Math.max(1, Math.min(Math.ceil((COLUMNS * (high - low)) / width), Math.ceil(high - low)));
        const single = lathe.lod.number(run, low, high) <= NEAR;
        seen.clear();
        const traces = [...(single ? near(low, high) : far(low, high, count)), ...strips(low, high, count),
          ...curves(low, high, count)];
        drawn = { low, high, width, single };
        place.dataset.detail = single ? "instructions" : "shares";
        await lathe.draw(name, traces, layout(), { scrollZoom: true }, true);
      }
      drawing = null;
    })();
    return drawing;
  }

  const least = Math.min(20, total), PAUSE = 90; // milliseconds after the last wheel event
  let later = 0;
  // Whether the drawn level of detail suffices for a window: boxes do, columns if they are not much too wide.
  const isDrawn = (low, high) => drawn !== null && low >= drawn.low && high <= drawn.high
    && high - low >= drawn.width * (drawn.single ? 0.25 : 0.7);
  function show(low, high, pause = 0) {
    const width = Math.min(total, Math.max(least, high - low)), middle = (low + high) / 2;
    const from = Math.min(Math.max(0, middle - width / 2), total - width);
    window_ = [from, from + width];
    clearTimeout(later);
    if (!pause) return draw();
    if (!isDrawn(from, from + width)) later = setTimeout(draw, pause);
    return null;
  }
  // The reader has moved this timeline: the others on the page follow immediately.
  function turn(low, high, pause = 0) {
    moved(low, high);
    return show(low, high, pause);
  }
  const pictured = draw().then(async () => {
    // A hidden window has no animation frames.
    await Promise.race([new Promise(requestAnimationFrame), new Promise((done) => { setTimeout(done, 200); })]);
    performance.mark("first picture");
    place.on("plotly_relayout", (change) => {
      const low = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0], high = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1];
      if (change["xaxis.autorange"]) turn(...whole);
      else if (low !== undefined && (low !== window_[0] || high !== window_[1])) turn(Number(low), Number(high), PAUSE);
    });
    place.on("plotly_doubleclick", () => { turn(...whole); });
    place.on("plotly_click", ({ points: [point] }) => {
      const unit = point.data.meta?.unit;
      if (unit === undefined) return;
      let i = point.customdata;
      if (i === undefined) { // zoomed out: the instruction in the unit in this cycle
        const own = unit === fetch ? null : run.own[unit];
        const at = own ? lathe.lod.first(own.length, (k) => run.boundary[own[k]] > point.x)
          : lathe.lod.first(run.count, (k) => run.dispatch[k] + 1 > point.x);
        i = own ? own[Math.min(at, own.length - 1)] : Math.min(at, run.count - 1);
      }
      if (i !== undefined) run.select({ kind: "instruction", instruction: i, marks: (k) => k === i });
    });
  });
  run.onSelect((selection) => {
    marks = selection?.marks ?? null;
    selected = selection?.kind === "instruction" ? selection.instruction : null;
    draw();
  });

  const zoom = (how) => {
    const [low, high] = window_, width = high - low;
    if (how === "all") turn(...whole);
    else if (how === "in") turn(low + width / 4, high - width / 4);
    else if (how === "out") turn(low - width / 2, high + width / 2);
  };
  place.closest("figure").addEventListener("click", (event) => zoom(event.target.closest("button[data-zoom]")?.dataset.zoom));
  lathe.onTheme(draw);
  addEventListener("resize", () => {
    if (narrow() !== small) { small = narrow(); draw(); }
  });
  return { show, window: () => [...window_], draw, pictured };
};
