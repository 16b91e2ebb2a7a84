"use strict";
// Tables with a row for each record, which are sorted by a click on a column's header and filtered by a word.
// columns: [{ name, of: (record) => value, text?: (value) => text, title? }]. pick(record) is called on a click; records
// for which keep(record) is false are hidden; `refresh` evaluates it again.
lathe.table = (place, columns, records, { pick, most = 300, filter = true, name = "Table", keep = () => true } = {}) => {
  let order = records.map((_, i) => i), by = -1, down = false, word = "", shown = most, selected = null;
  const body = lathe.make("tbody"), head = lathe.make("tr"), told = lathe.make("span", { class: "told" });
  const texts = (record) => columns.map((each) => (each.text ? each.text(each.of(record)) : String(each.of(record) ?? "")));
  const isNumber = (each) => records.some((record) => typeof each.of(record) === "number");
  const kinds = columns.map(isNumber);

  columns.forEach((each, at) => {
    const button = lathe.make("button", { type: "button", class: "head" }, each.name);
    const cell = lathe.make("th", { scope: "col", class: kinds[at] ? "number" : "", title: each.title ?? "" }, button);
    button.addEventListener("click", () => {
      down = by === at ? !down : kinds[at];
      by = at;
      fill();
    });
    head.append(cell);
  });

  function fill() {
    const found = order.filter((i) => keep(records[i])).filter((i) => !word || texts(records[i]).some((text) => text.toLowerCase().includes(word)));
    if (by >= 0) {
      const sign = down ? -1 : 1, of = columns[by].of;
      const compared = (a, b) => {
        const x = of(records[a]), y = of(records[b]);
        if (typeof x === "number" && typeof y === "number") return sign * (x - y) || a - b;
        return sign * String(x ?? "").localeCompare(String(y ?? "")) || a - b;
      };
      found.sort(compared);
    }
    [...head.children].forEach((cell, at) =>
      cell.setAttribute("aria-sort", at !== by ? "none" : down ? "descending" : "ascending"));
    body.replaceChildren(...found.slice(0, shown).map((i) => {
      const record = records[i], row = lathe.make("tr");
      texts(record).forEach((text, at) => row.append(lathe.make("td", { class: kinds[at] ? "number" : "" }, text)));
      if (pick) {
        row.dataset.pick = i;
        row.tabIndex = 0;
        row.setAttribute("aria-selected", String(i === selected));
      }
      return row;
    }));
    more.hidden = found.length <= shown;
    told.textContent = `${lathe.grouped(found.length)} of ${lathe.grouped(records.length)}`;
  }

  const more = lathe.make("button", { type: "button" }, "Show more rows");
  more.addEventListener("click", () => { shown += most; fill(); });
  const choose = (event) => {
    const row = event.target.closest("tr[data-pick]");
    if (!row || (event.type === "keydown" && event.key !== "Enter")) return;
    select(Number(row.dataset.pick));
    pick(records[selected]);
  };
  if (pick) for (const kind of ["click", "keydown"]) body.addEventListener(kind, choose);
  function select(at) {
    selected = at;
    for (const row of body.children) row.setAttribute("aria-selected", String(Number(row.dataset.pick) === at));
  }

  const parts = [];
  if (filter) {
    const find = lathe.make("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${name}` });
    find.addEventListener("input", () => { word = find.value.trim().toLowerCase(); fill(); });
    parts.push(lathe.make("div", { class: "bar" }, find, told));
  }
  const table = lathe.make("table", { "aria-label": name }, lathe.make("thead", {}, head), body);
  parts.push(lathe.make("div", { class: "scroll" }, table), more);
  place.replaceChildren(...parts);
  fill();
  return { select, refresh: fill };
};
