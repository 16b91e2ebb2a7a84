"use strict";
// A run: its columns decoded to times, the selection, and listeners for it.
lathe.runOf = async (name) => {
  const run = await lathe.load(name, ["assembly"]);
  if (!run.columns) return run;
  const c = run.columns, count = c.unit.length;
  const units = run.units.length - 1; // fetch is the last, and executes no instructions
  run.count = count;
  run.begin = new Float64Array(count);
  run.boundary = new Float64Array(count);
  run.dispatch = new Float64Array(count);
  run.own = [];
  const sizes = new Array(units).fill(0), before = new Array(units).fill(0);
  for (let i = 0; i < count; i++) sizes[c.unit[i]]++;
  for (let u = 0; u < units; u++) run.own.push(new Int32Array(sizes[u]));
  sizes.fill(0);
  let dispatched = 0;
  for (let i = 0; i < count; i++) {
    const u = c.unit[i];
    run.own[u][sizes[u]++] = i;
    run.begin[i] = before[u] + c.gap[i];
    before[u] = run.boundary[i] = run.begin[i] + c.length[i];
    run.dispatch[i] = dispatched += c.dispatch[i];
  }
  run.start = (i) => run.begin[i] - c.ahead[i];
  run.end = (i) => run.boundary[i] + c.behind[i];
  run.streamOf = (i) => {
    let at = run.streams.length - 1;
    while (run.streams[at].first > i) at--;
    return at;
  };

  // Tokens: pushes and pops of each queue, and for each pop the instruction that pushed the token.
  const pushed = run.queues.map(() => []), popped = run.queues.map(() => []);
  run.from = new Map();
  run.to = new Map();
  for (let s = 0; s < run.streams.length; s++) {
    const first = run.streams[s].first, last = run.streams[s + 1]?.first ?? count;
    const givers = run.queues.map(() => []), takers = run.queues.map(() => []);
    for (let i = first; i < last; i++) {
      run.token_fields[c.unit[i]].forEach((queue, field) => {
        if (queue >= 0 && c.tokens[i] & (1 << field)) (field < 2 ? takers : givers)[queue].push(i);
      });
    }
    run.queues.forEach((_, queue) => {
      const given = run.streams[s].tokens[queue];
      takers[queue].forEach((i, at) => {
        if (!run.from.has(i)) run.from.set(i, []);
        const giver = at < given ? -1 : givers[queue][at - given] ?? -1;
        run.from.get(i).push({ queue, giver });
        if (giver >= 0) run.to.set(giver, [...(run.to.get(giver) ?? []), i]);
        popped[queue].push(run.start(i));
      });
      for (let k = 0; k < given; k++) pushed[queue].push(run.streams[s].begin);
      for (const i of givers[queue]) pushed[queue].push(run.end(i) + 1);
    });
  }
  run.tokens = run.queues.map((name, queue) => {
    const ups = pushed[queue].sort((a, b) => a - b), downs = popped[queue].sort((a, b) => a - b);
    const times = [0], values = [0];
    for (let up = 0, down = 0; up < ups.length || down < downs.length;) {
      const now = Math.min(ups[up] ?? Infinity, downs[down] ?? Infinity);
      while (ups[up] === now) up++;
      while (downs[down] === now) down++;
      times.push(now);
      values.push(up - down);
    }
    return { name, times, values };
  });
  run.memories = run.memories.map(({ name, depth, cycles, used }) => {
    const times = [0], values = [0];
    let now = 0, level = 0;
    for (let k = 0; k < cycles.length; k++) {
      times.push((now += cycles[k]));
      values.push((100 * (level += used[k])) / depth);
    }
    return { name, depth, times, values };
  });

  const listeners = [];
  // { kind: "instruction" | "layer" | "statement", ... }; `marks` tells whether an instruction belongs to it.
  run.selection = null;
  run.onSelect = (listener) => listeners.push(listener);
  run.select = (selection) => {
    run.selection = selection;
    for (const listener of listeners) listener(selection);
  };
  run.range_of = (marked) => {
    let low = Infinity, high = -Infinity;
    for (let i = 0; i < count; i++) {
      if (marked(i)) {
        low = Math.min(low, run.begin[i]);
        high = Math.max(high, run.boundary[i]);
      }
    }
    return low < high ? [low, high] : null;
  };
  return run;
};

// Details of an instruction, its times and its stalls, as names and values. `button(k)` links to another one.
lathe.factsOf = (run, i, text, button) => {
  const { grouped, make } = lathe, c = run.columns, queue = (field) => run.token_fields[c.unit[i]][field];
  const facts = [
    ["number", grouped(i)], ["assembly", make("code", {}, text)], ["unit", run.units[c.unit[i]]],
    ["layer", run.layers[c.layer[i]].name],
    ...(run.statement_of ? [["statement", run.statement_at(i)], ["chunk", run.chunk_of(i)]] : []),
    ["issued by fetch", `cycle ${grouped(run.dispatch[i])}`],
    ["starts", `cycle ${grouped(run.start(i))}`], ["ends", `cycle ${grouped(run.end(i))}`],
    ["occupies the unit", `${grouped(c.length[i])} cycles from ${grouped(run.begin[i])} on`],
    ["the unit stalled before", c.stalled[i] ? `${grouped(c.stalled[i])} cycles, last cause ${run.causes[c.cause[i]]}` : "0 cycles"],
    ["waited for the memory", `${grouped(c.waited[i])} cycles`],
    ["bytes of DRAM", grouped(c.bytes[i])],
  ];
  for (const { queue: from, giver } of run.from.get(i) ?? []) {
    facts.push([`pops a token ${run.queues[from]}`, giver < 0 ? "present before the launch" : button(giver)]);
  }
  for (const field of [2, 3]) if (c.tokens[i] & (1 << field) && queue(field) >= 0) facts.push(["pushes a token", run.queues[queue(field)]]);
  return make("div", { class: "scroll" }, make("table", { class: "of-instruction", "aria-label": "Instruction" }, make("tbody", {},
    ...facts.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "wrap" }, value))))));
};
