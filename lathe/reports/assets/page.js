"use strict";
// Shared by all pages: decoding of data, figures in light and dark themes, saving them. Text is never parsed as HTML.
const lathe = (() => {
  const KINDS = {
    i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array, f8: Float64Array,
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const figures = new Map();

  function bytesOf(base64) {
    const text = atob(base64), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }
  const has = (value, key) => value !== null && typeof value === "object" && key in value;
  const column = ({ dtype, bdata }) => new KINDS[dtype](bytesOf(bdata).buffer);

  async function unpacked({ dtype, deflated }) {
    const stream = new Blob([bytesOf(deflated)]).stream().pipeThrough(new DecompressionStream("deflate"));
    const buffer = await new Response(stream).arrayBuffer();
    return dtype === "lines" ? new TextDecoder().decode(buffer).split("\n") : new KINDS[dtype](buffer);
  }

  // The data of a name, with columns decoded to typed arrays.
  function data(name) {
    const place = document.getElementById(`data-${name}`);
    return place && JSON.parse(place.textContent, (_, value) => (has(value, "bdata") ? column(value) : value));
  }

  // A promise of the same, with packed values unpacked, except those named in `later`, for `lathe.unpacked`.
  async function load(name, later = []) {
    const value = data(name), jobs = [];
    const visit = (inside) => {
      for (const [key, each] of Object.entries(inside)) {
        if (has(each, "deflated")) {
          if (!later.includes(key)) jobs.push(unpacked(each).then((made) => { inside[key] = made; }));
        } else if (each !== null && typeof each === "object" && !ArrayBuffer.isView(each)) visit(each);
      }
    };
    if (value) visit(value);
    await Promise.all(jobs);
    return value;
  }

  // Text escaped for the plotting library, which interprets tags and entities.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  const grouped = (number) =>
    Number.isInteger(number) ? String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f") : Number(number.toPrecision(4)).toString();

  // Create an element with attributes and children, which are elements or text.
  function make(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  const colours = new Map(); // of the current theme
  function colour(name) {
    if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
    return colours.get(name);
  }

  function themed(layout) {
    const text = colour("text"), line = colour("line"), made = { ...layout };
    for (const [key, value] of Object.entries(layout)) {
      if (/^[xy]axis\d*$/.test(key)) {
        made[key] = { gridcolor: line, linecolor: line, zerolinecolor: line, ticks: "outside", tickcolor: line, ...value };
      }
    }
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
      hoverlabel: { bgcolor: colour("panel"), bordercolor: line, font: { color: text, family: "system-ui, sans-serif" } },
      ...made, font: { color: text, size: 12, family: "system-ui, sans-serif", ...layout.font },
    };
  }

  // Disables the library's offer to send a figure to its vendor's server.
  const CONFIG = { responsive: true, displaylogo: false, scrollZoom: false, showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["lasso2d", "select2d", "toImage", "autoScale2d"] };

  // Draw or redraw a figure, with a clickable legend below it if `legend`. Returns a promise.
  const hidden = new Map();
  function draw(name, traces, layout, config = {}, legend = false) {
    figures.set(name, { traces, layout, config, legend });
    const place = document.getElementById(name);
    if (layout.height) place.style.height = `${layout.height}px`;
    if (!legend) return Plotly.react(place, traces, themed(layout), { ...CONFIG, ...config });
    const off = hidden.get(name) ?? hidden.set(name, new Set()).get(name);
    const groupOf = (trace) => trace.legendgroup ?? trace.name;
    tellLegend(name, place, traces, off, groupOf);
    const seen = traces.map((trace) => (off.has(groupOf(trace)) ? { ...trace, visible: false } : trace));
    return Plotly.react(place, seen, themed({ ...layout, showlegend: false }), { ...CONFIG, ...config });
  }

  // The legend is HTML below the figure: it wraps, and does not shrink the plot.
  function tellLegend(name, place, traces, off, groupOf) {
    const figure = place.closest("figure");
    let list = figure.querySelector(".legend");
    if (!list) {
      list = make("div", { class: "legend", role: "group", "aria-label": "Legend: click to hide or show" });
      place.after(list);
      list.addEventListener("click", (event) => {
        const button = event.target.closest("button[data-group]");
        if (!button) return;
        const group = button.dataset.group;
        if (!off.delete(group)) off.add(group);
        const last = figures.get(name);
        draw(name, last.traces, last.layout, last.config, true);
      });
    }
    const groups = new Map();
    for (const trace of [...traces].sort((a, b) => (a.legendrank ?? 0) - (b.legendrank ?? 0))) {
      if (trace.showlegend !== false && !groups.has(groupOf(trace))) groups.set(groupOf(trace), trace);
    }
    for (const group of off) if (!groups.has(group)) groups.set(group, null);
    const key = JSON.stringify([[...groups.keys()], [...off], dark.matches]);
    if (list.dataset.key === key) return;
    list.dataset.key = key;
    list.replaceChildren(...[...groups].filter(([, trace]) => trace).map(([group, trace]) => {
      const line = trace.mode === "lines" && !trace.fillcolor, shade = trace.fillcolor ?? trace.line?.color ?? trace.marker?.color;
      const swatch = make("span", { class: line ? "swatch stroke" : trace.mode?.startsWith("markers") ? "swatch dot" : "swatch" });
      if (trace.marker?.symbol?.endsWith("-open")) swatch.style.border = `2px solid ${shade}`;
      else swatch.style.background = shade;
      return make("button", { type: "button", "data-group": group, "aria-pressed": String(!off.has(group)) }, swatch, trace.name);
    }));
  }

  dark.addEventListener("change", () => {
    colours.clear();
    for (const [name, { traces, layout, config, legend }] of figures) draw(name, traces, layout, config, legend);
  });
  // Called when the colour scheme changes, for figures whose traces have colours of the theme.
  const onTheme = (redraw) => dark.addEventListener("change", () => redraw());
  const isDark = () => dark.matches;

  // The figure as an image file, with the page's background colour.
  async function image(name, format) {
    const place = document.getElementById(name);
    const { data: traces, layout } = place;
    const { legend, traces: given } = figures.get(name) ?? {}, width = Math.max(place.clientWidth, 480);
    const below = legend ? 40 + 20 * Math.ceil(given.length / Math.floor(width / 170)) : 0, plot = place.clientHeight;
    const made = { ...layout, paper_bgcolor: colour("back"), width, height: plot + below };
    if (legend) { // HTML on the page, but part of the figure in the file
      Object.assign(made, { showlegend: true, margin: { ...layout.margin, b: (layout.margin?.b ?? 80) + below },
        legend: { orientation: "h", x: 0, xanchor: "left", yref: "container", y: 0.005, yanchor: "bottom" } });
    }
    return Plotly.toImage({ data: traces, layout: made }, { format, width, height: plot + below, scale: format === "png" ? 2 : 1 });
  }

  // Ticks 1, 2, 5, 10, ... of a logarithmic axis, written in full below a million, as powers of ten above.
  function logTicks(low, high) {
    const tickvals = [], ticktext = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const digit of [1, 2, 5]) {
        const value = Number(`${digit}e${power}`);
        if (value < low || value > high) continue;
        tickvals.push(value);
        ticktext.push(value < 1e6 ? grouped(value) : `${digit > 1 ? `${digit}×` : ""}10<sup>${power}</sup>`);
      }
    }
    return { tickvals, ticktext };
  }
  async function save(name, format) {
    const link = make("a", { href: await image(name, format), download: `${name}.${format}` });
    link.click();
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.save");
    if (button) save(button.dataset.figure, button.dataset.format);
  });

  return { data, load, unpacked, plain, grouped, make, colour, onTheme, isDark, draw, image, save, logTicks };
})();
