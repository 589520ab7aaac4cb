"""The table of bench_kernels: what each kernel reaches, against a copy and a product of the same run."""

LEAST_SHARE = 0.9  # of copy bandwidth: the bar for kernels that memory bounds

HEADING = (
    "Each by itself, its inputs and results out of the second-level cache; µs is the time of the kernels alone, by the"
    " profiler. TB/s is what has to be moved, every input read once and every result written once; its share is of a"
    " copy of 2 GiB in the same run, and the bar is 90 %. The share of products and attention (counted causal) is of an"
    " 8192-cubed bfloat16 product in the same run. What turns right after its product finds a part of it in the cache.")


def rate(line):
    """Its share of what the machine can, and that with its unit."""
    if line["bytes"]:
        terabytes = line["bytes"] / line["us"] / 1e6
        return terabytes * 1e3 / line["copy_gb_per_s"], f"{terabytes:.2f} TB/s"
    teraflops = line["flops"] / line["us"] / 1e6
    return teraflops / line["matmul_tflop_per_s"], f"{teraflops:.0f} TFLOP/s"


def row(line):
    share, speed = rate(line)
    bar = ("yes" if share >= LEAST_SHARE else "NO") if line["bytes"] else ""
    note = "" if line["by_profiler"] else " (by the clock)"
    return f"| {line['kernel']} | {line['us']:.1f}{note} | {speed} | {share:.1%} | {bar} |"


def kernel_section(kernels):
    """Markdown of all rows, shape by shape; nothing if none was measured."""
    lines = []
    for shape in dict.fromkeys(shape for shape, _ in kernels):
        rows = [line for (of, _), line in kernels.items() if of == shape]
        lines += ["", f"### {shape}", "", f"A copy moves {rows[0]['copy_gb_per_s'] / 1e3:.2f} TB/s, a product runs at "
                  f"{rows[0]['matmul_tflop_per_s']:.0f} TFLOP/s.", "",
                  "| | µs | speed | share | 90 % reached |", "|---|---|---|---|---|", *map(row, rows)]
        slow = [line["kernel"] for line in rows if line["bytes"] and rate(line)[0] < LEAST_SHARE]
        lines += ["", f"Below the bar: {'; '.join(slow) or 'none'}."]
    return ["", "## Kernels", "", HEADING, *lines] if lines else []
