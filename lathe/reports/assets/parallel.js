"use strict";
// Parallel coordinates: an axis for each varying column, a line for each point; ranges on axes are filters.
lathe.sweep.then((sweep) => {
  // From low to high values; each colour contrasts with the page's background.
  const ON_LIGHT = [[0, "#440154"], [0.33, "#3b6fb5"], [0.66, "#1f8f80"], [1, "#85860f"]];
  const ON_DARK = [[0, "#fde725"], [0.33, "#5ec962"], [0.66, "#2bb3ab"], [1, "#8a8ff0"]];
  const place = document.getElementById("parallel");
  if (!place) return;
  const ROOM = 92; // minimum width of an axis in pixels; the figure scrolls horizontally on narrower pages
  const varies = (each) => each.several && sweep.points.some((i) => sweep.isMeasured(i) && each.of(i) !== null);
  const inputs = sweep.columns.filter((each) => ["workload", "shape", "base", "machine"].includes(each.role) && varies(each));
  const metrics = sweep.metrics.filter(varies);
  const usual = ["cycles", "efficiency", "time_us", "energy_pj"].filter((name) => metrics.some((each) => each.name === name));
  const every = [...inputs, ...metrics];
  const first = [...inputs].sort((a, b) => (b.role === "machine") - (a.role === "machine")).slice(0, 9);
  const chosen = new Set([...first, ...metrics.filter((each) => usual.includes(each.name))].map((each) => each.name));
  const ranges = new Map();

  // Texts and few distinct numbers are spaced evenly; otherwise a missing number is at the low end.
  const scales = new Map(every.map((each) => {
    const points = sweep.points.filter(sweep.isMeasured), values = [...new Set(points.map(each.of))];
    const known = values.filter((value) => value !== null), few = each.role !== "metric" && values.length <= 16;
    known.sort((a, b) => (each.number ? a - b : String(a).localeCompare(String(b))));
    const steps = !each.number || few ? [...(known.length < values.length ? [null] : []), ...known] : null;
    return [each.name, { steps, at: new Map(steps?.map((value, at) => [value, at])), low: known[0] }];
  }));
  const placed = (each) => {
    const { steps, at, low } = scales.get(each.name);
    return steps ? (i) => at.get(each.of(i)) : (i) => each.of(i) ?? low;
  };

  const colour = document.getElementById("parallel-colour");
  const numeric = every.filter((each) => each.number);
  colour.replaceChildren(...numeric.map((each) => lathe.make("option", { value: each.name }, sweep.title(each))));
  colour.value = usual[0] ?? numeric[0]?.name ?? "";

  const checks = document.getElementById("parallel-axes");
  checks.append(...every.map((each) => {
    const box = lathe.make("input", { type: "checkbox", value: each.name });
    box.checked = chosen.has(each.name);
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(each.name);
      else {
        chosen.delete(each.name);
        ranges.delete(each.name);
        sweep.marks.delete(each.name);
        sweep.refresh("parallel");
      }
      draw();
    });
    return lathe.make("label", {}, box, ` ${sweep.title(each)}`);
  }));

  const scroll = lathe.make("div", { class: "sideways" });
  place.replaceWith(scroll);
  scroll.append(place);
  let axes = [];

  function draw() {
    const points = sweep.points.filter((i) => sweep.isMeasured(i));
    axes = every.filter((each) => chosen.has(each.name));
    const dimensions = axes.map((each) => {
      const made = { label: lathe.plain(each.name), constraintrange: ranges.get(each.name) }, values = points.map(placed(each));
      const { steps } = scales.get(each.name);
      if (!steps) return { ...made, values, tickformat: values.some((value) => Math.abs(value) >= 1e4) ? ".3~s" : ".4~g" };
      return { ...made, values, range: [-0.4, Math.max(1, steps.length - 1) + 0.4], tickvals: steps.map((_, at) => at), ticktext: steps.map(told) };
    });
    place.style.minWidth = `${Math.max(1, axes.length) * ROOM}px`;
    const by = sweep.named.get(colour.value), dark = lathe.isDark();
    const line = by && {
      color: points.map((i) => by.of(i) ?? 0), colorscale: dark ? ON_DARK : ON_LIGHT, showscale: true,
      colorbar: { title: { text: lathe.plain(sweep.title(by)), side: "right" }, thickness: 12, outlinewidth: 0, exponentformat: "power", minexponent: 5, separatethousands: true },
    };
    const text = lathe.colour("text");
    const trace = { type: "parcoords", dimensions, line, labelangle: -18, labelfont: { size: 12, color: text },
      tickfont: { size: 11, color: text, shadow: "none" }, rangefont: { size: 10, color: lathe.colour("quiet") },
      unselected: { line: { color: "rgb(128,128,128)", opacity: 0.07 } } };
    return lathe.draw("parallel", [trace], { margin: { l: 64, r: 30, t: 76, b: 26 } }, { displayModeBar: false });
  }
  const told = (value) => lathe.plain(value === null ? "none" : typeof value === "number" ? lathe.grouped(value) : sweep.short(value, 14));

  // Ranges that the reader has marked; several on one axis are a list of pairs.
  function marked() {
    const dimensions = place.data[0].dimensions;
    dimensions.forEach((dimension, at) => {
      const each = axes[at], range = dimension.constraintrange;
      if (!range) {
        ranges.delete(each.name);
        sweep.marks.delete(each.name);
        return;
      }
      ranges.set(each.name, range);
      const pairs = Array.isArray(range[0]) ? range : [range];
      const value = placed(each);
      sweep.marks.set(each.name, (i) => {
        const own = value(i);
        return sweep.isMeasured(i) && pairs.some(([low, high]) => own >= low && own <= high);
      });
    });
    sweep.refresh("parallel");
  }
  sweep.onClear(() => {
    ranges.clear();
    draw();
  });
  colour.addEventListener("change", draw);
  lathe.onTheme(draw);
  // After the first figure of the page, so as not to delay it.
  requestAnimationFrame(() => setTimeout(() => draw().then(() => place.on("plotly_restyle", marked))));
});
