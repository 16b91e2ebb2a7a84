"use strict";
// Layers: cycles by cause, the roofline, the table, and details of the selected layer.
lathe.pictured.then((run) => {
  const { make, grouped, plain } = lathe;
  const shorter = (text) => (text.length > 26 ? `${text.slice(0, 24)}…` : text);
  const units = run.units.slice(0, -1), known = run.layers.map((layer, at) => ({ ...layer, at }));
  const own = known.filter((layer) => layer.where !== "host");
  const chosen = document.getElementById("selected");
  const activities = lathe.activities;

  lathe.selectLayer = (at) =>
    run.select({ kind: "layer", layer: at, marks: run.columns ? (i) => run.columns.layer[i] === at : null });

  const columns = [
    { name: "layer", of: (l) => l.name },
    { name: "where", of: (l) => l.where },
    { name: "cycles", of: (l) => l.cycles, text: grouped },
    { name: "bound", of: (l) => l.bound, text: grouped, title: "lower bound on the cycles of the layer alone" },
    { name: "bound by", of: (l) => (l.where === "host" ? "" : lathe.limit(l)) },
    { name: "compute", of: (l) => l.compute, text: grouped, title: "issue cycles of its instructions in the compute unit" },
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

  const colour = { memory: "#c2496b", compute: "#2a9d5c" };
  const roofline = () => lathe.roofline("roofline", [{ name: "roof", peak: run.peak, bytes: run.bytes_per_cycle, line: { width: 2 } }],
    ["compute", "memory"].map((bound) => ({ reached: `reached, bound by ${bound}`, possible: `its bound (${bound})`,
      layers: own.filter((layer) => lathe.limit(layer) === bound), colour: colour[bound], symbol: "circle", pick: lathe.selectLayer })));
  roofline();

  // Details of the selected layer.
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
      chosen.replaceChildren(title, make("p", {}, `This layer runs on the host CPU: ${layer.why}.`));
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
  lathe.onTheme(bars);
  lathe.onTheme(roofline);
});
