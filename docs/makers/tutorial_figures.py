"""Copy the main figure of each tutorial from a built site to ``docs/_static/tutorials``.

python docs/makers/tutorial_figures.py docs/_build/html
"""

import re
import sys
from pathlib import Path

from PIL import Image

FIGURES = {"01": 0, "02": 1, "03": 0, "04": 1, "05": 0, "06": 0, "07": 0, "08": 0, "09": 0}
"""The index of the main figure among the figures that a tutorial draws."""
FOLDER = Path(__file__).parents[1] / "_static" / "tutorials"


def main():
    site = Path(sys.argv[1])
    for number, index in FIGURES.items():
        [page] = (site / "tutorials").glob(f"{number}_*.html")
        text = page.read_text(encoding="utf-8")
        drawn = list(dict.fromkeys(re.findall(r"_images/([0-9a-f]{64}\.png)", text)))
        path = FOLDER / f"{number}.png"
        Image.open(site / "_images" / drawn[index]).convert("RGB").quantize(32).save(
            path, optimize=True
        )
        print(f"{path.name}: {path.stat().st_size / 1000:.1f} kB")


if __name__ == "__main__":
    main()
