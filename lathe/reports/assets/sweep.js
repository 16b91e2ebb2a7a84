"use strict";
// A sweep: its columns as numbers and texts, the filter, and the selection.
lathe.sweep = (async () => {
  const sweep = await lathe.load("sweep");
  const columnOf = (given) => {
    const { values, codes, texts } = given, number = values !== undefined;
    const of = number ? (i) => (Number.isNaN(values[i]) ? null : values[i]) : (i) => (codes[i] < 0 ? null : texts[codes[i]]);
    return { ...given, number, of };
  };
  const columns = sweep.columns.map(columnOf);
  const named = new Map(columns.map((each) => [each.name, each]));
  const points = Array.from({ length: sweep.count }, (_, i) => i);
  const status = named.get("status");
  const isMeasured = (i) => status.of(i) === "ok";
  const told = (value) => (value === null || value === undefined ? "" : typeof value === "number" ? lathe.grouped(value) : String(value));
  // Some columns are named like their unit, such as "cycles" or "bound_cycles".
  const unit = (column) => (column.name.split(/[._]/).at(-1) === column.unit ? "" : column.unit);
  const title = (column) => (unit(column) ? `${column.name} [${unit(column)}]` : column.name);
  const short = (text, most = 26) => (text.length > most ? `…${text.slice(1 - most)}` : text);
  for (const each of columns) {
    each.several = new Set(points.map(each.of)).size > 1;
    each.any = points.some((i) => each.of(i) !== null);
  }
  const metrics = columns.filter((each) => each.number && each.role === "metric" && points.some((i) => isMeasured(i) && each.of(i) !== null));

  // The label of a point: its workload with varying shape parameters, and its base with varying machine parameters.
  const varying = (...roles) => columns.filter((each) => roles.includes(each.role) && each.several);
  const said = (kept, i) => kept.filter((each) => each.of(i) !== null).map((each) =>
    each.role === "workload" || each.role === "base" ? short(each.of(i)) : `${each.name} ${short(told(each.of(i)))}`).join(", ");
  const shapes = varying("shape"), machine = varying("base", "machine");
  const workload = (i) => [named.get("workload").of(i), said(shapes, i)].filter(Boolean).join(", ");
  const labels = new Map();
  const label = (i) => labels.get(i) ?? labels.set(i, [workload(i), said(machine, i)].filter(Boolean).join(" · ")).get(i);

  // All machine parameters of a point.
  const others = sweep.machines.varying.map(columnOf), same = Object.entries(sweep.machines.same);
  const parameters = (i) => new Map([...same, ...others.filter((each) => each.of(i) !== null).map((each) => [each.name, each.of(i)])]);

  // Layers of a point.
  const { families, family, columns: numbers } = sweep.layers;
  const first = new Float64Array(sweep.count + 1);
  for (const i of points) first[i + 1] = first[i] + families[family[i]].length;
  const layers = (i) => families[family[i]].map((name, at) => {
    const of = (column) => (numbers[column][first[i] + at] < 0 ? null : numbers[column][first[i] + at]);
    return { name, cycles: of("cycles"), bytes: of("bytes"), bound: of("bound"), macs: of("macs") };
  });

  // The filter: a text of words and comparisons, and ranges marked in a figure.
  const COMPARED = /^(.+?)(<=|>=|!=|=|<|>)(.*)$/;
  const TESTS = {
    "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "=": (a, b) => a === b,
    "!=": (a, b) => a !== b,
  };
  // A predicate on points for a word, or an error message.
  function testOf(word) {
    const compared = COMPARED.exec(word);
    if (!compared) {
      const low = word.toLowerCase();
      return (i) => columns.some((each) => each.any && told(each.of(i)).toLowerCase().includes(low));
    }
    const [, name, sign, right] = compared, column = named.get(name);
    if (!column) return `there is no column ${name}`;
    if (right === "") return `${word} lacks a value`;
    const test = TESTS[sign];
    if (!column.number) return (i) => column.of(i) !== null && test(String(column.of(i)).toLowerCase(), right.toLowerCase());
    if (Number.isNaN(Number(right))) return `${right} is not a number`;
    return (i) => column.of(i) !== null && test(column.of(i), Number(right));
  }
  const seen = new Uint8Array(sweep.count).fill(1), marks = new Map(), watchers = [];
  let tests = [];
  const shown = () => points.filter((i) => seen[i]);
  function refresh(from) {
    for (const i of points) seen[i] = tests.every((test) => test(i)) && [...marks.values()].every((mark) => mark(i)) ? 1 : 0;
    const count = shown().length;
    field.setCustomValidity("");
    document.getElementById("filter-told").textContent = `${lathe.grouped(count)} of ${lathe.grouped(sweep.count)} points`;
    for (const { who, watch } of watchers) if (who !== from) watch();
  }
  const field = document.getElementById("filter");
  let wait = 0;
  // Texts with spaces are quoted: status="timed out".
  const wordsOf = (text) => (text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? []).map((word) => word.replace(/"/g, ""));
  field.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(() => {
      const made = wordsOf(field.value).map(testOf), wrong = made.find((each) => typeof each === "string");
      tests = made.filter((each) => typeof each !== "string");
      refresh(null);
      if (wrong) document.getElementById("filter-told").textContent = wrong;
    }, 120);
  });
  const clearers = [];
  document.getElementById("filter-clear").addEventListener("click", () => {
    field.value = "";
    tests = [];
    marks.clear();
    for (const clear of clearers) clear();
    refresh(null);
  });

  // The selection: one point, or two to compare.
  const listeners = [];
  const selection = { first: null, second: null, comparing: false };
  const tell = () => { for (const listener of listeners) listener(selection); };
  function pick(i) {
    if (selection.comparing && selection.first !== null && i !== selection.first) selection.second = i;
    else {
      selection.first = i;
      selection.second = null;
    }
    tell();
  }
  const COLOURS = ["#2f7ed8", "#d9733a", "#2a9d8f", "#a05bc4", "#c9a227", "#d1497e", "#5c8f3a", "#7c7f8a", "#4b5fc7", "#b5533c"];
  return {
    count: sweep.count, points, columns, named, metrics, isMeasured, told, unit, title, short, workload, label, parameters, layers, seen,
    shown, refresh, marks, selection, pick, tell, COLOURS,
    onSeen: (who, watch) => watchers.push({ who, watch }), onClear: (clear) => clearers.push(clear),
    onSelect: (listener) => listeners.push(listener),
  };
})();
