"""Graphs and matrices from anybody."""

import json
import struct
import tracemalloc
import zipfile

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

import topologies
from tests.hostile.damage import BINARY, TEXT, damaged, fuzz, one_sentence, torn
from tests.topologies.kite import FORMATS
from topologies import TopologyError
from topologies import arrays as arrays_module
from topologies import files as files_module

BINARIES = ("npy", "npz")


@pytest.mark.filterwarnings("ignore:.*some weights are negative")
@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_a_topology_or_one_sentence(name, tmp_path_factory):
    path = tmp_path_factory.mktemp("topology") / name
    FORMATS[name](path)
    whole = path.read_bytes()

    def read(data):
        path.write_bytes(data)
        with one_sentence():
            w = topologies.build(str(path), 5).matrix(0)
            np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-9)

    @fuzz(45)
    @given(data=damaged(whole, BINARY if name.endswith(BINARIES) else TEXT))
    def check(data):
        read(data)

    check()
    for data in torn(whole, 30):
        read(data)


def npy(shape, descr="<f8", data=b""):
    """A .npy file that says what it likes."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}}}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


NPY = {
    "promises": npy((10**6, 10**6)),
    "overflow": npy((2**40, 2**40)),
    "overflow to little": npy((2**32, 2**32, 2), data=b"\0" * 64),
    "negative": npy((-1, -1)),
    "nothing many times": npy((10**9, 0, 0)),
    "no bytes each": npy((10**5, 10**5), "|S0"),
    "void": npy((10**5, 10**5), "|V0"),
    "objects": npy((2, 2), "|O", b"\x80\x04N." * 20),
    "complex": npy((1, 1), "<c16", struct.pack("<2d", 1, 0)),
    "times": npy((1, 1), "<M8[s]", b"\1" + b"\0" * 7),
    "texts": npy((1, 1), "<U1", b"1\0\0\0"),
    "records": npy((1,), [("a", "<f8")], b"\0" * 8),
    "one number": npy((), data=struct.pack("<d", 1)),
    "four axes": npy((1, 1, 1, 1), data=struct.pack("<d", 1)),
    "brackets": b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000,
    "code": b"\x93NUMPY\x01\x00" + struct.pack("<H", 30) + b"__import__('os').getcwd()     ",
    "version": b"\x93NUMPY\x03\x00" + struct.pack("<I", 4) + b"{}  ",
}


@pytest.mark.parametrize("name", NPY)
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_an_array_is_believed_only_as_far_as_it_goes(name, kind, tmp_path):
    path = tmp_path / f"w.{kind}"
    if kind == "npy":
        path.write_bytes(NPY[name])
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("w.npy", NPY[name])
    tracemalloc.start()
    with pytest.raises(TopologyError) as caught:
        topologies.build(str(path), 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert peak < 2**24


def zipped(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            with archive.open(name, "w", force_zip64=True) as file:
                for piece in data:
                    file.write(piece)


def test_a_zip_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "LARGEST_BYTES", 2**26)
    n = 2**12  # 128 MiB from 130 KB
    row = bytes(8 * n)
    zipped(tmp_path / "w.npz", ("w.npy", [npy((n, n)), *([row] * n)]))
    assert (tmp_path / "w.npz").stat().st_size < 2**18
    tracemalloc.start()
    with pytest.raises(TopologyError, match=r"at most .* is read: give a graph or a sparse matrix"):
        topologies.build(str(tmp_path / "w.npz"), n)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_small_types_do_not_grow_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "LARGEST_BYTES", 20_000)
    np.save(tmp_path / "w.npy", np.eye(100, dtype=bool))
    with pytest.raises(TopologyError, match="is read: give a graph or a sparse matrix"):
        topologies.build(str(tmp_path / "w.npy"), 100)


def test_an_archive_of_very_many_members_is_not_listed(tmp_path):
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        for k in range(arrays_module.MOST_MEMBERS + 1):
            archive.writestr(str(k), b"")
    with pytest.raises(TopologyError, match="more than 256 members"):
        topologies.build(str(tmp_path / "w.npz"), 2)


def test_a_sparse_matrix_of_few_bytes_is_not_of_many_learners(tmp_path):
    n = files_module.MOST_LEARNERS + 1
    np.savez(tmp_path / "w.npz", format=b"coo", shape=(n, n), row=[0], col=[0], data=[1.0])
    with pytest.raises(TopologyError, match=r"square, \[n, n\], got 1048577 x 1048577"):
        topologies.build(str(tmp_path / "w.npz"), n)
    np.savez(tmp_path / "w.npz", format=b"dia", shape=(n, n), data=[[1.0]], offsets=[0])
    with pytest.raises(TopologyError, match="sparse format 'dia': save it as csr"):
        topologies.build(str(tmp_path / "w.npz"), n)


def test_a_long_sequence_of_tiny_matrices_is_refused(tmp_path):
    np.save(tmp_path / "w.npy", np.ones((files_module.MOST_MATRICES + 1, 1, 1), np.int8))
    with pytest.raises(TopologyError, match="16385 matrices, at most 16384 is read"):
        topologies.build(str(tmp_path / "w.npy"), 1)


LAUGHS = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10 if k else "lol"}">' for k in range(10))
PLAIN = '<graphml><graph edgedefault="undirected"><node id="0">{}</node></graph></graphml>'
GRAPHML = {
    "laughs": (f"<!DOCTYPE g [{LAUGHS}]>{PLAIN.format('&l9;')}", "utf-8"),
    "laughs in UTF-16": (f"<!DOCTYPE g [{LAUGHS}]>{PLAIN.format('&l9;')}", "utf-16"),
    "another's file": (
        f'<!DOCTYPE g [<!ENTITY x SYSTEM "file:///etc/passwd">]>{PLAIN.format("&x;")}',
        "utf-16",
    ),
}


@pytest.mark.parametrize("name", GRAPHML)
def test_entities_are_refused_in_every_encoding(name, tmp_path):
    text, encoding = GRAPHML[name]
    (tmp_path / "g.graphml").write_bytes(text.encode(encoding))
    with pytest.raises(TopologyError, match="needs no DOCTYPE, and it may not have one"):
        topologies.build(str(tmp_path / "g.graphml"), 1)


def test_a_word_in_a_comment_is_no_doctype(tmp_path):
    nx.write_graphml(nx.cycle_graph(5), tmp_path / "g.graphml")
    text = (tmp_path / "g.graphml").read_text().replace("<graph ", "<!-- <!DOCTYPE --><graph ")
    (tmp_path / "g.graphml").write_text(text)
    assert topologies.build(str(tmp_path / "g.graphml"), 5).n == 5


def test_a_file_without_namespace_is_read(tmp_path):
    nodes = "".join(f'<node id="{k}"/>' for k in range(3))
    edges = '<edge source="0" target="1"/><edge source="1" target="2"/>'
    text = f'<graphml><graph edgedefault="undirected">{nodes}{edges}</graph></graphml>'
    (tmp_path / "g.graphml").write_text(text)
    assert topologies.build(str(tmp_path / "g.graphml"), 3).neighbours_in(1, 0).tolist() == [0, 2]


LINK = {"source": 0, "target": 1}


def linked(**changes):
    return json.dumps({"nodes": [{"id": 0}, {"id": 1}], "links": [LINK]} | changes)


TEXTS = {
    "deep.json": "[" * 10**6,
    "digits.json": '{"nodes": [' + "9" * 10**6 + "]}",
    "list.json": "[[]]",
    "huge.json": linked(links=[LINK | {"weight": 10**400}]),
    "nan.json": linked(nodes=[{"id": float("nan")}, {"id": 1}], links=[]),
    "unhashable.json": linked(nodes=[{"id": {}}]),
    "nested.json": linked(nodes=[{"id": [[[]]]}, {"id": [1]}]),
    "names.json": linked(nodes=3, links="x"),
    "deep.graphml": "<a>" * 10**5,
    "deeper.graphml": "<a>" * 10**5 + "</a>" * 10**5,
    "empty.graphml": "",
    "none.csv": "",
    "comment.csv": "# nothing\n",
    "overflow.csv": "1e308,1e308,-1e308\n" * 3,
    "lines.txt": "\n" * 10**6,
    "digits.txt": "9" * 4299 + " " + "9" * 4300 + "\n",
    "weight.txt": "0 1 1e999\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_nasty_text_is_refused_in_one_sentence(name, tmp_path):
    (tmp_path / name).write_text(TEXTS[name])
    with pytest.raises(TopologyError) as caught:
        topologies.build(str(tmp_path / name), 3)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.json", '{"nodes": [' + "{}," * 3000 + "{}]}"),
        ("g.graphml", "<graphml>" + "<a/>" * 6000 + "</graphml>"),
        ("g.txt", "".join(f"{k} {k + 1}\n" for k in range(3000))),
    ],
)
def test_many_small_things_are_refused_before_they_are_made(name, text, tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "MOST_ELEMENTS", 5000)
    monkeypatch.setattr(files_module, "MOST_LEARNERS", 2000)
    (tmp_path / name).write_text(text)
    with pytest.raises(TopologyError, match=r"it has more .*, at most \d+.* is read"):
        topologies.build(str(tmp_path / name), 3)


def test_what_is_too_large_is_not_opened(tmp_path):
    for kind, size in [("csv", files_module.LARGEST_TEXT_BYTES), ("npy", 2**30)]:
        with (tmp_path / f"w.{kind}").open("wb") as file:
            file.truncate(size + 1)
        with pytest.raises(TopologyError, match="MiB is read"):
            topologies.build(str(tmp_path / f"w.{kind}"), 3)
