"use strict";
// Layers: where cycles went, the roofline, the table, and what is told of the one that is selected.
lathe.pictured.then((run) => {
  const { make, grouped, plain } = lathe;
  const shorter = (text) => (text.length > 26 ? `${text.slice(0, 24)}…` : text);
  const units = run.units.slice(0, -1), known = run.layers.map((layer, at) => ({ ...layer, at }));
  const own = known.filter((layer) => layer.where !== "host");
  const chosen = document.getElementById("selected");
  const activities = { load: ["load"], compute: ["gemm", "alu", "transfer"], store: ["store"] };

  lathe.selectLayer = (at) =>
    run.select({ kind: "layer", layer: at, marks: run.columns ? (i) => run.columns.layer[i] === at : null });

  const limit = (layer) => (layer.memory > layer.compute ? "memory" : "compute");
  const columns = [
    { name: "layer", of: (l) => l.name },
    { name: "where", of: (l) => l.where },
    { name: "cycles", of: (l) => l.cycles, text: grouped },
    { name: "bound", of: (l) => l.bound, text: grouped, title: "cycles that it takes at least, alone" },
    { name: "bound by", of: (l) => (l.where === "host" ? "" : limit(l)) },
    { name: "compute", of: (l) => l.compute, text: grouped, title: "steps of its instructions in the compute unit" },
    { name: "memory", of: (l) => l.memory, text: grouped, title: "cycles of its bytes on the bus" },
    { name: "of peak", of: (l) => (l.macs && l.cycles ? l.macs / (l.cycles * run.peak) : 0),
      text: (share) => (share ? `${(100 * share).toFixed(1)} %` : "") },
    { name: "macs", of: (l) => l.macs, text: grouped },
    { name: "bytes", of: (l) => l.bytes, text: grouped },
    { name: "instructions", of: (l) => l.instructions, text: grouped },
    { name: "why on the host", of: (l) => l.why },
  ];
  for (const column of columns) {
    const { of } = column;
    if (!["layer", "where", "why on the host"].includes(column.name)) column.of = (l) => (l.where === "host" ? null : of(l));
    if (column.text) {
      const { text } = column;
      column.text = (value) => (value === null ? "" : text(value));
    }
  }
  const used = columns.filter((column) => column.name !== "why on the host" || own.length < known.length);
  const table = lathe.table(document.getElementById("layers"), used, known,
    { name: "Layers", pick: (layer) => lathe.selectLayer(layer.at) });
  if (!chosen) return;

  // Bars of the cycles of one unit.
  const which = document.getElementById("cycles-unit");
  function bars() {
    const unit = which.value, names = own.map((_, at) => at), traces = [];
    const add = (name, kind, values) => {
      if (values.some((value) => value)) {
        traces.push({ type: "bar", orientation: "h", name, y: names, x: values, uid: `${unit}-${kind.replace(/[^a-z]/g, "-")}`,
          marker: { color: lathe.kindColour(kind) }, customdata: own.map((layer) => plain(layer.name)),
          hovertemplate: `%{customdata}<br>${plain(name)}: %{x} cycles<extra></extra>` });
      }
    };
    for (const activity of activities[unit]) add(activity, activity, own.map((layer) => layer.busy[activity] ?? 0));
    for (const cause of run.causes) add(`waits: ${cause}`, cause, own.map((layer) => layer.reasons[unit]?.[cause] ?? 0));
    const narrow = document.getElementById("cycles").clientWidth < 560;
    lathe.draw("cycles", traces, {
      barmode: "stack", height: Math.max(160, 70 + own.length * Math.min(26, Math.max(13, 700 / own.length))), uirevision: "cycles",
      margin: { l: narrow ? 104 : 170, r: 12, t: 8, b: 44 },
      xaxis: { title: { text: `cycles of ${unit}`, standoff: 6 }, separatethousands: true, exponentformat: "none", fixedrange: narrow },
      yaxis: { autorange: "reversed", tickvals: names, fixedrange: true, tickfont: { size: narrow ? 9 : 11 }, showgrid: false,
        ticktext: own.map((layer) => plain(narrow ? shorter(layer.name).slice(0, 16) : shorter(layer.name))) },
    }, {}, true);
  }
  bars();
  which.addEventListener("change", bars);
  document.getElementById("cycles").on("plotly_click", ({ points: [point] }) => lathe.selectLayer(own[point.y].at));

  // The roofline.
  const points = own.filter((layer) => layer.macs && layer.bytes && layer.cycles);
  const roofline = document.getElementById("roofline");
  if (!points.length) {
    roofline.replaceChildren("No layer of this run makes products of bytes that it moves.");
    roofline.style.height = "auto";
  } else {
    const intensity = points.map((layer) => layer.macs / layer.bytes);
    const ridge = run.peak / run.bytes_per_cycle;
    const low = Math.min(ridge, ...intensity) / 2, high = Math.max(ridge, ...intensity) * 2;
    const text = points.map((layer) => plain(layer.name)), at = points.map((layer) => layer.at);
    const reached = points.map((layer) => layer.macs / layer.cycles);
    const possible = points.map((layer) => layer.macs / Math.max(1, layer.bound));
    const colour = { memory: "#c2496b", compute: "#2a9d5c" };
    const lines = { x: [], y: [] };
    points.forEach((_, k) => {
      lines.x.push(intensity[k], intensity[k], null);
      lines.y.push(reached[k], possible[k], null);
    });
    const series = (bound) => {
      const chosen = points.map((layer, k) => k).filter((k) => limit(points[k]) === bound);
      const of = (values) => chosen.map((k) => values[k]);
      return [
        { type: "scatter", mode: "markers", name: `reached, bound by ${bound}`, x: of(intensity), y: of(reached), text: of(text),
          customdata: of(at), marker: { size: 10, color: colour[bound] },
          hovertemplate: "%{text}<br>%{y:.4~g} MACs a cycle, %{x:.4~g} a byte<extra></extra>" },
        { type: "scatter", mode: "markers", name: `its bound (${bound})`, x: of(intensity), y: of(possible), text: of(text),
          customdata: of(at), marker: { size: 10, color: colour[bound], symbol: "circle-open" },
          hovertemplate: "%{text}<br>at most %{y:.4~g} MACs a cycle by its bound<extra></extra>" },
      ].filter(() => chosen.length);
    };
    const least = Math.min(...reached, ...possible, low * run.bytes_per_cycle) / 1.5;
    lathe.draw("roofline", [
      { type: "scatter", mode: "lines", name: "roof", x: [low, ridge, high], y: [low * run.bytes_per_cycle, run.peak, run.peak],
        line: { color: lathe.colour("text"), width: 2 }, hovertemplate: "roof: %{y:.4~g} MACs a cycle<extra></extra>" },
      { type: "scatter", mode: "lines", ...lines, line: { color: lathe.colour("quiet"), width: 1, dash: "dot" }, hoverinfo: "skip", showlegend: false },
      ...series("compute"), ...series("memory"),
    ], {
      height: 440, margin: { l: 62, r: 12, t: 8, b: 48 }, uirevision: "roofline",
      xaxis: { type: "log", title: { text: "multiply-accumulates for each byte of DRAM", standoff: 6 }, ...lathe.logTicks(low, high), range: [Math.log10(low), Math.log10(high)] },
      yaxis: { type: "log", title: { text: "multiply-accumulates in a cycle", standoff: 6 }, ...lathe.logTicks(least, run.peak * 1.5), range: [Math.log10(least), Math.log10(run.peak * 1.5)] },
    }, {}, true);
    roofline.on("plotly_click", ({ points: [point] }) => {
      if (point.customdata !== undefined) lathe.selectLayer(point.customdata);
    });
  }

  // What is selected.
  const row = (name, value) => make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "number" }, value));
  function costs(layer) {
    const head = make("tr", {}, ...["unit", "busy or waiting", "cycles", "share"].map((name, at) =>
      make("th", { class: at > 1 ? "number" : "" }, name)));
    const rows = [];
    for (const unit of units) {
      const told = activities[unit].map((each) => [each, layer.busy[each] ?? 0]);
      told.push(...Object.entries(layer.reasons[unit] ?? {}).map(([cause, cycles]) => [`waits: ${cause}`, cycles]));
      const sum = told.reduce((all, [, cycles]) => all + cycles, 0);
      for (const [what, cycles] of told) {
        if (cycles) {
          rows.push(make("tr", {}, make("td", {}, unit), make("td", {}, what), make("td", { class: "number" }, grouped(cycles)),
            make("td", { class: "number" }, `${((100 * cycles) / sum).toFixed(1)} %`)));
        }
      }
    }
    return make("div", { class: "scroll" }, make("table", { "aria-label": "Cycles by unit" }, make("thead", {}, head), make("tbody", {}, ...rows)));
  }
  function tellLayer(at) {
    const layer = run.layers[at];
    const title = make("h3", {}, layer.name);
    if (layer.where === "host") {
      chosen.replaceChildren(title, make("p", {}, `This runs on the host: ${layer.why}.`));
      return;
    }
    const go = make("button", { type: "button" }, "Show on the timeline");
    go.addEventListener("click", () => {
      const range = run.range_of((i) => run.columns.layer[i] === at);
      if (range) lathe.timeline.show(...range);
      document.getElementById("timeline-part").scrollIntoView({ behavior: "smooth" });
    });
    const facts = make("table", { class: "of-layer", "aria-label": "Layer" }, make("tbody", {},
      ...used.slice(1, -1).filter((column) => column.name !== "layer").map((column) => row(column.name, column.text ? column.text(column.of(layer)) : String(column.of(layer)))),
    ));
    chosen.replaceChildren(title, make("div", { class: "bar" }, go), make("div", { class: "two" }, facts, costs(layer)));
  }
  run.onSelect((selection) => {
    if (selection?.kind === "layer") {
      table.select(selection.layer);
      tellLayer(selection.layer);
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", bars);
});
