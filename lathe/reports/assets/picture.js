"use strict";
// The timeline of a page with one run; the other figures are drawn after it.
lathe.run = lathe.runOf("run");
lathe.pictured = lathe.run.then((run) => {
  if (!document.getElementById("timeline")) return run;
  lathe.timeline = lathe.timelineOf(run, "timeline");
  const select = document.getElementById("go-to-layer");
  run.layers.forEach((layer, at) => {
    if (layer.where !== "host") select.append(lathe.make("option", { value: at }, layer.name));
  });
  select.addEventListener("change", () => {
    if (select.value === "") return;
    lathe.selectLayer(Number(select.value));
    const range = run.range_of((i) => run.columns.layer[i] === Number(select.value));
    if (range) lathe.timeline.show(...range);
    select.value = "";
  });
  return lathe.timeline.pictured.then(() => run);
});
