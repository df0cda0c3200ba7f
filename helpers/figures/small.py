"""Small PNG files: a palette of few colors, which may be transparent."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

# Lines, letters and gray photographs look as they do in all colors; the file is a third.
_SHADES = 64
# Pillow chooses good palettes for opaque pictures alone, so they are chosen on this background.
# Figures do not use its color: what shines through is told apart from what is dark.
_BACKGROUND = (0, 0, 128)


def compress(png: bytes) -> bytes:
    """Return a picture as a smaller PNG file, the same bytes for the same picture."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as opened:
        picture = opened.convert("RGBA")
    shown = Image.new("RGBA", picture.size, _BACKGROUND)
    shown.alpha_composite(picture)
    indexed = shown.convert("RGB").quantize(_SHADES, Image.Quantize.MEDIANCUT)
    indexed.putpalette(_mean_colors(picture, indexed).tobytes(), "RGBA")
    small = io.BytesIO()
    indexed.save(small, format="png", optimize=True)
    return small.getvalue()


def _mean_colors(picture: Image, indexed: Image) -> np.ndarray:
    """Return the mean red, green, blue and alpha of the pixels that share a place in a palette."""
    pixels = np.asarray(picture).reshape(-1, 4)
    # There are a million pixels, but few colors, each in one place.
    _, first, counts = np.unique(pixels.view(np.uint32), return_index=True, return_counts=True)
    colors, places = pixels[first] / 255, np.asarray(indexed).ravel()[first]
    # What is transparent has no color that counts.
    shares = colors[:, 3:] * counts[:, None]
    weighed = np.hstack([colors[:, :3] * shares, shares, counts[:, None]])
    sums = np.column_stack([np.bincount(places, column) for column in weighed.T])
    means = sums[:, :4] / np.maximum(sums[:, [3, 3, 3, 4]], 1e-9)
    return (means * 255).round().clip(0, 255).astype(np.uint8)
