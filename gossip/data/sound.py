"""Recordings as log-mel features, a byte each: energies of a bank of filters, frame by frame."""

import io
import wave

import numpy as np

from gossip.data.dataset import CorruptDataError

RATE = 8_000
"""Samples per second, those of a telephone."""
LENGTH, HOP = 200, 80
"""Samples in a frame, 25 ms, and from one frame to the next, 10 ms."""
BANDS, LOWEST = 24, 64.0
"""Number of filters, which lie side by side on the mel scale, and where the first begins, in Hz."""
STEPS_PER_NEPER = 8
"""Of a byte, in the natural logarithm of the energy: half a decibel each."""
_BINS = 256
"""Samples of the discrete Fourier transform, zeros after `LENGTH`."""


def samples(data: bytes, where: str) -> np.ndarray:
    """The samples [N] int16 of a WAV file of one channel at `RATE`.

    Raises:
        CorruptDataError: it is something else.
    """
    try:
        with wave.open(io.BytesIO(data)) as file:
            shape = file.getnchannels(), 8 * file.getsampwidth(), file.getframerate()
            raw = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise CorruptDataError(f"{where}: not a whole WAV file ({error})") from error
    if shape != (1, 16, RATE):
        raise CorruptDataError(
            f"{where}: {shape[0]} channels of {shape[1]} bits at {shape[2]} Hz, not 1 of 16 at "
            f"{RATE}"
        )
    if len(raw) % 2:
        raise CorruptDataError(f"{where}: not a whole WAV file (half of a sample at its end)")
    return np.frombuffer(raw, "<i2")


def log_mel(signal: np.ndarray) -> np.ndarray:
    """Features of a signal [N]: [frames, BANDS] uint8, of each whole frame.

    8 ln E of the energy E = max(1, sum_k F[b, k] |X_k|^2) in each band, rounded, where X is the
    discrete Fourier transform of the frame without its mean, under a Hamming window.
    """
    if len(signal) < LENGTH:
        return np.empty((0, BANDS), np.uint8)
    frames = np.lib.stride_tricks.sliding_window_view(signal, LENGTH)[::HOP].astype(np.float64)
    frames -= frames.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(frames * np.hamming(LENGTH), _BINS)) ** 2
    energy = np.maximum(power @ filters().T, 1.0)
    return np.rint(STEPS_PER_NEPER * np.log(energy)).clip(0, 255).astype(np.uint8)


def filters() -> np.ndarray:
    """F [BANDS, frequencies]: triangles on the mel scale, from peak to peak of the neighbours."""
    edges = np.linspace(_mel(LOWEST), _mel(RATE / 2), BANDS + 2)[:, None]
    mel = _mel(np.arange(_BINS // 2 + 1) * RATE / _BINS)
    rising = (mel - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mel) / (edges[2:] - edges[1:-1])
    return np.minimum(rising, falling).clip(0)


def _mel(hertz: float | np.ndarray) -> np.ndarray:
    return 1127 * np.log1p(np.asarray(hertz) / 700)
