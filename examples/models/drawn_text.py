"""Images of text, drawn by Pillow: pages for text detection, and lines, upright or rotated by 180 degrees."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SENTENCES = """
sphinx of black quartz judge my vow, pack my box with five dozen liquor jugs, the quick brown fox jumps over a lazy dog,
1024 lanes 98.6 % of tiles, loads & stores
"""
WORDS = SENTENCES.split()


def page(seed: int, pixels: int = 192) -> Image.Image:
    """Some lines of seeded words, sizes and positions, dark on light or light on dark."""
    random = np.random.default_rng(seed)
    picture, ink = _sheet(random, (pixels, pixels))
    draw = ImageDraw.Draw(picture)
    top = int(random.integers(4, 20))
    while top < pixels - 20:
        height = int(random.integers(14, 30))
        words = " ".join(random.choice(WORDS, random.integers(1, 4)))
        draw.text((int(random.integers(4, 40)), top), words, fill=ink, font=ImageFont.load_default(height))
        top += height + int(random.integers(8, 30))
    return picture


def line(seed: int, height: int = 48, width: int = 192) -> Image.Image:
    """Two seeded words, rotated by 180 degrees for odd seeds."""
    random = np.random.default_rng(seed)
    picture, ink = _sheet(random, (width, height))
    words = " ".join(random.choice(WORDS, 2))
    ImageDraw.Draw(picture).text((6, 6), words, fill=ink, font=ImageFont.load_default(height * 2 / 3))
    return picture.transpose(Image.Transpose.ROTATE_180) if seed % 2 else picture


def pixels_of(picture: Image.Image) -> np.ndarray:
    """An image as input of PP-OCR's models: (1, 3, height, width) float32 from -1 to 1, blue first."""
    values = np.asarray(picture.convert("RGB"), np.float32)[:, :, ::-1] / 127.5 - 1
    return np.ascontiguousarray(values.transpose(2, 0, 1)[np.newaxis])


def _sheet(random: np.random.Generator, size: tuple[int, int]) -> tuple[Image.Image, tuple[int, ...]]:
    """An empty image, and a contrasting text colour."""
    light, dark = (tuple(map(int, random.integers(low, low + 76, 3))) for low in (180, 0))
    ground, ink = (light, dark) if random.integers(2) else (dark, light)
    return Image.new("RGB", size, ground), ink
