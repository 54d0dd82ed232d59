"""Test reading MNIST and its errors, with small files of the same format."""

import functools
import gzip
import http.server
import os
import threading

import numpy as np
import pytest

from festina.tasks import _mnist_files, mnist_digits
from helpers import printed

IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"


def idx(array):
    header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes()
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write forty images, each filled with its own grey value, of the ten digits in turn."""
    labels = np.arange(40) % 10
    images = np.broadcast_to(np.arange(40)[:, None, None], (40, 28, 28))
    for name, array in ((IMAGES, images), (LABELS, labels)):
        (tmp_path / name).write_bytes(gzip.compress(idx(array)))
        (tmp_path / name.replace("train", "t10k")).write_bytes(gzip.compress(idx(array[:20])))
    monkeypatch.setenv("FESTINA_DATA", str(tmp_path))
    # Neither the network nor the user's cache is used.
    monkeypatch.setattr(_mnist_files, "_MIRROR", "http://127.0.0.1:9/")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_pixels_targets_and_labels(folder):
    task = mnist_digits((7, 3))
    assert task.x.shape == (8, 784)
    # The samples are those of the files in order: 3, 7, 13, 17, …
    np.testing.assert_allclose(task.x[:, 0] * 255, [3, 7, 13, 17, 23, 27, 33, 37])
    assert task.labels["digit"].tolist() == [3, 7] * 4
    np.testing.assert_array_equal(task.y, [[0.0, 1.0], [1.0, 0.0]] * 4)
    assert mnist_digits((0, 1, 2), split="test").y.shape == (6, 3)


def test_a_folder_called_mnist_will_do(folder, monkeypatch):
    (folder / "above").mkdir()
    (folder / "above" / "mnist").symlink_to(folder, target_is_directory=True)
    monkeypatch.setenv("FESTINA_DATA", str(folder / "above"))
    assert mnist_digits((3, 5)).samples == 8


def test_a_file_that_changes_is_read_again(folder):
    mnist_digits((3, 5))
    (folder / LABELS).write_bytes(gzip.compress(idx(np.arange(40) % 5)))
    with pytest.raises(ValueError, match="no image of 5"):
        mnist_digits((3, 5))


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("digits", [(3,), (3, 3), (3, 10), (), (-1, 2), (3.5, 2)])
def test_digits_that_are_none(digits, folder):
    with pytest.raises(ValueError, match=r"two or more different digits|whole number from 0 up"):
        mnist_digits(digits)


@pytest.mark.usefixtures("as_a_user")
def test_a_split_that_is_none(folder):
    with pytest.raises(ValueError, match="`split` must be"):
        mnist_digits((3, 5), split="validation")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda whole: whole[: len(whole) // 2], "damaged or no gzip file"),
        (lambda whole: b"<html>not found</html>", "damaged or no gzip file"),
        (
            lambda whole: gzip.compress(gzip.decompress(whole)[:-5]),
            "but its header implies",
        ),
        (lambda whole: gzip.compress(gzip.decompress(whole)[:7]), "its header implies"),
        (lambda whole: gzip.compress(idx(np.arange(40))), "no idx file .* with 3 axes"),
        (lambda whole: gzip.compress(b""), "no idx file"),
    ],
)
def test_files_that_are_not_mnist(damage, words, folder):
    file = folder / IMAGES
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=words) as error:
        mnist_digits((3, 5))
    assert str(file) in str(error.value)


def test_images_and_labels_of_different_sets(folder):
    (folder / LABELS).write_bytes(gzip.compress(idx(np.arange(30) % 10)))
    with pytest.raises(ValueError, match="40 images and 30 labels"):
        mnist_digits((3, 5))


def test_offline_one_line_says_what_was_tried(folder, monkeypatch):
    monkeypatch.setenv("FESTINA_DATA", str(folder / "empty"))
    with pytest.raises(ValueError, match=r"The MNIST file .* was not found") as error:
        mnist_digits((3, 5))
    for words in (IMAGES, "empty", "cache", "127.0.0.1", "Set the environment variable FESTINA"):
        assert words in str(error.value)


@pytest.fixture
def mirror(folder, monkeypatch):
    """Serve the small files, with their checksums in place of the published ones."""
    import hashlib

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(_mnist_files, "_MIRROR", f"http://127.0.0.1:{server.server_port}/")
        checksums = {
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
            for name in (IMAGES, LABELS)
        }
        monkeypatch.setattr(_mnist_files, "_CHECKSUMS", checksums)
        monkeypatch.delenv("FESTINA_DATA")
        yield server
        server.shutdown()
        thread.join()


def test_downloaded_once_and_kept(mirror, folder):
    assert mnist_digits((3, 5)).samples == 8
    kept = folder / "cache" / "festina" / "data" / "mnist"
    assert sorted(path.name for path in kept.iterdir()) == [IMAGES, LABELS]
    mirror.shutdown()
    mirror.server_close()
    assert mnist_digits((3, 5)).samples == 8


def test_a_download_with_another_checksum_is_refused(mirror, folder):
    (folder / IMAGES).write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"could not be downloaded .* \(ValueError\)"):
        mnist_digits((3, 5))


def test_pooch_is_not_imported_where_files_are_given(folder):
    code = (
        "import sys; from festina.tasks import mnist_digits; "
        "mnist_digits((3, 5)); print('pooch' in sys.modules)"
    )
    assert printed(code).strip() == "False"


@pytest.mark.skipif("FESTINA_DATA" not in os.environ, reason="FESTINA_DATA names no MNIST folder")
def test_the_real_ones():
    """The real files have the published counts and mean pixel."""
    counts = np.array([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])
    task = mnist_digits(range(10))
    np.testing.assert_array_equal(np.bincount(task.labels["digit"]), counts)
    np.testing.assert_array_equal(task.y.sum(axis=0), counts)
    assert task.x.mean() == pytest.approx(0.1307, abs=5e-5)
    assert mnist_digits((3, 5), split="test").samples == 1010 + 892
