"use strict";
// Instructions: the list, and details of the selected one.
lathe.origins.then(async ({ run }) => {
  const place = document.getElementById("instructions");
  if (!place) return;
  const { make, grouped } = lathe, MOST = 200, c = run.columns;
  const chosen = document.getElementById("selected"), told = document.getElementById("instructions-told");
  const find = document.getElementById("find-instruction");
  let lines = null, shown = [], page = 0, marks = null, current = -1;

  const text = (i) => lines?.[i] ?? "";
  const statement = (i) => run.statement_of?.(i) ?? "";
  const columns = ["number", "unit", "layer", ...(run.statement_of ? ["statement"] : []), "begins", "cycles", "waited before", "for", "assembly"];

  function cells(i) {
    return [grouped(i), run.units[c.unit[i]], run.layers[c.layer[i]].name, ...(run.statement_of ? [statement(i)] : []),
      grouped(run.begin[i]), grouped(c.length[i]), grouped(c.stalled[i]), c.stalled[i] ? run.causes[c.cause[i]] : "", text(i)];
  }
  const isNumber = (name) => ["number", "begins", "cycles", "waited before"].includes(name);
  const head = make("thead", {}, make("tr", {}, ...columns.map((name) => make("th", { class: isNumber(name) ? "number" : "" }, name))));
  const body = make("tbody");
  place.replaceChildren(make("table", { "aria-label": "Instructions" }, head, body));

  function fill() {
    const word = find.value.trim().toLowerCase();
    shown = [];
    for (let i = 0; i < run.count; i++) {
      if ((!marks || marks(i)) && (!word || text(i).toLowerCase().includes(word))) shown.push(i);
    }
    page = 0;
    rows();
  }
  function rows() {
    const from = page * MOST, part = shown.slice(from, from + MOST);
    body.replaceChildren(...part.map((i) => {
      const row = make("tr", { "data-pick": i, tabindex: 0, "aria-selected": i === current });
      cells(i).forEach((value, at) => row.append(make("td", { class: isNumber(columns[at]) ? "number" : at === columns.length - 1 ? "code" : "" }, value)));
      return row;
    }));
    told.textContent = shown.length
      ? `${grouped(from + 1)} to ${grouped(from + part.length)} of ${grouped(shown.length)}` : "none";
  }
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-pick]");
    if (row) choose(Number(row.dataset.pick));
  });
  body.addEventListener("keydown", (event) => {
    const row = event.target.closest("tr[data-pick]");
    if (row && event.key === "Enter") choose(Number(row.dataset.pick));
  });
  document.addEventListener("click", (event) => {
    const step = event.target.closest("button[data-page]")?.dataset.page;
    if (step) {
      page = Math.min(Math.max(0, page + Number(step)), Math.max(0, Math.ceil(shown.length / MOST) - 1));
      rows();
    }
  });
  find.addEventListener("input", fill);
  document.getElementById("all-instructions").addEventListener("click", () => {
    find.value = "";
    marks = null;
    fill();
  });

  const choose = (i) => run.select({ kind: "instruction", instruction: i, marks: (k) => k === i });
  const other = (i) => {
    const button = make("button", { type: "button" }, `${grouped(i)} ${text(i)}`);
    button.addEventListener("click", () => choose(i));
    return button;
  };
  function tell(i) {
    const go = make("button", { type: "button" }, "Show on the timeline");
    go.addEventListener("click", () => {
      const width = Math.max(200, 6 * c.length[i]);
      lathe.timeline.show(run.begin[i] - width / 2, run.boundary[i] + width / 2);
      document.getElementById("timeline-part").scrollIntoView({ behavior: "smooth" });
    });
    chosen.replaceChildren(make("h3", {}, `Instruction ${grouped(i)}`), make("div", { class: "bar" }, go), lathe.factsOf(run, i, text(i), other));
  }
  run.onSelect((selection) => {
    if (selection?.kind === "instruction") {
      current = selection.instruction;
      tell(current);
      const at = shown.indexOf(current);
      if (at >= 0) page = Math.floor(at / MOST);
      rows();
    } else {
      marks = selection?.marks ?? null;
      fill();
    }
  });
  fill();
  lines = await lathe.unpacked(run.assembly);
  await run.origins_there?.();
  rows();
});
