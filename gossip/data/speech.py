"""Telephone prompts as windows of sound, each labelled with what is hidden in its middle.

In place of speech with phones written beside it, which no registry has. Acoustic units are found by
k-means and a window's middle is hidden, so that its label is no function of what is seen, as in
HuBERT. A label is a pair of units, of the frames before and behind the middle one: steady sounds
are frequent, most transitions rare, as context-dependent states of phones are.

What follows the logarithms in `sound` is in whole numbers, or in fractions that float64 holds
exactly, and nothing is drawn: the arrays are the same on every machine.

Reference: Hsu et al., "HuBERT: self-supervised speech representation learning by masked prediction
of hidden units", 2021; there of longer stretches, and by a transformer.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from gossip.data import sound
from gossip.data.dataset import Arrays, CorruptDataError, Scale

LANGUAGES = ("en", "es", "fr", "it", "ru")
"""A package, and a voice, each."""
STEPS = 21
"""Frames T in a window: 225 ms."""
HIDDEN = 7
"""Of these, in the middle: what is seen shares no sample of sound with the frames of the label."""
TRAIN_SHIFT, TEST_SHIFT = 3, 9
"""Frames from one window of a recording to the next."""
UNITS, THINNING, PASSES = 64, 8, 10
"""Number K of units; they are those of every eighth training frame, after ten passes of k-means."""
RARE = 50
"""A pair that fewer training windows have is labelled with its second unit alone."""
_FRACTION = 16
"""Centres are multiples of 1/16."""

_MEANS = """
    0.5660 0.6401 0.6518 0.6336 0.6320 0.6195 0.5964 0.5778 0.5697 0.5618 0.5512
    0.5370 0.5260 0.5241 0.5257 0.5283 0.5260 0.5204 0.5157 0.5152 0.5186 0.5173
    0.5034 0.4862
"""
_DEVIATIONS = """
    0.1318 0.1410 0.1405 0.1394 0.1421 0.1391 0.1350 0.1343 0.1334 0.1306 0.1286
    0.1263 0.1236 0.1230 0.1235 0.1241 0.1233 0.1216 0.1224 0.1244 0.1235 0.1219
    0.1174 0.1131
"""
SCALE = Scale(mean=np.array(_MEANS.split(), float), std=np.array(_DEVIATIONS.split(), float))
"""Of each band over the frames that are seen in training."""


class Windows(NamedTuple):
    """Windows [N, T, bands] uint8, nothing hidden yet, and the pairs [N] of units in them."""

    inputs: np.ndarray
    pairs: np.ndarray
    """K (unit of frame T/2 - 1) + unit of frame T/2 + 1."""


def arrays(voices: Sequence[Mapping[str, bytes]]) -> Arrays:
    """The four arrays: inputs [N, 21, 24] uint8 and labels [N] int64.

    Every tenth prompt is test, in the order of their names, in all languages: neither a recording
    nor its translation is on both sides. The voices are the same on both. Of the middle frames all
    bands are at the mean of the training frames, rounded.

    Args:
        voices: of each language, WAV files by the name of the prompt.

    Raises:
        CorruptDataError: a file is not what it should be.
    """
    names = sorted(set(chain.from_iterable(voices)))
    train, test = (
        [
            sound.log_mel(sound.samples(voice[name], name))
            for voice in voices
            for name in part
            if name in voice
        ]
        for part in ([name for k, name in enumerate(names) if k % 10 != 9], names[9::10])
    )
    if not any(len(frames) >= STEPS for frames in train) or not test:
        raise CorruptDataError(f"{len(names)} prompts, of which none is as long as a window")
    frames = np.concatenate(train)
    centres = units(frames[::THINNING])
    hidden = np.rint(frames.mean(axis=0)).astype(np.uint8)
    seen, held = windows(train, centres, TRAIN_SHIFT), windows(test, centres, TEST_SHIFT)
    kept = np.flatnonzero(np.bincount(seen.pairs, minlength=len(centres) ** 2) >= RARE)
    for part in (seen, held):
        middle = (STEPS - HIDDEN) // 2
        part.inputs[:, middle : middle + HIDDEN] = hidden
    return (
        seen.inputs,
        labels(seen.pairs, kept, len(centres)),
        held.inputs,
        labels(held.pairs, kept, len(centres)),
    )


def units(frames: np.ndarray, count: int = UNITS, passes: int = PASSES) -> np.ndarray:
    """Centres [count, bands] of k-means on frames [N, bands] uint8: Lloyd's passes.

    It begins with frames that are evenly spread over the file, and rounds each mean to a multiple
    of 1/16. A centre that no frame is nearest to stays.
    """
    centres = frames[np.arange(count) * len(frames) // count].astype(np.float64)
    for _ in range(passes):
        nearest = nearest_of(frames, centres)
        members = np.bincount(nearest, minlength=count)[:, None]
        sums = np.stack([np.bincount(nearest, band, count) for band in frames.T], axis=1)
        means = np.rint(_FRACTION * sums / np.maximum(members, 1)) / _FRACTION
        centres = np.where(members > 0, means, centres)
    return centres


def nearest_of(frames: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The unit of each frame [N, bands]: argmin_k ||x - c_k||^2, of equally near ones the first.

    It is argmax_k x'c_k - ||c_k||^2 / 2, without rounding: a frame's numbers are whole.
    """
    return np.argmax(frames @ centres.T - (centres**2).sum(axis=1) / 2, axis=1)


def windows(recordings: Sequence[np.ndarray], centres: np.ndarray, shift: int) -> Windows:
    """Windows of features [frames, bands] of recordings, none over the end of one."""
    inputs, pairs, middle = [], [], STEPS // 2
    for frames in recordings:
        if len(frames) >= STEPS:
            own = np.lib.stride_tricks.sliding_window_view(frames, STEPS, axis=0)[::shift]
            inputs.append(own.swapaxes(1, 2))
            found = nearest_of(frames, centres)
            before, behind = (found[middle + k :: shift][: len(own)] for k in (-1, 1))
            pairs.append(len(centres) * before + behind)
    return Windows(np.concatenate(inputs), np.concatenate(pairs))


def labels(pairs: np.ndarray, kept: np.ndarray, count: int) -> np.ndarray:
    """Classes [N] int64 of pairs: their place in `kept`, or behind all these the second unit."""
    place = len(kept) + np.arange(count**2) % count
    place[kept] = np.arange(len(kept))
    return place[pairs].astype(np.int64)
