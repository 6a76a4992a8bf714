"""The same text as another editor, shell or system has saved it is the same text."""

import codecs
import json

import networkx as nx
import numpy as np
import pytest

import topologies
from gossip.compare.command import parse
from gossip.config import Config, load
from gossip.errors import UserError
from gossip.simulate.network import Link
from gossip.simulate.presets import network
from gossip.storage.tables import read_json
from gossip.stragglers import make

MARK = codecs.BOM_UTF8
SAVED = {
    "byte order mark": lambda text: MARK + text,
    "lines of Windows": lambda text: text.replace(b"\n", b"\r\n"),
    "mark and lines of Windows": lambda text: MARK + text.replace(b"\n", b"\r\n"),
    "blanks at the end of lines": lambda text: text.replace(b"\n", b" \t\n"),
    "blank lines at the end": lambda text: text + b"\n  \n",
    "no last line end": lambda text: text.rstrip(b"\n"),
}
TABLES = {
    "comments": lambda text: b"# ours\n" + text.replace(b"\n", b"  # a row\n"),
    "comment behind a mark": lambda text: MARK + b"# ours\n" + text,
    "files put together": lambda text: MARK + text.replace(b"\n", b"\n" + MARK, 1),
    "lines of an old Mac": lambda text: text.replace(b"\n", b"\r"),
}
ELSEWHERE = {
    "UTF-16 with its mark": lambda text: text.decode().encode("utf-16"),
    "UTF-16 without": lambda text: text.decode().encode("utf-16-le"),
    "UTF-16, the other order": lambda text: text.decode().encode("utf-16-be"),
    "UTF-32": lambda text: text.decode().encode("utf-32"),
    "Latin-1": lambda text: text + b"# caf\xe9\n",
}
EDGES = [(3, 1), (1, 0), (0, 2), (2, 4)]
"""A chain, in another order than that of its learners' numbers."""
GRAPH = nx.Graph(EDGES)
W = topologies.from_graph(GRAPH).matrix(0).toarray()
TEXTS = {
    "g.edgelist": "".join(f"{i} {j}\n" for i, j in EDGES),
    "g.txt": "".join(f"{i}, {j}, 2.5\n" for i, j in EDGES),
    "g.json": json.dumps(nx.node_link_data(GRAPH, edges="edges"), indent=1) + "\n",
    "g.graphml": "\n".join(nx.generate_graphml(GRAPH)) + "\n",
    "w.csv": "".join(",".join(map(repr, row)) + "\n" for row in W.tolist()),
}
LINES = ("g.edgelist", "g.txt", "w.csv")


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("saved", SAVED | TABLES)
def test_a_topology_is_the_same_however_it_was_saved(name, saved, tmp_path):
    if name not in LINES and saved in TABLES:
        return
    (tmp_path / name).write_bytes((SAVED | TABLES)[saved](TEXTS[name].encode()))
    np.testing.assert_array_equal(topologies.build(str(tmp_path / name), 5).matrix(0).toarray(), W)


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "g.graphml"])
@pytest.mark.parametrize("saved", ELSEWHERE)
def test_a_topology_in_another_encoding_is_refused_in_one_sentence(name, saved, tmp_path):
    (tmp_path / name).write_bytes(ELSEWHERE[saved](TEXTS[name].encode()))
    expected = "UTF-8" if saved == "Latin-1" else r"UTF-(16|32).*where UTF-8 is read"
    with pytest.raises(topologies.TopologyError, match=expected) as caught:
        topologies.build(str(tmp_path / name), 5)
    assert "\n" not in str(caught.value)


def test_xml_says_itself_what_it_is_encoded_in(tmp_path):
    text = TEXTS["g.graphml"].replace("utf-8", "utf-16")
    (tmp_path / "g.graphml").write_bytes(text.encode("utf-16"))
    w = topologies.build(str(tmp_path / "g.graphml"), 5).matrix(0).toarray()
    np.testing.assert_array_equal(w, W)


@pytest.mark.parametrize("saved", SAVED)
def test_a_config_is_the_same_however_it_was_saved(saved, tmp_path):
    text = b'algorithm = ["ssgd"]  # one\n\n[rate]\nlr = 0.25\n'
    path = tmp_path / "config.toml"
    path.write_bytes(SAVED[saved](text))
    config = load(path)
    assert (config.algorithm, config.rate.lr, config.steps) == (("ssgd",), 0.25, Config().steps)
    command, given = parse(["--config", str(path), "--epochs", "1", "--out", "x"])
    assert command.options.rate.lr == 0.25
    assert "lr" in given


@pytest.mark.parametrize("saved", SAVED)
def test_a_network_is_the_same_however_it_was_saved(saved, tmp_path):
    path = tmp_path / "lab.toml"
    path.write_bytes(SAVED[saved](b'[links.rack]\nlatency = 0.5\nbandwidth = "8 Gbit/s"\n'))
    assert network(str(path)).links["rack"] == Link(latency=0.5, up=1e9, down=1e9)


def test_a_table_of_names_and_values_may_have_a_mark(tmp_path):
    (tmp_path / "summary.json").write_bytes(MARK + b'{"a": 1}\r\n')
    assert read_json(tmp_path / "summary.json") == {"a": 1}


@pytest.mark.parametrize("saved", ELSEWHERE)
def test_a_config_in_another_encoding_is_refused_in_one_sentence(saved, tmp_path):
    (tmp_path / "config.toml").write_bytes(ELSEWHERE[saved](b"steps = 3\n"))
    with pytest.raises(UserError) as caught:
        load(tmp_path / "config.toml")
    assert "\n" not in str(caught.value)
    if saved != "Latin-1":
        assert "it is UTF-16 or has NUL bytes, where UTF-8 is read" in str(caught.value)


@pytest.mark.parametrize("saved", SAVED | TABLES)
def test_straggler_factors_are_the_same_however_they_were_saved(saved, tmp_path):
    (tmp_path / "factors.csv").write_bytes((SAVED | TABLES)[saved](b"1,2.5\n3,1\n"))
    straggler = make("trace", [f"file={tmp_path / 'factors.csv'}"], n=2, seed=0)
    assert [[straggler.factor(j, t) for j in range(2)] for t in range(2)] == [[1, 2.5], [3, 1]]


@pytest.mark.parametrize("saved", ELSEWHERE)
def test_straggler_factors_in_another_encoding_are_refused_in_one_sentence(saved, tmp_path):
    (tmp_path / "factors.csv").write_bytes(ELSEWHERE[saved](b"1,2.5\n3,1\n"))
    with pytest.raises(UserError, match="not a table of numbers") as caught:
        make("trace", [f"file={tmp_path / 'factors.csv'}"], n=2, seed=0)
    assert "\n" not in str(caught.value)
