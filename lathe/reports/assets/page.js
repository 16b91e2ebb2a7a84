"use strict";
// What every page has: its data, figures in light and dark, saving them, tables. Text goes into the page as text only.
const lathe = (() => {
  const KINDS = { u1: Uint8Array, u2: Uint16Array, i4: Int32Array, f8: Float64Array };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const figures = new Map();

  function column({ dtype, bdata }) {
    const text = atob(bdata), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new KINDS[dtype](bytes.buffer);
  }
  const isColumn = (value) => value !== null && typeof value === "object" && "bdata" in value && "dtype" in value;

  // The value of a name, with typed arrays in the places of columns.
  function data(name) {
    const place = document.getElementById(`data-${name}`);
    return place && JSON.parse(place.textContent, (_, value) => (isColumn(value) ? column(value) : value));
  }

  // Text for the plotting library, which reads tags and entities in what it is given.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  const grouped = (number) =>
    Number.isInteger(number) ? String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f") : Number(number.toPrecision(4)).toString();

  // An element with attributes and children, which are elements or text.
  function make(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

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

  const CONFIG = { responsive: true, displaylogo: false, scrollZoom: true,
    modeBarButtonsToRemove: ["lasso2d", "select2d", "toImage", "autoScale2d"] };

  // Draw a figure in its place, or draw it anew. Returns a promise of the element.
  function draw(name, traces, layout, config = {}) {
    figures.set(name, { traces, layout, config });
    return Plotly.react(name, traces, themed(layout), { ...CONFIG, ...config });
  }

  dark.addEventListener("change", () => {
    for (const [name, { traces, layout, config }] of figures) draw(name, traces, layout, config);
  });

  // As a file; in the file the paper has the page's colour, so that it can be read.
  async function image(name, format) {
    const place = document.getElementById(name);
    const { data: traces, layout } = place;
    const width = Math.max(place.clientWidth, 480), height = place.clientHeight;
    return Plotly.toImage({ data: traces, layout: { ...layout, paper_bgcolor: colour("back") } },
      { format, width, height, scale: format === "png" ? 2 : 1 });
  }
  async function save(name, format) {
    const link = make("a", { href: await image(name, format), download: `${name}.${format}` });
    link.click();
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.save");
    if (button) save(button.dataset.figure, button.dataset.format);
  });

  return { data, plain, grouped, make, colour, draw, image, save };
})();
