"use strict";
// The points of a sweep by two metrics, with the Pareto front of each workload.
lathe.sweep.then((sweep) => {
  if (!document.getElementById("front")) return;
  const MANY = 3000; // points beyond which the figure is drawn on the GPU
  const MOST = 30; // workloads with a line for the front, at most
  const byId = (id) => document.getElementById(id);
  const controls = ["x", "x-best", "y", "y-best", "x-log", "y-log"].map((name) => byId(`front-${name}`));
  const [x, xBest, y, yBest, xLog, yLog] = controls;
  const choose = (select, options, chosen) => {
    select.replaceChildren(...options.map(([value, text]) => lathe.make("option", { value }, text)));
    select.value = chosen;
  };
  const names = sweep.metrics.map((each) => each.name);
  const preferred = (...wanted) => wanted.find((name) => names.includes(name)) ?? names[0];
  const across = preferred("time_us", "cycles");
  choose(x, names.map((name) => [name, sweep.title(sweep.named.get(name))]), across);
  choose(y, names.map((name) => [name, sweep.title(sweep.named.get(name))]), preferred("energy_pj", ...names.filter((name) => name !== across)));
  for (const [best, axis] of [[xBest, x], [yBest, y]]) {
    choose(best, [["small", "small"], ["great", "great"]], "small");
    const follow = () => { best.value = sweep.named.get(axis.value).great ? "great" : "small"; };
    axis.addEventListener("change", follow);
    follow();
  }
  for (const [log, axis] of [[xLog, x], [yLog, y]]) { // a logarithmic axis for wide ranges of values
    const follow = () => {
      const values = sweep.points.filter(sweep.isMeasured).map(sweep.named.get(axis.value).of).filter((value) => value > 0);
      log.checked = values.reduce((a, b) => Math.max(a, b), 0) > 50 * values.reduce((a, b) => Math.min(a, b), Infinity);
    };
    axis.addEventListener("change", follow);
    follow();
  }

  const groups = new Map();
  for (const i of sweep.points) {
    if (!sweep.isMeasured(i)) continue;
    const name = sweep.workload(i);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(i);
  }
  const workloads = [...groups.keys()];
  const shades = new Map(workloads.map((name, at) => [name, sweep.COLOURS[at % sweep.COLOURS.length]]));

  // The Pareto front, in the order of the first metric, including equal points.
  function front(points, xs, ys, signs) {
    const sorted = [...points].sort((a, b) => signs[0] * (xs(a) - xs(b)) || signs[1] * (ys(a) - ys(b)));
    const best = [];
    let least = Infinity, at = NaN;
    for (const i of sorted) {
      const value = signs[1] * ys(i);
      if (value < least || (value === least && xs(i) === at)) best.push(i);
      if (value < least) [least, at] = [value, xs(i)];
    }
    return best;
  }

  const on = () => {
    const of = [sweep.named.get(x.value).of, sweep.named.get(y.value).of];
    const signs = [xBest, yBest].map((each) => (each.value === "great" ? -1 : 1));
    return { of, signs };
  };
  const known = ({ of }) => (i) => sweep.seen[i] && of[0](i) !== null && of[1](i) !== null;
  const axisOf = (select, log, points, of) => {
    const type = log.checked ? "log" : "linear", title = { text: lathe.plain(sweep.title(sweep.named.get(select.value))) };
    const made = { title: { ...title, standoff: 12 }, type, zeroline: false, separatethousands: true, exponentformat: "power", minexponent: 6, automargin: true };
    const values = points.map(of).filter((value) => value > 0);
    return type === "log" && values.length ? { ...made, ...logged(values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))) } : made;
  };
  const logged = (low, high) => (high / low < 1e4 ? lathe.logTicks(low / 2, high * 2) : { exponentformat: "power", dtick: 1 });

  function draw() {
    const { of, signs } = on(), isKnown = known({ of });
    const drawn = [...groups].map(([name, points]) => [name, points.filter(isKnown)]).filter(([, points]) => points.length);
    const count = drawn.reduce((sum, [, points]) => sum + points.length, 0), type = count > MANY ? "scattergl" : "scatter";
    const traces = [], on_front = [];
    drawn.forEach(([name, points], rank) => {
      const best = front(points, of[0], of[1], signs), colour = shades.get(name), inFront = new Set(best);
      const rest = points.filter((i) => !inFront.has(i));
      const trace = (kept, more) => ({
        type, x: kept.map(of[0]), y: kept.map(of[1]), customdata: kept, legendgroup: name, name: lathe.plain(name),
        hovertemplate: "%{text}<extra></extra>", text: kept.map(hover), legendrank: rank, ...more,
      });
      on_front.push(...best);
      traces.push(trace(rest, { mode: "markers", marker: { color: colour, size: 5, opacity: 0.45 }, showlegend: false }));
      const lines = drawn.length <= MOST ? "lines+markers" : "markers";
      traces.push(trace(best, { type: "scatter", mode: lines, line: { color: colour, width: 1.5 }, marker: { color: colour, size: 9 },
        showlegend: drawn.length > 1 && drawn.length <= MOST }));
    });
    for (const [i, symbol] of [[sweep.selection.first, "circle-open"], [sweep.selection.second, "diamond-open"]]) {
      if (i === null || !isKnown(i)) continue;
      traces.push({ type: "scatter", mode: "markers", x: [of[0](i)], y: [of[1](i)], showlegend: false, hoverinfo: "skip",
        name: symbol, legendgroup: symbol, marker: { symbol, size: 17, color: lathe.colour("text"), line: { width: 2 } } });
    }
    const all = drawn.flatMap(([, points]) => points);
    const layout = { xaxis: axisOf(x, xLog, all, of[0]), yaxis: axisOf(y, yLog, all, of[1]), margin: { l: 60, r: 14, t: 12, b: 48 },
      showlegend: false, hovermode: "closest" };
    byId("front-told").textContent = `${lathe.grouped(on_front.length)} of ${lathe.grouped(count)} points are on the Pareto front`
      + (groups.size > 1 ? " of their workload" : "") + ".";
    const { first } = sweep.selection;
    if (first !== null) byId("front-told").append(" Selected: ", lathe.make("a", { href: "#points-part" }, sweep.label(first)));
    sweep.front = on_front;
    return lathe.draw("front", traces, layout, { scrollZoom: false }, drawn.length > 1 && drawn.length <= MOST);
  }
  function hover(i) {
    const lines = [sweep.label(i), ...[x, y].map((each) => `${each.value} ${sweep.told(sweep.named.get(each.value).of(i))}`)];
    return lines.map(lathe.plain).join("<br>");
  }

  for (const each of controls) each.addEventListener("change", draw);
  sweep.onSeen("front", draw);
  sweep.onSelect(draw);
  lathe.onTheme(draw); // the marks of selected points
  draw().then((place) => place.on("plotly_click", ({ points }) => {
    const i = points[0].customdata;
    if (i !== undefined) sweep.pick(i);
  }));
});
