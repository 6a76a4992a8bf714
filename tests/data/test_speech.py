"""Prompts as features, units, windows and labels: each against its formula."""

import io
import wave

import numpy as np
import pytest

from gossip.data import CorruptDataError, sound, speech


def wav(signal, channels=1, rate=sound.RATE, width=2):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((channels, width, rate, 0, "NONE", ""))
        out.writeframes(np.asarray(signal, "<i2").tobytes())
    return file.getvalue()


def test_samples_are_those_of_the_file():
    signal = np.array([0, -1, 32767, -32768])
    assert sound.samples(wav(signal), "a.wav").tolist() == signal.tolist()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"RIFF", "a.wav: not a whole WAV file"),
        (wav([0, 0], channels=2), "a.wav: 2 channels of 16 bits at 8000 Hz, not 1 of 16 at 8000"),
        (wav([0, 0], rate=44_100), "at 44100 Hz"),
    ],
)
def test_what_is_no_telephones_sound_is_refused(data, message):
    with pytest.raises(CorruptDataError, match=message):
        sound.samples(data, "a.wav")


def test_features_are_the_logarithms_of_energies_in_bands():
    signal = np.random.default_rng(0).integers(-9999, 9999, 360)
    found = sound.log_mel(signal)
    assert found.shape == (3, sound.BANDS)  # frames begin at 0, 80 and 160
    frame = signal[80:280] - signal[80:280].mean()
    time, frequency = np.arange(200), np.arange(129)[:, None]
    wave_form = frame * (0.54 - 0.46 * np.cos(2 * np.pi * time / 199))
    power = np.abs((wave_form * np.exp(-2j * np.pi * frequency * time / 256)).sum(axis=1)) ** 2
    assert found[1].tolist() == np.rint(8 * np.log(sound.filters() @ power)).tolist()
    assert sound.log_mel(signal[:199]).shape == (0, sound.BANDS)
    assert not sound.log_mel(np.full(200, 7)).any()  # silence, whatever its level


def test_filters_share_out_each_frequency_between_the_outer_peaks_and_rise_in_pitch():
    bank = sound.filters()
    hertz = np.arange(bank.shape[1]) * sound.RATE / 256
    peaks = hertz[bank.argmax(axis=1)]
    between = (hertz >= peaks[0] + 32) & (hertz <= peaks[-1] - 32)
    np.testing.assert_allclose(bank[:, between].sum(axis=0), 1)
    assert (np.diff(peaks) > 0).all()
    tone = 9999 * np.sin(2 * np.pi * 1000 * np.arange(200) / sound.RATE)
    assert abs(peaks[sound.log_mel(tone)[0].argmax()] - 1000) < 80


def test_the_nearest_unit_is_exact_and_the_first_of_equals():
    random = np.random.default_rng(0)
    frames = random.integers(0, 256, (500, 24)).astype(np.uint8)
    centres = random.integers(0, 256 * 16, (9, 24)) / 16
    exact = ((16 * frames[:, None].astype(int) - (16 * centres).astype(int)) ** 2).sum(axis=2)
    assert speech.nearest_of(frames, centres).tolist() == exact.argmin(axis=1).tolist()
    assert speech.nearest_of(
        np.array([[1], [3]], np.uint8), np.array([[2.0], [0], [2]])
    ).tolist() == [0, 0]


def test_units_are_the_means_of_the_frames_nearest_to_them():
    random = np.random.default_rng(0)
    means = np.array([[20, 20], [20, 220], [220, 20]])
    frames = (means[np.arange(600) % 3] + random.integers(-9, 10, (600, 2))).astype(np.uint8)
    centres = speech.units(frames[np.argsort(np.arange(600) % 3, kind="stable")], 3, 4)
    for k, centre in enumerate(centres):
        np.testing.assert_allclose(centre, frames[k::3].mean(axis=0), atol=1 / 32)
    assert speech.units(np.zeros((4, 2), np.uint8), 2, 1).tolist() == [[0, 0], [0, 0]]


def test_windows_end_with_their_recording_and_pairs_lie_about_the_middle():
    centres = np.arange(0, 250, 10.0)[:, None]
    recordings = [np.arange(n, dtype=np.uint8)[:, None] * 10 for n in (25, 20, 22)]
    inputs, pairs = speech.windows(recordings, centres, 3)
    assert inputs[:, 0, 0].tolist() == [0, 30, 0]
    assert inputs.shape == (3, 21, 1)
    assert pairs.tolist() == [25 * 9 + 11, 25 * 12 + 14, 25 * 9 + 11]


def test_rare_pairs_are_known_by_their_second_unit():
    pairs = np.array([0, 5, 7, 8, 2])  # of 3 units: (0, 0), (1, 2), (2, 1), (2, 2), (0, 2)
    assert speech.labels(pairs, np.array([5, 8]), 3).tolist() == [2, 0, 3, 1, 4]


def test_every_tenth_prompt_is_test_in_all_languages_and_the_middle_is_hidden():
    random = np.random.default_rng(0)
    signals = {f"{k:02}.wav": random.integers(-(4**7), 4**7, 2000 + 80 * k) for k in range(20)}
    voices = [{name: wav(s) for name, s in signals.items()}, {"09.wav": wav(signals["09.wav"])}]
    inputs, labels, test_inputs, test_labels = speech.arrays(voices)
    held = [sound.log_mel(signals[name]) for name in ("09.wav", "19.wav", "09.wav")]
    own = speech.windows(held, np.zeros((1, 24)), 9).inputs
    seen = np.r_[:7, 14:21]
    np.testing.assert_array_equal(test_inputs[:, seen], own[:, seen])
    train = [sound.log_mel(s) for k, s in enumerate(signals.values()) if k % 10 != 9]
    hidden = np.rint(np.concatenate(train).mean(axis=0))
    assert (inputs[:, 7:14] == hidden).all()
    assert (test_inputs[:, 7:14] == hidden).all()
    assert len(inputs) == len(labels) == sum(len(f) - 21 - 1 + 3 for f in train) // 3
    assert len(test_labels) == len(test_inputs)
    assert inputs.dtype == np.uint8


def test_prompts_too_short_for_a_window_are_refused():
    with pytest.raises(CorruptDataError, match="1 prompts, of which none is as long as a window"):
        speech.arrays([{"a.wav": wav(np.zeros(300))}])
