"""Raw results of gpu_compare.py: a file of JSON lines for each run, and what one or several such files say together.

A run on a rented GPU has minutes, so parts are measured in runs of their own and put together afterwards. Each line is
written as soon as it is measured: a run that is stopped leaves what it has. The first line of a run tells of the run.
"""
import json

from gpu_points import kind_of, mode_of, shape_of


class Measured:
    """What lines say, in the order in which they were measured. Where runs measured the same rate, the last counts."""

    def __init__(self):
        self.runs, self.results, self.errors = [], [], []
        self.machine, self.versions, self.floors, self.kernels = {}, {}, {}, {}

    def add(self, line):
        if "run" in line:
            self.runs.append(line["run"])
        elif "error" in line:
            self.errors.append(line)
        elif "kernel" in line:
            self.kernels[line["shape"], line["kernel"]] = line
        elif "floor" in line:
            self.floors[line["shape"]] = line["floor"]
        elif "machine" in line:
            self.machine = line["machine"]
            self.versions.update(line.get("versions", {}))
        else:
            self.results.append(line | {"of_run": len(self.runs)})

    @property
    def shapes(self):
        """Asked for, and those of parts with shapes of their own."""
        asked = [shape for run in self.runs for shape in run["shapes"]]
        return list(dict.fromkeys(asked + [shape_of(result) for result in self.results]))

    def missing(self):
        """Sentences on what no run measured."""
        lines = []
        for error in self.errors:
            if not self.has(error):
                named = [str(error[key]) for key in ("side", "peer", "kernel") if key in error]
                named += [f"floor of {error['floor']}"] if "floor" in error else []
                named += [shape_of(error)] if "shape" in error else []
                named += [mode_of(error)] if "mode" in error else []
                lines.append(f"{' '.join(named) or 'the machine'}: {' '.join(error['error'].split())}")
        return list(dict.fromkeys(lines))

    def has(self, line):
        """Whether what the line could not tell is known nevertheless, from another turn or run."""
        if "kernel" in line:
            return bool(self.kernels) if line["kernel"] == "all" else (line["shape"], line["kernel"]) in self.kernels
        if "mode" in line:
            known = {key_of(result) for result in self.results}
            return all(key_of(line | {"mode": mode}) in known for mode in line["mode"].split(","))
        return line["floor"] in self.floors if "floor" in line else bool(self.machine)


def key_of(line):
    """What a result is a result of."""
    side = line.get("side") or line.get("peer")
    return side, shape_of(line), mode_of(line), kind_of(line | {"side": side})


def read(paths):
    """One run or several; a last line that was cut off is left out."""
    measured = Measured()
    for path in paths:
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                measured.add(json.loads(line))
    return measured
