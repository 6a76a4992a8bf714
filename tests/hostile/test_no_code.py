"""What is planted in a file is not run: each of these would leave a file behind if it were."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import topologies
from gossip import trace
from gossip.config import load as load_config
from gossip.data import cache, load
from gossip.data.cache import Expected
from gossip.data.dataset import Scale
from gossip.errors import UserError
from gossip.storage import folder
from gossip.stragglers import make
from topologies import TopologyError

TOUCH = "import pathlib; pathlib.Path('executed').touch()"


class Planted:
    """Makes a file when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("executed"),)


PICKLE = pickle.dumps(Planted())
OBJECTS = np.array([[Planted()]], dtype=object)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder to work in, where `planted` is a module; nothing may be executed in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "planted.py").write_text(f"{TOUCH}\ndef function(*args, **options): pass\n")
    yield tmp_path
    assert not (tmp_path / "executed").exists()
    assert "planted" not in sys.modules


def test_the_plants_grow(here):
    pickle.loads(PICKLE)
    assert (here / "executed").exists()
    (here / "executed").unlink()
    subprocess.run([sys.executable, "-c", "import planted"], check=True, cwd=here)
    assert (here / "executed").exists()
    (here / "executed").unlink()


@pytest.mark.parametrize("name", ["w.npy", "w.npz"])
@pytest.mark.parametrize("content", ["objects", "pickle"])
def test_arrays_are_not_unpickled(name, content, here):
    if content == "pickle":
        (here / name).write_bytes(PICKLE)
    elif name == "w.npy":
        np.save(name, OBJECTS, allow_pickle=True)
    else:
        np.savez(name, x_train=OBJECTS, y_train=OBJECTS, x_test=OBJECTS, y_test=OBJECTS)
    with pytest.raises(TopologyError):
        topologies.build(name, 1)
    with pytest.raises(UserError):
        load("w", here)
    (here / "w.npy").touch()
    with pytest.raises(UserError):
        make("trace", ["file=w.npy"], n=1, seed=0)


def test_a_cache_is_not_unpickled(here, monkeypatch):
    monkeypatch.setenv("GOSSIP_CACHE", str(here))
    expected = Expected("own", "0" * 64, Scale())
    arrays = (np.ones((1, 1), np.uint8), np.zeros(1, np.int64)) * 2
    cache.write(expected, "made up", arrays)
    for name in ("train_inputs", "test_labels"):
        np.save(cache.folder_of("own") / f"{name}.npy", OBJECTS, allow_pickle=True)
    for verify in (True, False):
        with pytest.raises(UserError, match="corrupt cached dataset"):
            cache.read(expected, verify=verify)
    (cache.folder_of("own") / cache.MANIFEST).write_bytes(PICKLE)
    with pytest.raises(UserError, match="corrupt cached dataset"):
        cache.read(expected)


@pytest.mark.parametrize(
    "text",
    [
        '[gossip]\ntopology = "planted:function"',
        '[data]\ndataset = "planted:function"',
        '[model]\nmodel = "planted:function"',
        'gossip = {topology = "planted:function"}',
        'gossip."topology" = "planted:\\u0066unction"',
        "[model]\nmodel = '''planted:function'''",
    ],
)
def test_a_config_names_no_code(text, here):
    (here / "config.toml").write_text(text)
    with pytest.raises(UserError, match=r"names code, .*: if you trust it, say so on the command"):
        load_config(here / "config.toml")


@pytest.mark.parametrize(
    "text",
    [
        '[gossip]\ntopology_options = ["base=planted:function"]',
        '[rate]\noptimizer = "planted:function"',
        'algorithm = ["planted:function"]',
        '[reliability]\nstraggler = "planted:function"',
        "[[gossip]]\ntopology = 'planted:function'",
        "[gossip]\ntopology = ['planted:function']",
    ],
)
def test_nor_does_it_by_another_way(text, here):
    (here / "config.toml").write_text(text)

    def build():
        config = load_config(here / "config.toml")
        options = dict(option.split("=") for option in config.gossip.topology_options)
        topologies.build("periodic", 4, **options)

    with pytest.raises((UserError, TopologyError)):
        build()


def test_texts_are_not_evaluated(here):
    code = f"__import__('os').system('touch executed') or exec({TOUCH!r})"
    texts = {
        "g.edgelist": f"0 1 {{'weight': {code}}}\n1 2 {code.replace(' ', '')}\n",
        "g.csv": f"{code},1\n1,0\n",
        "g.json": '{"nodes": [{"id": 0}], "links": [], "graph": {"__reduce__": "os.system"}}',
        "g.graphml": (
            '<graphml><key id="k" for="node" attr.name="w" attr.type="int"/><graph '
            f'edgedefault="undirected"><node id="0"><data key="k">{code}</data></node></graph>'
            "</graphml>"
        ),
    }
    for name, text in texts.items():
        (here / name).write_text(text)
        with pytest.raises(TopologyError):
            topologies.build(name, 2)
    (here / "t.csv").write_text(code)
    with pytest.raises(UserError):
        make("trace", ["file=t.csv"], n=1, seed=0)
    with pytest.raises(UserError):
        make("constant", [f"s={code}"], n=1, seed=0)
    (here / "summary.json").write_bytes(PICKLE)
    with pytest.raises(UserError):
        folder.read_summary(here)


def test_an_arrow_type_brings_no_pickle(here):
    metadata = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": PICKLE,
    }
    fields = [
        pa.field("step", pa.int64(), nullable=False),
        pa.field("train_loss", pa.float64(), metadata=metadata),
    ]
    schema = pa.schema(fields, metadata={b"gossip.trace": b"1"})
    with pa.OSFile(trace.FILE, "wb") as file:
        file.write(schema.serialize())
        batch = pa.record_batch([pa.array([0]), pa.array([1.0])], schema=schema)
        file.write(batch.serialize())
    try:
        table = trace.load(here)
    except UserError:
        return
    assert trace.column(table, "train_loss").tolist() == [1.0]
