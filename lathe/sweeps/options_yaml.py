"""Parses the options of a sweep file: sample, search, metrics, energy and hardware."""

from collections.abc import Mapping, Sequence

import yaml

from lathe.configs.errors import shown
from lathe.sweeps.energy import energy_table
from lathe.sweeps.errors import SweepError
from lathe.sweeps.hardware import COUNTS, FITS, Hardware
from lathe.sweeps.machines import CLOCK
from lathe.sweeps.measurement import METRICS
from lathe.sweeps.specification import Grid, Sample, Search
from lathe.sweeps.sweep_yaml import SweepYaml, repeated


class OptionsYaml(SweepYaml):
    """Parser of the keys that choose points of the grid, and metrics."""

    def sample(self, node: yaml.Node) -> Sample:
        """The number and seed of points that are sampled."""
        entries = self.entries(node, ("points", "seed"), "sample", "A key of sample")
        return Sample(self.points_of(node, entries, "sample"), self.seed_of(entries, "sample"))

    def search(self, node: yaml.Node) -> Search:
        """The objectives of a search, and its number of points."""
        entries = self.entries(node, ("objectives", "points", "seed"), "search", "A key of search")
        if "objectives" not in entries:
            self.refuse_at(node, "objectives", "search", "complete, not without objectives", "Name metrics.")
        known = (*METRICS, *(f"-{name}" for name in METRICS))
        objectives = tuple(self.words(entries["objectives"], "objectives", known))
        if (twice := repeated(name.removeprefix("-") for name in objectives)) is not None:
            self.refuse_at(
                entries["objectives"], twice, f"Objective {twice}", "minimised or maximised, not both", "Remove one.",
            )  # fmt: skip
        return Search(objectives, self.points_of(node, entries, "search"), self.seed_of(entries, "search"))

    def points_of(self, node: yaml.Node, entries: Mapping[str, yaml.Node], where: str) -> int:
        """The number of points of a sample or a search."""
        if "points" not in entries:
            self.refuse_at(node, "points", where, "complete, not without points", "Say how many.")
        return self.number(entries["points"], "points", where, 1)

    def seed_of(self, entries: Mapping[str, yaml.Node], where: str) -> int:
        """The seed of a sample or a search, 0 unless given."""
        return self.number(entries["seed"], "seed", where, 0) if "seed" in entries else 0

    def words(self, node: yaml.Node, key: str, known: Sequence[str]) -> list[str]:
        """A list of known words, each once."""
        words: list[str] = []
        for item in self.items(node):
            words.append(self.word(item, key, known, words))
        if not words:
            self.refuse_at(node, key, key, "at least one word, not an empty list", f"Add one, or omit {key}.")
        return words

    def word(self, node: yaml.Node, key: str, known: Sequence[str], seen: Sequence[str] = ()) -> str:
        """A known word."""
        value = str(self.value(node))
        self.check_known(node, value, known, f"A word of {key}")
        self.check_new(node, value, seen, "Word")
        return value

    def hardware(self, node: yaml.Node) -> Hardware:
        """The hardware metrics: the word counts, or a mapping with the device to fit."""
        from lathe.rtl.fit import DEVICES, SPEEDS

        if not isinstance(node, yaml.MappingNode):
            self.word(node, "hardware", ("counts",))
            return Hardware()
        entries = self.entries(node, ("device", "speed", "seed"), "hardware", "A key of hardware")
        if "device" not in entries:
            remedy = f"Name {', '.join(DEVICES)}, or write 'hardware: counts'."
            self.refuse_at(node, "device", "hardware", "complete, not without device", remedy)
        device = self.word(entries["device"], "device", tuple(DEVICES))
        speed = self.word(entries["speed"], "speed", tuple(map(str, SPEEDS))) if "speed" in entries else SPEEDS[0]
        return Hardware(device, int(speed), self.number(entries["seed"], "seed", "hardware", 0) if "seed" in entries
                        else 1)  # fmt: skip

    def check_metrics(
        self,
        entries: Mapping[str, yaml.Node],
        metrics: Sequence[str],
        search: object,
        grid: Grid,
        hardware: Hardware | None,
    ) -> None:
        """Refuse metrics and objectives that no row of the sweep has."""
        requested = [("metrics", name) for name in metrics]
        if isinstance(search, Search):
            requested += [("search", name.removeprefix("-")) for name in search.objectives]
        columns = () if hardware is None else hardware.columns
        for key, name in requested:
            if name in COUNTS and name not in columns:
                self.refuse_at(entries[key], name, f"{name} of {key}", "used with hardware counts, which are missing",
                               "Add 'hardware: counts'.")  # fmt: skip
            if name in FITS and name not in columns:
                self.refuse_at(entries[key], name, f"{name} of {key}", "used with a device, which is missing",
                               "Add 'hardware: {device: ecp5-45k}'.")  # fmt: skip
            if name == "time_us" and CLOCK not in grid.keys and "fit_mhz" not in columns:
                self.refuse_at(entries[key], name, f"{name} of {key}", "used with a clock, which is missing",
                               "Add clock_mhz to machine, or 'hardware: {device: ecp5-45k}'.")  # fmt: skip

    def energy(self, node: yaml.Node) -> str:
        """The path of a table of energies, given relative to the sweep file."""
        value = self.value(node)
        if not isinstance(value, str):
            self.refuse_at(node, "energy", "energy", f"the path of a table, not {shown(value)}", "Give a YAML file.")
        path = str(self.path.parent / value)
        try:
            energy_table(path)
        except SweepError as error:
            self.refuse_at(node, "energy", "energy", "the path of a valid table", str(error))
        return path
