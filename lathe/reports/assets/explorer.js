"use strict";
// The schedule explorer: levels side by side; a statement that is selected on one is highlighted on all.
lathe.origins = lathe.pictured.then(async (run) => {
  const known = await lathe.load("levels", ["text", "stage", "instruction", "origins", "chunks"]);
  if (!known) return { run, known };
  const stageOf = (i) => known.stages[known.stage_of[i]];
  let origins = [], chunks = [];
  run.origins_there = async () => {
    [origins, chunks] = await Promise.all([lathe.unpacked(known.origins), lathe.unpacked(known.chunks)]);
  };
  run.stage_of = stageOf;
  run.statement_of = (i) => stageOf(i)?.name ?? "";
  run.statement_at = (i) => origins[i] || "none";
  run.chunk_of = (i) => (known.chunk_of[i] < 0 ? "none" : chunks[known.chunk_of[i]]);
  return { run, known };
});
lathe.explorer = lathe.origins.then(({ run, known }) => {
  const place = document.getElementById("levels");
  if (!place || !known) return;
  const { make, grouped } = lathe, MOST = 3000, c = run.columns;
  const launch = document.getElementById("explorer-launch"), choice = document.getElementById("explorer-statement");
  const chosen = document.getElementById("selected");
  let shown = null, picked = null;

  known.launches.forEach((each, at) => launch.append(make("option", { value: at }, `launch ${each.launch}`)));
  launch.hidden = known.launches.length < 2;

  // Lines of the statement, and enclosing loops, which are found by indentation.
  function marksOf(level, statement) {
    const marked = new Uint8Array(level.lines.length);
    const depth = (line) => line.length - line.trimStart().length;
    const open = [];
    level.lines.forEach((line, at) => {
      const own = level.stages[at] >= 0 ? known.stages[level.stages[at]] : null, deep = depth(line);
      while (open.length && depth(level.lines[open.at(-1)]) >= deep) open.pop();
      if (own && own.statement === statement) {
        marked[at] = 2;
        if (level.nested) for (const around of open) marked[around] ||= 1;
      }
      if (!own && line.trimEnd().endsWith(":")) open.push(at);
    });
    return marked;
  }

  // The rows of a level from a line on; long levels are shown in pages.
  function fill(level, from) {
    level.from = from;
    level.rows = level.lines.slice(from, from + MOST).map((line, k) => {
      const stage = level.stages[from + k], row = make("div", { class: "line" }, line || " ");
      if (stage >= 0) {
        row.dataset.statement = known.stages[stage].statement;
        row.tabIndex = 0;
        row.setAttribute("role", "button");
      }
      const instruction = level.instructions[from + k];
      if (instruction >= 0) row.dataset.instruction = run.streams[shown.launch].first + instruction;
      return row;
    });
    level.box.replaceChildren(...level.rows);
    const last = from + level.rows.length;
    level.part.hidden = level.rows.length === level.lines.length;
    level.part.textContent = `Lines ${grouped(from + 1)} to ${grouped(last)}; lines of a selected statement are scrolled into view.`;
  }

  function mark() {
    for (const level of shown.levels) {
      const marked = picked === null ? null : marksOf(level, picked);
      const count = marked ? marked.reduce((sum, each) => sum + (each === 2), 0) : 0;
      const first = marked ? marked.indexOf(2) : -1;
      if (first >= 0 && (first < level.from || first >= level.from + MOST)) fill(level, Math.max(0, first - 50));
      level.rows.forEach((row, k) => {
        row.classList.toggle("marked", marked?.[level.from + k] === 2);
        row.classList.toggle("around", marked?.[level.from + k] === 1);
      });
      level.told.textContent = marked ? `${grouped(count)} of ${grouped(level.lines.length)} lines` : `${grouped(level.lines.length)} lines`;
      const row = first >= 0 ? level.rows[first - level.from] : null;
      if (row) level.box.scrollTop = Math.max(0, row.offsetTop - 40);
    }
    choice.value = picked ?? "";
  }

  async function show(at) {
    const { levels: given, launch: number } = known.launches[at];
    const found = await Promise.all(given.map(async (level) => {
      const [lines, stages, instructions] = await Promise.all([level.text, level.stage, level.instruction].map(lathe.unpacked));
      return { name: level.name, nested: level.name === "loops" || level.name === "chunks", lines, stages, instructions };
    }));
    shown = { launch: number, levels: found };
    place.replaceChildren(...found.map((level) => {
      level.told = make("span", { class: "told" });
      level.part = make("p", { class: "note part" });
      level.box = make("pre", { tabindex: 0, "aria-label": level.name });
      fill(level, 0);
      return make("div", { class: "level", "data-level": level.name }, make("h3", {}, level.name, " ", level.told), level.box, level.part);
    }));
    const names = [...new Set(known.stages.filter((stage) => stage.launch === number).map((stage) => stage.statement))];
    choice.replaceChildren(make("option", { value: "" }, "none"), ...names.map((name) => make("option", { value: name }, name)));
    mark();
  }

  function pick(statement) {
    picked = statement;
    mark();
    if (statement === null) {
      run.select(null);
      return;
    }
    const number = shown.launch;
    const marks = (i) => {
      const stage = run.stage_of(i);
      return stage !== undefined && stage.launch === number && stage.statement === statement;
    };
    run.select({ kind: "statement", statement, marks });
    tell(statement, marks);
  }

  function tell(statement, marks) {
    const busy = run.units.slice(0, -1).map(() => [0, 0, 0]);
    for (let i = 0; i < run.count; i++) {
      if (!marks(i)) continue;
      const of = busy[c.unit[i]];
      of[0]++;
      of[1] += c.length[i] - c.waited[i];
      of[2] += c.stalled[i] + c.waited[i];
    }
    const head = ["unit", "instructions", "busy cycles", "waiting cycles"];
    const table = make("table", { "aria-label": "Statement" },
      make("thead", {}, make("tr", {}, ...head.map((name, at) => make("th", { class: at ? "number" : "" }, name)))),
      make("tbody", {}, ...busy.map((of, unit) => make("tr", {}, make("td", {}, run.units[unit]),
        ...of.map((value) => make("td", { class: "number" }, grouped(value)))))));
    const stages = [...new Set(known.stages.filter((s) => s.launch === shown.launch && s.statement === statement).map((s) => s.name))];
    const range = run.range_of(marks);
    const go = make("button", { type: "button" }, "Show on the timeline");
    go.addEventListener("click", () => {
      lathe.timeline.show(...range);
      document.getElementById("timeline-part").scrollIntoView({ behavior: "smooth" });
    });
    const told = range ? `Cycles ${grouped(range[0])} to ${grouped(range[1])}; as ${stages.join(", ")}.`
      : "No instruction belongs to this statement alone: it is read in place, or inlined into its consumers.";
    chosen.replaceChildren(make("h3", {}, `Statement ${statement}`), make("p", { class: "note" }, told),
      ...(range ? [make("div", { class: "bar" }, go), make("div", { class: "scroll" }, table)] : []));
  }

  const choose = (event) => {
    if (event.type === "keydown" && event.key !== "Enter") return;
    const row = event.target.closest(".line");
    if (row?.dataset.statement === undefined) return;
    if (event.type === "click" && getSelection().toString()) return; // the reader is selecting text to copy
    pick(row.dataset.statement);
    if (row.dataset.instruction !== undefined) {
      const i = Number(row.dataset.instruction);
      run.select({ kind: "instruction", instruction: i, marks: run.selection.marks });
    }
  };
  place.addEventListener("click", choose);
  place.addEventListener("keydown", choose);
  choice.addEventListener("change", () => pick(choice.value === "" ? null : choice.value));
  launch.addEventListener("change", () => {
    picked = null;
    show(Number(launch.value));
  });
  return show(0);
});
