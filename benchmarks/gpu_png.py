"""The plot as PNG, for pages that show no SVG, by what is there: rsvg-convert (Debian's librsvg2-bin) or the Python
package resvg_py. Neither needs a browser; without both the PNG stays as it was.
"""
import shutil
import subprocess

WIDTH = 2000  # pixels: sharp where pages show it at half of that


def write_png(svg):
    """Writes the PNG beside the SVG, and says what became of it."""
    png = svg.with_suffix(".png")
    if shutil.which("rsvg-convert"):
        subprocess.run(["rsvg-convert", "--width", str(WIDTH), "--output", png, svg], check=True)
        return f"{png.name}: by rsvg-convert"
    try:
        import resvg_py
    except ImportError:
        return f"{png.name} was not written: install librsvg2-bin, or resvg_py for the Python that runs this"
    png.write_bytes(bytes(resvg_py.svg_to_bytes(svg_path=str(svg), width=WIDTH)))
    return f"{png.name}: by resvg_py"
