"use strict";
// Rooflines: MACs per cycle of layers over MACs per byte, below the roof of the machine's bus and multipliers.
lathe.activities = { load: ["load"], compute: ["gemm", "alu", "transfer"], store: ["store"] }; // by unit
lathe.limit = (layer) => (layer.memory > layer.compute ? "memory" : "compute"); // what limits a layer

// roofs: [{ name, peak, bytes, line }], in MACs and bytes per cycle. series: [{ reached, possible, layers, colour,
// symbol, pick }]: the names of filled and open marks, for layers with MACs and bytes; pick(layer.at) is called for one
// that is clicked. joins: pairs of layers whose filled marks are joined by a line.
lathe.roofline = (name, roofs, series, joins = []) => {
  const place = document.getElementById(name), { plain } = lathe;
  const has = (layer) => layer && layer.macs && layer.bytes && layer.cycles;
  const shown = series.map((each) => ({ ...each, layers: each.layers.filter(has) })), points = shown.flatMap((each) => each.layers);
  if (!points.length) {
    place.replaceChildren("No layer has both MACs and DRAM traffic.");
    place.style.height = "auto";
    return;
  }
  const intensity = (layer) => layer.macs / layer.bytes, reached = (layer) => layer.macs / layer.cycles;
  const possible = (layer) => layer.macs / Math.max(1, layer.bound), ridge = (roof) => roof.peak / roof.bytes;
  const low = Math.min(...roofs.map(ridge), ...points.map(intensity)) / 2, high = Math.max(...roofs.map(ridge), ...points.map(intensity)) * 2;
  const least = Math.min(...points.map(reached), ...points.map(possible), ...roofs.map((roof) => low * roof.bytes)) / 1.5;
  const most = Math.max(...roofs.map((roof) => roof.peak)) * 1.5;
  // Marks are labelled if there are few layers, and each name only once.
  const narrow = place.clientWidth < 560, most_named = narrow ? 6 : 16, taken = [];
  const share = (value, from, to) => Math.log(value / from) / Math.log(to / from);
  const label = (layer) => {
    const x = share(intensity(layer), low, high) * (place.clientWidth - 74), y = share(reached(layer), least, most) * 384, width = 3.2 * layer.name.length;
    if (points.length > most_named || taken.some((other) => Math.abs(x - other.x) < width + other.width && Math.abs(y - other.y) < 13)) return "";
    taken.push({ x, y, width });
    return plain(layer.name);
  };
  const marks = (layers, of, title, symbol, { colour }, told) => ({ type: "scatter", name: title, x: layers.map(intensity),
    mode: of === reached ? "markers+text" : "markers", textposition: "bottom center", textfont: { size: 10 }, cliponaxis: false,
    y: layers.map(of), text: of === reached ? layers.map(label) : [], hovertext: layers.map((layer) => plain(layer.name)), customdata: layers.map((layer) => layer.at),
    marker: { size: 10, color: colour, symbol }, hovertemplate: told });
  const traces = [], picks = [];
  const add = (trace, pick = null) => {
    traces.push(trace);
    picks.push(pick);
  };
  for (const roof of roofs) {
    add({ type: "scatter", mode: "lines", name: roof.name, x: [low, ridge(roof), high], y: [low * roof.bytes, roof.peak, roof.peak],
      line: { color: lathe.colour("text"), ...roof.line }, hovertemplate: `${plain(roof.name)}: %{y:.4~g} MACs per cycle<extra></extra>` });
  }
  const dotted = (lines) => {
    const x = lines.flatMap(([a, , b]) => [a, b, null]), y = lines.flatMap(([, a, , b]) => [a, b, null]);
    add({ type: "scatter", mode: "lines", x, y, line: { color: lathe.colour("quiet"), width: 1, dash: "dot" }, hoverinfo: "skip", showlegend: false });
  };
  if (joins.length) dotted(joins.filter((pair) => pair.every(has)).map(([a, b]) => [intensity(a), reached(a), intensity(b), reached(b)]));
  else dotted(points.map((layer) => [intensity(layer), reached(layer), intensity(layer), possible(layer)]));
  for (const each of shown.filter(({ layers }) => layers.length)) {
    add(marks(each.layers, reached, each.reached, each.symbol, each, "%{hovertext}<br>%{y:.4~g} MACs per cycle, %{x:.4~g} per byte<extra></extra>"), each.pick);
    add(marks(each.layers, possible, each.possible, `${each.symbol}-open`, each, "%{hovertext}<br>at most %{y:.4~g} MACs per cycle by its lower bound<extra></extra>"), each.pick);
  }
  const axis = (title, from, to) => ({ type: "log", title: { text: title, standoff: 6, font: { size: narrow ? 10 : 12 } }, ...lathe.logTicks(from, to), range: [Math.log10(from), Math.log10(to)] });
  lathe.draw(name, traces, {
    height: 440, margin: { l: 62, r: 12, t: 8, b: 48 }, uirevision: name,
    xaxis: axis("multiply-accumulates per byte of DRAM", low, high), yaxis: axis("multiply-accumulates per cycle", least, most),
  }, {}, true);
  if (!place.picks) place.on("plotly_click", ({ points: [point] }) => place.picks[point.curveNumber]?.(point.customdata));
  place.picks = picks;
};
