"use strict";
// Level of detail of a run in a window of cycles: shares by column zoomed out, single instructions zoomed in.
lathe.lod = {
  // Categories of time: activities, then stall causes. values[unit][category] are shares of each column.
  columns(run, low, high, count) {
    const kinds = run.activities.length + run.causes.length, width = (high - low) / count;
    const values = run.units.map(() => Array.from({ length: kinds }, () => null));
    const add = (unit, kind, from, to, part) => {
      const a = Math.max(from, low), b = Math.min(to, high);
      if (b <= a || part <= 0) return;
      const row = (values[unit][kind] ??= new Float64Array(count));
      let at = Math.min(count - 1, Math.floor((a - low) / width));
      const last = Math.min(count - 1, Math.floor((b - low) / width));
      for (; at <= last; at++) {
        const inside = Math.min(b, low + (at + 1) * width) - Math.max(a, low + at * width);
        if (inside > 0) row[at] += (inside * part) / width;
      }
    };
    lathe.lod.each(run, low, high, (unit, i, wait, begin, end, activity, cause, waited) => {
      const memory = run.activities.length + run.causes.indexOf("memory"), share = end > begin ? waited / (end - begin) : 0;
      add(unit, run.activities.length + cause, begin - wait, begin, 1);
      add(unit, activity, begin, end, 1 - share);
      add(unit, memory, begin, end, share);
    });
    return values;
  },

  // Every entry that overlaps the window: (unit, instruction, wait, begin, end, activity, cause, waited).
  each(run, low, high, visit) {
    const c = run.columns, fetch = run.units.length - 1;
    run.own.forEach((own, unit) => {
      for (let k = lathe.lod.first(own.length, (at) => run.boundary[own[at]] > low); k < own.length; k++) {
        const i = own[k];
        if (run.begin[i] - c.stalled[i] >= high) break;
        visit(unit, i, c.stalled[i], run.begin[i], run.boundary[i], c.activity[i], c.cause[i], c.waited[i]);
      }
    });
    for (let i = lathe.lod.first(run.count, (at) => run.dispatch[at] + 1 > low); i < run.count; i++) {
      const end = run.dispatch[i] + 1, stream = run.streams[run.streamOf(i)];
      const before = i > stream.first ? run.dispatch[i - 1] + 1 : stream.begin;
      const begin = Math.min(end, before + c.fetch_stalled[i]);
      if (before >= high) break;
      visit(fetch, i, begin - before, begin, end, run.activities.length - 1, c.fetch_cause[i], 0);
    }
  },

  // The number of entries that overlap a window, up to a limit.
  number(run, low, high, most) {
    const inside = (length, from, to) => {
      const a = lathe.lod.first(length, (at) => to(at) > low), b = lathe.lod.first(length, (at) => from(at) >= high);
      return Math.max(0, b - a);
    };
    let found = inside(run.count, (at) => run.dispatch[at], (at) => run.dispatch[at] + 1);
    for (const own of run.own) found += inside(own.length, (at) => run.begin[own[at]], (at) => run.boundary[own[at]]);
    return found;
  },

  // The first index at which a monotone condition holds (binary search).
  first(length, holds) {
    let low = 0, high = length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (holds(middle)) high = middle;
      else low = middle + 1;
    }
    return low;
  },

  // A step curve in a window: all of its points, or the maximum of each column.
  steps({ times, values }, low, high, count) {
    const from = Math.max(0, lathe.lod.first(times.length, (at) => times[at] > low) - 1);
    const to = lathe.lod.first(times.length, (at) => times[at] >= high);
    const x = [], y = [];
    if (to - from <= 2 * count) {
      for (let k = from; k < to; k++) {
        x.push(Math.max(low, times[k]));
        y.push(values[k]);
      }
    } else {
      const width = (high - low) / count;
      let level = values[from], k = from + 1;
      for (let at = 0; at < count; at++) {
        let most = level;
        for (const end = low + (at + 1) * width; k < to && times[k] < end; k++) {
          level = values[k];
          most = Math.max(most, level);
        }
        x.push(low + at * width);
        y.push(most);
      }
    }
    if (y.length) {
      x.push(high);
      y.push(y[y.length - 1]);
    }
    return { x, y };
  },

  // Bytes per cycle, read and written, in each column.
  traffic(run, low, high, count) {
    const c = run.columns, width = (high - low) / count, store = run.units.indexOf("store");
    const read = new Float64Array(count), written = new Float64Array(count);
    const add = (row, from, to, bytes) => {
      const a = Math.max(from, low), b = Math.min(to, high), rate = bytes / Math.max(1, to - from);
      let at = Math.max(0, Math.floor((a - low) / width));
      const last = Math.min(count - 1, Math.floor((b - low) / width));
      for (; at <= last; at++) {
        const inside = Math.min(b, low + (at + 1) * width) - Math.max(a, low + at * width);
        if (inside > 0) row[at] += (inside * rate) / width;
      }
    };
    lathe.lod.each(run, low, high, (unit, i, wait, begin, end) => {
      if (unit === run.units.length - 1) add(read, end - 1, end, run.instruction_bytes);
      else if (c.bytes[i]) add(unit === store ? written : read, begin, Math.max(end, begin + 1), c.bytes[i]);
    });
    return { read, written };
  },
};
