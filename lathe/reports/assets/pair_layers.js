"use strict";
// The layers of two runs: cycles and rooflines on the same axes, the table of differences, and the selected layer.
lathe.paired = lathe.pair.then((pair) => {
  const { make, grouped, plain } = lathe, { runs, marks, layers } = pair, chosen = document.getElementById("selected");
  const onNpu = (layer) => (layer && layer.where !== "host" ? layer : null);
  const NUMBERS = [["cycles", "cycles"], ["bound", "lower bound on the cycles of the layer alone"],
    ["compute", "issue cycles of its instructions in the compute unit"], ["memory", "cycles of its bytes on the bus"],
    ["macs", "multiply-accumulates"], ["bytes", "bytes of DRAM"], ["instructions", ""]];
  const peak = (k) => (layer) => (layer.macs && layer.cycles ? layer.macs / (layer.cycles * runs[k].peak) : null);
  const percent = (share) => (share === null ? "" : `${(100 * share).toFixed(1)}\u202f%`);
  const number = (value) => (value === null ? "" : grouped(value));
  const signed = (value) => (value === null ? "" : `${value > 0 ? "+" : value < 0 ? "−" : ""}${grouped(Math.abs(value))}`);
  const value = (row, k, of) => { const layer = onNpu(row.sides[k]); return layer ? of(layer) : null; };
  const difference = (row, of) => { const [a, b] = [0, 1].map((k) => value(row, k, of)); return a === null || b === null ? null : b - a; };
  const ratio = (row, of) => { const [a, b] = [0, 1].map((k) => value(row, k, of)); return a === null || b === null || !a ? null : b / a; };
  const fixed = (share) => (share === null ? "" : share.toFixed(3));

  // The table.
  const columns = [{ name: "layer", of: (row) => row.name }];
  const both = (name, of, text, title = "") => marks.forEach((mark, k) => columns.push({ name: `${name} ${mark}`, of: (row) => value(row, k, of), text, title }));
  if (layers.some(({ sides }) => sides.some((layer) => !onNpu(layer)))) {
    marks.forEach((mark, k) => columns.push({ name: `where ${mark}`, of: (row) => row.sides[k]?.where ?? "–" }));
  }
  for (const [name, title] of NUMBERS) {
    const of = (layer) => layer[name];
    if (name === "compute" || name === "memory") continue;
    both(name, of, number, title);
    if (name === "cycles" || name === "bytes") columns.push({ name: `${name} B − A`, of: (row) => difference(row, of), text: signed });
    if (name !== "cycles") continue;
    columns.push({ name: "cycles B / A", of: (row) => ratio(row, of), text: fixed });
    marks.forEach((mark, k) => columns.push({ name: `of peak ${mark}`, of: (row) => value(row, k, peak(k)), text: percent }));
  }
  const table = lathe.table(document.getElementById("layers"), columns, layers, { name: "Layers", pick: (row) => pair.selectLayer(row.at) });
  if (!chosen) return pair;

  // Bars of the cycles of one unit: A above B.
  const which = document.getElementById("cycles-unit"), shown = layers.filter(({ sides }) => sides.some(onNpu));
  const place = document.getElementById("cycles");
  function bars() {
    const unit = which.value, traces = [], narrow = place.clientWidth < 560, most = narrow ? 14 : 24;
    const flat = shown.flatMap((row, at) => row.sides.map((layer, k) => ({ row, layer: onNpu(layer), k, y: at + (k ? 0.2 : -0.2) })));
    const add = (name, kind, of) => {
      const found = flat.filter(({ layer }) => layer && of(layer));
      if (!found.length) return;
      traces.push({ type: "bar", orientation: "h", name, y: found.map((each) => each.y), x: found.map(({ layer }) => of(layer)), width: 0.36,
        uid: `${unit}-${kind.replace(/[^a-z]/g, "-")}`, marker: { color: lathe.kindColour(kind) }, customdata: found.map(({ row }) => row.at),
        text: found.map(({ row, k }) => plain(`${marks[k]}: ${row.name}`)), textposition: "none",
        hovertemplate: `%{text}<br>${plain(name)}: %{x} cycles<extra></extra>` });
    };
    for (const activity of lathe.activities[unit]) add(activity, activity, (layer) => layer.busy[activity] ?? 0);
    for (const cause of runs[0].causes) add(`waits: ${cause}`, cause, (layer) => layer.reasons[unit]?.[cause] ?? 0);
    const short = (name) => plain(name.length > most ? `${name.slice(0, most - 1)}…` : name), close = shown.length > 60;
    lathe.draw("cycles", traces, {
      barmode: "stack", height: Math.max(190, 70 + shown.length * Math.min(46, Math.max(close ? 14 : 26, 1100 / shown.length))), uirevision: "cycles",
      margin: { l: narrow ? 112 : 190, r: 12, t: 8, b: 44 },
      xaxis: { title: { text: `cycles of ${unit}`, standoff: 6 }, separatethousands: true, exponentformat: "none", fixedrange: narrow },
      yaxis: { autorange: false, range: [shown.length - 0.4, -0.6], fixedrange: true, showgrid: false, tickfont: { size: narrow ? 9 : 11 },
        tickvals: close ? shown.map((_, at) => at) : flat.map((each) => each.y),
        ticktext: close ? shown.map(({ name }) => short(name)) : flat.map(({ row, k }) => (k ? "B" : `${short(row.name)} A`)) },
    }, {}, true);
  }
  bars();
  which.addEventListener("change", bars);
  lathe.onTheme(bars);
  place.on("plotly_click", ({ points: [point] }) => pair.selectLayer(point.customdata));

  const SHADES = ["#2f7ed8", "#d9733a"], SYMBOLS = ["circle", "diamond"], DASHES = ["solid", "dash"];
  const rooflines = () => lathe.roofline("roofline",
    runs.map((run, k) => ({ name: `roof of ${marks[k]}`, peak: run.peak, bytes: run.bytes_per_cycle, line: { width: k ? 2 : 4, dash: DASHES[k], color: SHADES[k] } })),
    runs.map((_, k) => ({ reached: `${marks[k]} reached`, possible: `bound of ${marks[k]}`, colour: SHADES[k], symbol: SYMBOLS[k],
      layers: shown.map(({ sides }) => onNpu(sides[k])).filter(Boolean), pick: (own) => pair.selectLayer(pair.placeOf(k, own)) })),
    shown.map(({ sides }) => sides.map(onNpu)).filter((sides) => sides.every(Boolean)));
  rooflines();
  lathe.onTheme(rooflines);

  // Details of the selected layer.
  const tableOf = (name, head, rows, texts) => make("div", { class: "scroll" }, make("table", { class: "pairs", "aria-label": name },
    make("thead", {}, make("tr", {}, ...head.map((each, at) => make("th", { class: at < texts ? "" : "number" }, each)))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell, at) => make(at ? "td" : "th", at ? { class: at < texts ? "" : "number" } : { scope: "row" }, cell)))))));
  const host = (layer) => (layer ? `on the host CPU: ${layer.why}` : "this run has no layer of this name");
  pair.onLayer = (at) => {
    const row = layers[at], own = row.sides.map(onNpu), head = ["A", "B", "B − A"];
    const told = own.map((layer, k) => (layer ? null : make("p", { class: "note" }, `${marks[k]}: ${host(row.sides[k])}.`))).filter(Boolean);
    const facts = NUMBERS.map(([name]) => [name, ...[0, 1].map((k) => number(value(row, k, (layer) => layer[name]))),
      signed(difference(row, (layer) => layer[name])), fixed(ratio(row, (layer) => layer[name]))]);
    facts.push(["of peak", ...[0, 1].map((k) => percent(value(row, k, peak(k)))), "", ""], ["bound by", ...own.map((layer) => (layer ? lathe.limit(layer) : "")), "", ""]);
    const costs = [];
    for (const [unit, activities] of Object.entries(lathe.activities)) {
      const add = (what, of) => {
        const cycles = own.map((layer) => (layer ? of(layer) : null));
        if (cycles.some((each) => each)) costs.push([unit, what, ...cycles.map(number), signed(cycles.includes(null) ? null : cycles[1] - cycles[0])]);
      };
      for (const activity of activities) add(activity, (layer) => layer.busy[activity] ?? 0);
      for (const cause of runs[0].causes) add(`waits: ${cause}`, (layer) => layer.reasons[unit]?.[cause] ?? 0);
    }
    const ranges = own.map((layer, k) => layer && runs[k].range_of((i) => runs[k].columns.layer[i] === layer.at)).filter(Boolean);
    const go = make("button", { type: "button" }, "Show on the timelines");
    if (ranges.length) pair.goTo(go, Math.min(...ranges.map(([low]) => low)), Math.max(...ranges.map(([, high]) => high)));
    chosen.replaceChildren(make("h3", {}, row.name), ...told, ...(ranges.length ? [make("div", { class: "bar" }, go)] : []),
      make("div", { class: "two" }, tableOf("Layer", ["", ...head, "B / A"], facts, 1), tableOf("Cycles by unit", ["unit", "busy or waiting", ...head], costs, 2)));
    table.select(at);
  };
  return pair;
});
