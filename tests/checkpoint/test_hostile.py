"""Files made to harm: whoever reads them gets a sentence, never a traceback, hang or surprise."""

import json
import random
import struct
import sys

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from gossip.checkpoint import facts, read, verify
from gossip.errors import UserError
from tests.checkpoint.forge import forge, manifest_of, sign
from tests.checkpoint.jobs import bits, saved, snapshot, whole


@pytest.fixture
def path(tmp_path):
    return saved(tmp_path / "checkpoint", 100)[0]


@pytest.fixture(scope="module")
def shared_path(tmp_path_factory):
    """For tests that write its manifest again and again."""
    return saved(tmp_path_factory.mktemp("hostile"), 100)[0]


def refuse(path, match=None):
    for function in (verify, whole):
        with pytest.raises(UserError, match=match):
            function(path)


def mistake(function, path, *, otherwise):
    """What the UserError says, if there is one; any other exception fails the test."""
    try:
        function(path)
    except UserError as error:
        return str(error)
    return str(otherwise)


def test_an_honest_signature_is_accepted(path):
    sign(path, manifest_of(path))
    assert bits(whole(path)) == bits(snapshot(100))


CHANGES = {
    "parent": lambda t: t["blocks"][0].update(file="../../etc/passwd"),
    "absolute": lambda t: t["blocks"][0].update(file="/etc/passwd"),
    "other": lambda t: t["blocks"][0].update(file="shared.safetensors"),
    "twice": lambda t: t["blocks"].append(t["blocks"][1]),
    "swapped": lambda t: t["blocks"].reverse(),
    "overlap": lambda t: t["blocks"][1].update(first=1),
    "gap": lambda t: t["blocks"][1].update(first=3),
    "short": lambda t: t["blocks"][1].update(last=2),
    "long": lambda t: t["blocks"][1].update(last=4),
    "backwards": lambda t: t["blocks"][0].update(last=-1),
    "none": lambda t: t.update(blocks=[]),
    "huge n": lambda t: (t.update(n=10**15), t["blocks"][1].update(last=10**15 - 1)),
    "no learners": lambda t: t.update(n=0, blocks=[]),
    "negative n": lambda t: t.update(n=-4),
    "nan": lambda t: t.update(n=float("nan")),
    "infinite": lambda t: t["blocks"][0].update(last=float("inf")),
    "absurd size": lambda t: t["blocks"][0].update(bytes=2**62),
    "more than absurd": lambda t: t["shared"].update(bytes=2**200),
    "negative size": lambda t: t["shared"].update(bytes=-1),
    "no hash": lambda t: t["shared"].update(sha256=""),
    "long hash": lambda t: t["shared"].update(sha256=t["shared"]["sha256"] + "\n"),
    "capitals": lambda t: t["shared"].update(sha256=t["shared"]["sha256"].upper()),
    "another step": lambda t: t.update(step=101),
    "true step": lambda t: t.update(step=True),
    "text": lambda t: t.update(step="100"),
    "format": lambda t: t.update(format=2),
    "unknown": lambda t: t.update(code="import os"),
    "unknown in a block": lambda t: t["blocks"][0].update(path="/etc/passwd"),
    "missing": lambda t: t.pop("facts"),
    "list of facts": lambda t: t.update(facts=[]),
    "null": lambda t: t.update(shared=None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_manifest_with_another_meaning(change, path):
    table = manifest_of(path)
    CHANGES[change](table)
    sign(path, table)
    refuse(path, "checkpoint")


def deep(opening: str, closing: str = "") -> str:
    return 200_000 * opening + 200_000 * closing


@pytest.mark.parametrize(
    "text",
    [
        deep("["),
        deep("[", "]"),
        deep('{"a":'),
        '{"facts":' + deep("[", "]") + "}",
        '{"step":' + "9" * 100_000 + "}",
        "1e999",
        "null",
        '"text"',
        "[]",
        "{}",
        "\ufeff{}",
        '{"sha256": [], "sha256": []}',
    ],
)
def test_texts_that_are_hard_on_a_parser(text, path):
    for data in (text.encode(), text.encode("utf-16"), b"\xff" + text.encode()):
        (path / "manifest.json").write_bytes(data)
        refuse(path, "manifest")


def test_facts_as_deep_as_a_parser_goes(path):
    """Either they are read or refused; what is in between depends on the interpreter."""
    table = manifest_of(path)
    for depth in (100, *range(300, sys.getrecursionlimit(), 20)):
        nested: list = []
        for _ in range(depth):
            nested = [nested]
        table["facts"] = {"nested": nested}
        try:
            sign(path, table)
        except RecursionError:
            break
        try:
            assert facts(path)["nested"] == nested
        except UserError:
            assert depth > 100


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
ODD = JSON | st.sampled_from(
    [-1, 0, 1, 2**31, 2**63, 2**64, 1.0, 1e308, "../x", "block-00000.safetensors", [], {}]
)


def places(table):
    """Where something stands in it: (its holder, its key)."""
    found = [(table, key) for key in (table if isinstance(table, dict) else range(len(table)))]
    for holder, key in list(found):
        if isinstance(holder[key], dict | list) and key != "facts":
            found += places(holder[key])
    return found


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_manifest_is_refused_or_means_the_same(shared_path, data):
    """Something in it is replaced, removed or added, and the whole is signed again."""
    table = manifest_of(shared_path)
    try:
        changed = json.loads(json.dumps(table))
        for _ in range(data.draw(st.integers(1, 2))):
            holder, key = data.draw(st.sampled_from(places(changed)))
            how = data.draw(st.sampled_from(["replace", "remove", "add"]))
            if how == "replace":
                holder[key] = data.draw(ODD)
            elif how == "remove":
                holder.pop(key)
            elif isinstance(holder, dict):
                holder[data.draw(st.text(max_size=6))] = data.draw(ODD)
            else:
                holder.append(data.draw(ODD))
            if not places(changed):
                break
        sign(shared_path, changed)
        try:
            verify(shared_path)
            found = whole(shared_path)
        except UserError:
            return
        assert bits(found)[:2] == bits(snapshot(100))[:2]
        assert repr(found.facts) == repr(changed["facts"])
    finally:
        sign(shared_path, table)


@settings(max_examples=100)
@given(raw=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_for_a_manifest_are_refused(shared_path, raw):
    table = manifest_of(shared_path)
    try:
        (shared_path / "manifest.json").write_bytes(raw)
        refuse(shared_path)
    finally:
        sign(shared_path, table)


def tensors_file(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


SHARED = {
    "no file": b"",
    "only a length": struct.pack("<Q", 0),
    "absurd length": struct.pack("<Q", 2**63) + b"{}",
    "not JSON": tensors_file(b"{"),
    "deep": tensors_file(deep("[").encode()),
    "deeper": tensors_file(deep('{"a":').encode()),
    "gap": tensors_file({"a": entry("U8", [1], 1, 2)}, b"12"),
    "overlap": tensors_file({"a": entry("U8", [1], 0, 1), "b": entry("U8", [1], 0, 1)}, b"1"),
    "too few bytes": tensors_file({"a": entry("F64", [2**50], 0, 2**53)}, b"1"),
    "overflow": tensors_file({"a": entry("F32", [2**62, 2**62, 0], 0, 0)}),
    "beyond torch": tensors_file({"a": entry("F32", [0, 2**63], 0, 0)}),
    "negative": tensors_file({"a": entry("U8", [-1], 0, 1)}, b"1"),
    "dtype": tensors_file({"a": entry("Q8", [1], 0, 1)}, b"1"),
    "no dtype of ours": tensors_file({"a": entry("F8_E8M0", [1], 0, 1)}, b"1"),
}


@pytest.mark.parametrize("name", SHARED)
def test_shared_tensors_that_are_none(name, path):
    forge(path, "shared.safetensors", SHARED[name])
    refuse(path, "shared.safetensors")


BLOCKS = {
    "rows": {"x": torch.zeros(3, 5)},
    "no rows": {"x": torch.tensor(1.0)},
    "shape": {"x": torch.zeros(2, 6)},
    "dtype": {"x": torch.zeros(2, 5).double()},
    "fewer": {},
    "more": {"x": torch.zeros(2, 5), "y": torch.zeros(2, 5)},
    "name": {"y": torch.zeros(2, 5)},
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_unlike_the_others(name, path):
    forge(path, "block-00000.safetensors", save({"x": torch.ones(2, 5)}))
    forge(path, "block-00001.safetensors", save({"x": torch.zeros(2, 5)}))
    assert read(path, range(1, 3)).rows["x"].tolist() == [[1.0] * 5, [0.0] * 5]
    forge(path, "block-00001.safetensors", save(BLOCKS[name]))
    refuse(path, "block-00001.safetensors")


@pytest.mark.parametrize("shape", [[2, 0, 2**62], [2, 2**62, 0], [2, 2**31, 2**31, 0]])
def test_no_elements_on_absurd_axes(shape, path):
    """Nothing is to be allocated for them; torch may refuse such strides or not."""
    data = tensors_file({"x": entry("F32", shape, 0, 0)})
    for block in ("block-00000.safetensors", "block-00001.safetensors"):
        forge(path, block, data)
    for function in (verify, whole):
        assert str(path) in mistake(function, path, otherwise=path)


def test_any_byte_of_a_header(path):
    """Hashes are right, so the parser is on its own."""
    good = (path / "block-00000.safetensors").read_bytes()
    length = 8 + struct.unpack("<Q", good[:8])[0]
    draw = random.Random(0)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(draw.choice([1, 1, 2, 5])):
            data[draw.randrange(length)] = draw.choice([draw.randrange(256), *b'0129[]{},:"-'])
        forge(path, "block-00000.safetensors", bytes(data))
        for function in (verify, whole):
            assert "block-0000" in mistake(function, path, otherwise="block-0000")
