"use strict";
// The table of points, and the selected ones below it: metrics, machine and layers of one, or of two side by side.
lathe.sweep.then((sweep) => {
  const byId = (id) => document.getElementById(id), { make, grouped } = lathe, { told } = sweep;
  const USUAL = ["cycles", "time_us", "efficiency", "energy_pj", "bytes_read", "bytes_written", "bound_cycles"];
  const kept = sweep.columns.filter((each) => each.any);
  const first = (each) => each.role !== "metric" ? each.several || each.role === "workload" : USUAL.includes(each.name);
  const chosen = new Set(kept.filter(first).map((each) => each.name));
  let table = null;

  function listed() {
    const columns = kept.filter((each) => chosen.has(each.name)).map((each) => ({ name: sweep.title(each), of: each.of, text: (value) => sweep.short(told(value), each.role === "reason" ? 90 : 26) }));
    table = lathe.table(byId("points-table"), columns, sweep.points,
      { pick: sweep.pick, filter: false, name: "Points", most: 100, keep: (i) => sweep.seen[i] === 1 });
    table.select(sweep.selection.first);
  }
  byId("table-columns").append(...kept.map((each) => {
    const box = make("input", { type: "checkbox", value: each.name });
    box.checked = chosen.has(each.name);
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(each.name);
      else chosen.delete(each.name);
      listed();
    });
    return make("label", {}, box, ` ${sweep.title(each)}`);
  }));
  sweep.onSeen("table", () => table.refresh());

  // A table of names with the value of each selected point; for two points also the ratio of numbers.
  function compared(title, rows, points) {
    const two = points.length > 1;
    const head = make("tr", {}, make("th", {}, title), ...points.map((_, at) => make("th", { class: "number" }, two ? "AB"[at] : "")),
      ...(two ? [make("th", { class: "number" }, "B / A")] : []));
    const body = rows.map(({ name, values, note }) => {
      const differ = two && told(values[0]) !== told(values[1]);
      const row = make("tr", { class: differ ? "differs" : "" }, make("th", { scope: "row" }, ...name.split(/(?<=[._])/).flatMap((part) => [part, make("wbr")]), note ? make("span", { class: "told" }, ` ${note}`) : ""));
      row.append(...values.map((value) => make("td", { class: typeof value === "number" ? "number" : "number wrap" }, told(value))));
      if (two) row.append(make("td", { class: "number" }, ratio(values[0], values[1])));
      return row;
    });
    return make("div", {}, make("div", { class: "scroll" }, make("table", { class: "pairs" }, make("thead", {}, head), make("tbody", {}, ...body))));
  }
  const ratio = (a, b) => (typeof a === "number" && typeof b === "number" && a !== 0 ? (b / a).toFixed(3) : "");

  function show() {
    const points = [sweep.selection.first, sweep.selection.second].filter((i) => i !== null), two = points.length > 1;
    byId("points-bar").hidden = !points.length;
    byId("compare").setAttribute("aria-pressed", String(sweep.selection.comparing));
    byId("swap").hidden = byId("alone").hidden = !two;
    if (!points.length) return;
    table.select(points[0]);
    const of = (columns) => columns.filter((each) => points.some((i) => told(each.of(i)) !== "")).map((each) =>
      ({ name: each.name, note: sweep.unit(each), values: points.map(each.of) }));
    const swept = new Set(kept.filter((each) => each.role === "machine").map((each) => each.name));
    const machines = points.map(sweep.parameters), names = new Set(machines.flatMap((each) => [...each.keys()]));
    const machine = [...names].sort((a, b) => swept.has(b) - swept.has(a)).map((name) =>
      ({ name, note: swept.has(name) ? "swept" : "", values: machines.map((each) => each.get(name) ?? null) }));
    const work = of(kept.filter((each) => ["workload", "shape", "base", "status", "reason"].includes(each.role)));
    const config = [...of(kept.filter((each) => each.role === "machine" && !names.has(each.name))), ...machine];
    const heads = points.map((i, at) => make("h3", {}, `${two ? `${"AB"[at]}: ` : ""}${sweep.label(i)}`));
    byId("points").replaceChildren(...heads, make("div", { class: "two" },
      make("div", {}, compared("Point", work, points), compared("Configuration", config, points)),
      compared("Number", of(kept.filter((each) => each.role === "metric")), points)));
    layers(points);
  }

  function layers(points) {
    const found = points.map((i) => sweep.layers(i)), names = [...new Set(found.flat().map((each) => each.name))];
    const place = byId("layers-table");
    byId("layers-figure").hidden = !names.length;
    if (!names.length) {
      place.replaceChildren(make("p", { class: "note" }, "The layers of this point are not stored: it has no metrics, or was measured by an earlier version of Lathe."));
      return;
    }
    const shades = ["#2f7ed8", "#d9733a"], two = points.length > 1;
    const byName = found.map((rows) => new Map(rows.map((each) => [each.name, each])));
    const traces = points.map((_, at) => ({ type: "bar", orientation: "h", name: two ? "AB"[at] : "cycles", y: names.map((_, k) => k),
      x: names.map((name) => byName[at].get(name)?.cycles ?? 0), marker: { color: shades[at] },
      text: names.map((name) => lathe.plain(name)), textposition: "none", hovertemplate: "%{text}: %{x} cycles<extra></extra>" }));
    const most = 28, ticktext = names.map((name) => lathe.plain(name.length > most ? `…${name.slice(1 - most)}` : name));
    byId("layers").style.height = `${Math.max(150, 80 + names.length * (two ? 26 : 18))}px`;
    lathe.draw("layers", traces, { barmode: "group", margin: { l: 60, r: 14, t: 8, b: 44 },
      xaxis: { title: { text: "cycles of the layer" }, separatethousands: true, exponentformat: "none", rangemode: "tozero" },
      yaxis: { autorange: "reversed", tickvals: names.map((_, k) => k), ticktext, automargin: true } }, { displayModeBar: false }, two);
    const numbers = ["cycles", "bound", "macs", "bytes"].filter((column) => found.flat().some((each) => each[column] !== null));
    const columns = [{ name: "layer", of: (name) => name }];
    points.forEach((i, at) => {
      const total = sweep.named.get("cycles")?.of(i), mark = two ? ` ${"AB"[at]}` : "", of = (name) => byName[at].get(name);
      for (const column of numbers) columns.push({ name: `${column}${mark}`, of: (name) => of(name)?.[column] ?? null, text: told });
      columns.push({ name: `share${mark}`, of: (name) => (of(name) && total ? of(name).cycles / total : null), text: (share) => (share === null ? "" : `${(100 * share).toFixed(1)}\u202f%`) });
    });
    if (two) columns.push({ name: "cycles B / A", of: (name) => (byName[0].get(name)?.cycles ? (byName[1].get(name)?.cycles ?? 0) / byName[0].get(name).cycles : null), text: (value) => (value === null ? "" : value.toFixed(3)) });
    lathe.table(place, columns, names, { filter: names.length > 12, name: "Layers" });
  }

  byId("compare").addEventListener("click", () => {
    sweep.selection.comparing = !sweep.selection.comparing;
    sweep.tell();
  });
  byId("swap").addEventListener("click", () => {
    const chosen = sweep.selection;
    [chosen.first, chosen.second] = [chosen.second, chosen.first];
    sweep.tell();
  });
  byId("alone").addEventListener("click", () => {
    Object.assign(sweep.selection, { second: null, comparing: false });
    sweep.tell();
  });
  sweep.onSelect(show);
  listed();
  sweep.refresh("table");
});
