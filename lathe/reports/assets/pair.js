"use strict";
// Two runs on one page: their timelines zoom together, and details of the selected item are shown for both.
lathe.pair = (async () => {
  const [a, b] = await Promise.all([lathe.runOf("a"), lathe.runOf("b")]), { names, layers } = lathe.data("pair");
  const runs = [a, b], marks = ["A", "B"], { make, grouped } = lathe;
  const of = (run, at) => (at === null ? null : { ...run.layers[at], at });
  const pair = { runs, marks, names, layers: layers.map(([name, first, second], at) =>
    ({ name, at, sides: [of(a, first), of(b, second)] })) };

  pair.onLayer = () => {};
  pair.selectLayer = (at) => {
    pair.layers[at].sides.forEach((layer, k) => runs[k].select(layer
      ? { kind: "layer", layer: layer.at, marks: (i) => runs[k].columns.layer[i] === layer.at } : null));
    pair.onLayer(at);
  };
  // The index among all layer pairs of a run's layer.
  pair.placeOf = (k, own) => pair.layers.findIndex(({ sides }) => sides[k]?.at === own);

  const chosen = document.getElementById("selected");
  if (!chosen) return pair;
  const timelines = runs.map((run, k) => lathe.timelineOf(run, `timeline-${"ab"[k]}`,
    { runs, height: 460, moved: (low, high) => timelines[1 - k].show(low, high) }));
  pair.show = (low, high) => timelines.forEach((each) => each.show(low, high));
  pair.goTo = (button, low, high) => button.addEventListener("click", () => {
    pair.show(low, high);
    document.getElementById("timeline-part").scrollIntoView({ behavior: "smooth" });
  });

  const lines = [null, null];
  async function tell(k, i) {
    const run = runs[k], c = run.columns, text = (at) => lines[k][at] ?? "";
    lines[k] ??= await lathe.unpacked(run.assembly);
    const other = (at) => {
      const button = make("button", { type: "button" }, `${grouped(at)} ${text(at)}`);
      button.addEventListener("click", () => run.select({ kind: "instruction", instruction: at, marks: (n) => n === at }));
      return button;
    };
    const go = make("button", { type: "button" }, "Show on the timelines"), width = Math.max(200, 6 * c.length[i]);
    pair.goTo(go, run.begin[i] - width / 2, run.boundary[i] + width / 2);
    chosen.replaceChildren(make("h3", {}, `${marks[k]}: instruction ${grouped(i)}`), make("div", { class: "bar" }, go),
      lathe.factsOf(run, i, text(i), other));
  }
  runs.forEach((run, k) => run.onSelect((selection) => {
    if (selection?.kind !== "instruction") return;
    runs[1 - k].select(null);
    tell(k, selection.instruction);
  }));
  await Promise.all(timelines.map((each) => each.pictured));
  return pair;
})();
