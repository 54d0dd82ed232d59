"""Test the server of the explorer: who may use it, what it refuses, and that work ends."""

import json
import random
import socket
import threading
import time
from urllib.parse import quote

import numpy as np
import pytest
from websockets.exceptions import InvalidStatus

from explorer import explorer, read
from festina.explore import _live
from festina.explore._lecture import read_lecture
from festina.explore._server import free_socket


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with explorer(tmp_path_factory.mktemp("runs")) as opened:
        yield opened


def arrays(data: bytes) -> dict[tuple[str, str], np.ndarray]:
    """Return the arrays of a message by source and column, as the page reads them."""
    at, found = 4 + int.from_bytes(data[:4], "little"), {}
    for source, column, shape in read(data)["arrays"]:
        values = np.frombuffer(data, "<f4", int(np.prod(shape)), at)
        found[source, column] = values.reshape(shape)
        at += values.nbytes
    assert at == len(data)
    return found


def until(page, kind: str, number: int) -> list[dict]:
    """Return the heads of all messages up to the one of this kind and number."""
    heads = []
    while not heads or (heads[-1]["kind"], heads[-1]["n"]) != (kind, number):
        heads.append(read(page.recv(60)))
    return heads


def wish(number: int, **knobs) -> str:
    return json.dumps({"n": number, "knobs": knobs})


def test_knobs_are_answered_by_theory_and_then_by_training(client):
    with client.socket("/live/chain") as page:
        page.send(wish(1, depth=3))
        data = page.recv(60)
        head = read(data)
        assert (head["kind"], head["n"]) == ("theory", 1)
        assert "depth, strength, target, spread = 3," in head["python"]
        assert arrays(data)["product", "y"][-1] == pytest.approx(1.0, abs=0.01)
        heads = until(page, "trained", 1)
        assert [each["seed"] for each in heads if each["kind"] == "training"] == [0, 1, 2, 3]
        assert "% is expected." in heads[-1]["words"]


def test_an_older_wish_is_neither_answered_nor_trained(client):
    with client.socket("/live/chain") as page:
        page.send(wish(7))
        until(page, "theory", 7)
        for number in (6, 3, 7):
            page.send(wish(number, depth=1))
        page.send(wish(8))
        numbers = {head["n"] for head in until(page, "trained", 8)}
        assert numbers <= {7, 8}


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"depth": 10**9}, "`depth` must be at most 6, got 1000000000."),
        ({"strength": float("nan")}, "`strength` must be a finite number, got nan."),
        ({"depht": 2}, "`depht`: there is no such parameter."),
        ({"depth": "many"}, "`depth` must be a whole number, got 'many'."),
    ],
)
def test_a_knob_out_of_range_gets_one_sentence(client, knobs, words):
    with client.socket("/live/chain") as page:
        page.send(wish(1, **knobs))
        head = read(page.recv(60))
        assert (head["kind"], head["words"]) == ("error", words)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"n": 1}', '{"n": "x", "knobs": {}}', "[" * 10_000, "\x00"]
)
def test_a_message_that_is_not_understood_gets_one_sentence(client, text):
    with client.socket("/live/chain") as page:
        page.send(text)
        assert "does not understand" in read(page.recv(60))["words"]
        page.send(wish(1))
        until(page, "theory", 1)


def test_training_ends_when_the_page_is_closed(client, monkeypatch):
    ended, started = [], threading.Event()
    scene = _live.load_scene("chain")

    def endless(knobs, progress):
        started.set()
        try:
            while True:
                progress("training", 0.5)
                time.sleep(0.01)
        finally:
            ended.append(time.monotonic())
        yield

    monkeypatch.setattr(scene.module, "train", endless)
    with client.socket("/live/chain") as page:
        page.send(wish(1))
        until(page, "theory", 1)
        assert started.wait(30)
        assert not ended
    closed = time.monotonic()
    while not ended and time.monotonic() < closed + 5:
        time.sleep(0.01)
    assert ended


@pytest.mark.parametrize("origin", [None, "http://evil.example", "http://127.0.0.1:1"])
def test_another_web_page_may_not_open_a_socket(client, origin):
    with pytest.raises(InvalidStatus, match="403"):
        client.socket("/live/chain", origin=origin)


def test_another_web_page_may_not_send_requests(client):
    assert client.get("/", Origin="http://evil.example")[0] == 403
    assert client.get("/", Host="evil.example")[0] == 400
    assert client.get("/", Origin=client.address)[0] == 200
    assert "default-src 'none'" in client.get("/")[2]["content-security-policy"]


def test_an_unknown_scene_names_the_nearest_one(client):
    status, text, _ = client.get("/scene/chian")
    assert status == 404
    assert "chain" in text
    with pytest.raises(InvalidStatus, match="403"):
        client.socket("/live/chian")


def test_an_address_with_bad_values_uses_the_others(client):
    _, page, _ = client.get("/scene/chain?depth=5&strength=nan&target=1e9&width=%3Cscript%3E")
    assert "`strength` must be a finite number" in page
    assert 'name="depth" min="1" max="6" step="1" value="5"' in page
    assert "<script>" not in page.split("<main>")[1].split("<section")[0]


def test_files_outside_are_not_served(client):
    for path in ("/static/../_live.py", "/static/%2e%2e/_live.py", "/scene/../../etc/passwd"):
        assert client.get(path)[0] == 404


@pytest.mark.slow
def test_ten_thousand_random_messages_leave_the_server_alive(client):
    words = random.Random(0)
    pieces = [
        '{"n":',
        "1",
        "1e999",
        "-1",
        ',"knobs":{',
        '"depth":',
        "3",
        '"x"',
        "}}",
        "[",
        "\\",
        "é",
    ]
    with client.socket("/live/chain") as page:
        for k in range(10_000):
            if k % 10 == 0:
                page.send(wish(words.randrange(5000), depth=words.randrange(-3, 9)))
            else:
                page.send("".join(words.choices(pieces, k=words.randrange(1, 12))))
        page.send(wish(10**6, depth=2))
        until(page, "trained", 10**6)
    for _ in range(300):
        path = "".join(words.choices("abc/.%2e\\?&=<é", k=words.randrange(1, 40)))
        assert client.get("/" + quote(path, safe="/.%?&=<"))[0] in (200, 307, 404)


def test_the_next_free_port_is_taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with free_socket(port) as taken:
            assert taken.getsockname()[0] == "127.0.0.1"
            assert port < taken.getsockname()[1] < port + 100


def test_a_lecture_steps_through_scenes(tmp_path):
    path = tmp_path / "lecture.toml"
    path.write_text(
        '[[step]]\nscene = "chain"\ndepth = 4\nnote = "wait"\n[[step]]\nscene = "chain"'
    )
    with explorer(tmp_path, read_lecture(path)) as client:
        first = client.get("/lecture")[1]
        assert "1 of 2" in first
        assert 'href="/lecture/2"' in first
        assert 'max="6" step="1" value="4"' in first
        assert "wait" in first
        assert client.get("/lecture/3")[0] == 404


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no steps"),
        ("step = 3", "has no steps"),
        ("[[step]]\nnote = 'x'", "step 1: give the name of a scene"),
        ("[[step]]\nscene = 'chian'", "step 1: Unknown scene 'chian'. Did you mean 'chain'?"),
        ("[[step]]\nscene = 'chain'\ndepth = 40", "step 1: `depth` must be at most 6, got 40"),
        ("[[step]", "is not a TOML file"),
        ("tilte = 'x'\n[[step]]\nscene = 'chain'", "'tilte' is not known"),
    ],
)
def test_a_lecture_that_cannot_be_used_says_why(tmp_path, text, words):
    path = tmp_path / "lecture.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"lecture\.toml") as raised:
        read_lecture(path)
    assert words in str(raised.value)
