"""Detect text in an image: PP-OCRv4's detector on the NPU, compared with onnxruntime.

The image is drawn by Pillow, or given. The model is that of package `rapidocr-onnxruntime`, quantised to 8 bits by
onnxruntime's quantiser, calibrated on other drawn pages. It runs three times: the float model in onnxruntime, the
quantised model in onnxruntime, and the quantised model on `lathe16`, cycle by cycle. Its output is the probability of
each pixel to belong to a line of text, from which RapidOCR computes boxes.

    pip install '.[models]'
    python examples/read_text.py [PICTURE] [-o boxes.png]
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapidocr_onnxruntime.ch_ppocr_det.utils import DBPostProcess

sys.path.insert(0, str(Path(__file__).parent / "models"))

from drawn_text import page, pixels_of
from packaged import DETECTOR, packaged

import lathe as lt
from lathe.frontend.onnx.run_host_nodes import run_on_host

PIXELS = 192
Box = tuple[int, int, int, int]
"""Left, top, right, bottom."""


def drawn() -> Image.Image:
    """An image with four lines of text of several sizes."""
    picture = Image.new("RGB", (PIXELS, PIXELS), (236, 231, 220))
    draw = ImageDraw.Draw(picture)
    for text, left, top, size in (
        ("Lathe", 12, 10, 44),
        ("turns tensor programs", 14, 74, 16),
        ("into streams of", 14, 108, 20),
        ("instructions", 40, 146, 26),
    ):
        draw.text((left, top), text, fill=(40, 36, 60), font=ImageFont.load_default(size))
    return picture


def boxes_of(likely: np.ndarray) -> list[Box]:
    """The boxes around probable text, in reading order, with RapidOCR's default thresholds."""
    find = DBPostProcess(thresh=0.3, box_thresh=0.5, unclip_ratio=1.6, use_dilation=True)
    corners, _ = find(likely, likely.shape[-2:])
    found = [(*map(int, each.min(axis=0)), *map(int, each.max(axis=0))) for each in corners]
    return sorted(found, key=lambda box: (box[1], box[0]))


def overlap(a: Box, b: Box) -> float:
    """The intersection over union of two boxes."""
    wide, high = (max(min(a[n + 2], b[n + 2]) - max(a[n], b[n]), 0) for n in (0, 1))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return wide * high / (sum(areas) - wide * high)


def agreement(found: list[Box], expected: list[Box]) -> float:
    """The minimum over expected boxes of the best overlap with a found box; 0 if their numbers differ."""
    if len(found) != len(expected):
        return 0.0
    return min((max(overlap(box, other) for other in found) for box in expected), default=1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", nargs="?", help="an image instead of the drawn one; it is resized to 192 x 192")
    parser.add_argument("-o", "--output", help="write the image with the boxes that were detected on the NPU")
    given = parser.parse_args()
    picture = Image.open(given.picture).convert("RGB").resize((PIXELS, PIXELS)) if given.picture else drawn()
    inputs = {"x": pixels_of(picture)}

    trained = packaged(DETECTOR)
    (output,) = (each.name for each in trained.graph.output)
    pages = {"x": np.stack([pixels_of(page(seed)) for seed in range(8)])}
    quantised = lt.quantize(trained, pages, shapes={"x": inputs["x"].shape}, symmetric=True)
    network = lt.from_onnx(quantised)
    start = time.perf_counter()
    program = network.build(lt.load_config("lathe16"))
    print(f"compiled in {time.perf_counter() - start:.0f} s")
    result = lt.simulate(program, inputs)
    layers = [row for row in result.layers if row.where == "npu"]
    macs = sum(row.macs for row in layers)
    print(f"{len(layers)} layers on the NPU: {macs:,} multiply-accumulates in {result.cycles:,} cycles")

    maps = {
        "onnxruntime, as trained": run_on_host(trained.SerializeToString(), inputs, (output,))[output],
        "onnxruntime, quantised": run_on_host(quantised.SerializeToString(), inputs, (output,))[output],
        "lathe16, quantised": result.outputs[output],
    }
    found = {name: boxes_of(likely) for name, likely in maps.items()}
    for name, boxes in found.items():
        print(f"{name}: {len(boxes)} boxes: {', '.join(map(str, boxes))}")
    ours = found["lathe16, quantised"]
    for name in list(found)[:2]:
        alike = np.mean((maps[name] > 0.3) == (maps["lathe16, quantised"] > 0.3))
        least = agreement(ours, found[name])
        print(f"lathe16 and {name}: boxes overlap by at least {least:.2f}, {alike:.2%} of the pixels alike")
    if given.output:
        draw = ImageDraw.Draw(picture)
        for box in ours:
            draw.rectangle(box, outline=(200, 30, 30), width=2)
        picture.save(given.output)


if __name__ == "__main__":
    main()
