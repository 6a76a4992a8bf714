"""Curves on a grid of dots, and the dots as characters."""

import numpy as np

DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bit of each dot in a Braille character, [4, 2], as Unicode has them from U+2800 on."""


def dots(xs: np.ndarray, ys: np.ndarray, height: int, width: int) -> np.ndarray:
    """The dots that a line through points meets, bool [height, width]; row 0 is the top.

    Args:
        xs: from 0, the middle of the left-most dots, to 1; [points].
        ys: from 0, the bottom, to 1; outside of it a point lies on the edge. The line has a gap
            where one is NaN.
        height: dots from bottom to top.
        width: dots from left to right.
    """
    grid = np.zeros((height, width), bool)
    columns = np.clip(xs, 0, 1) * (width - 1)
    rows = (1 - np.clip(ys, 0, 1)) * (height - 1)
    there = np.isfinite(columns) & np.isfinite(rows)
    grid[_nearest(rows[there]), _nearest(columns[there])] = True
    for i in np.flatnonzero(there[:-1] & there[1:]):
        length = max(abs(columns[i + 1] - columns[i]), abs(rows[i + 1] - rows[i]))
        along = np.linspace(0, 1, int(np.ceil(length)) + 1)
        row = rows[i] + along * (rows[i + 1] - rows[i])
        grid[_nearest(row), _nearest(columns[i] + along * (columns[i + 1] - columns[i]))] = True
    return grid


def braille(grid: np.ndarray) -> list[str]:
    """A line of Braille per 4 rows of dots, 2 dots wide; a space where there are none."""
    height, width = grid.shape
    blocks = grid.reshape(height // 4, 4, width // 2, 2)
    bits = np.einsum("rych,yh->rc", blocks, DOTS)
    return ["".join(chr(0x2800 + bit) if bit else " " for bit in line) for line in bits]


def marks(grid: np.ndarray, mark: str) -> list[str]:
    """A line of `mark` and spaces per row of dots."""
    return ["".join(mark if dot else " " for dot in line) for line in grid]


def _nearest(position: np.ndarray) -> np.ndarray:
    return np.floor(position + 0.5).astype(int)
