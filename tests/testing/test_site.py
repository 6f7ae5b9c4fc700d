"""The site must be right about HTTP and about time, or it would blame correct crawlers and pass rude ones."""

from __future__ import annotations

import http.client
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from mannerly.testing import Reply, Request, Site, SiteFault, close_on_nth, in_turn


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


def connection(site: Site) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(site.address, site.port, timeout=10)


def get(
    site: Site,
    host: str,
    target: str = "/",
    *,
    on: http.client.HTTPConnection | None = None,
    method: str = "GET",
) -> tuple[int, bytes, dict[str, str]]:
    """One exchange; on a connection of its own unless one is given."""
    used = on or connection(site)
    try:
        used.request(method, target, headers={"Host": f"{host}:{site.port}"})
        response = used.getresponse()
        return response.status, response.read(), dict(response.getheaders())
    finally:
        if on is None:
            used.close()


def until(condition: Callable[[], object], deadline_s: float = 5.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.002)


def seen_so_far(site: Site, number: int) -> bool:
    return len(site.requests) >= number


def test_names_are_told_apart_on_one_address(site: Site) -> None:
    site.page("a.test", "/", "this is a")
    site.page("b.test", "/", "this is b")
    assert get(site, "a.test")[:2] == (200, b"this is a")
    assert get(site, "B.TEST.")[:2] == (200, b"this is b")
    assert get(site, "c.test")[0] == 404


def test_robots_is_404_until_given(site: Site) -> None:
    site.page("a.test", "/", "x")
    assert get(site, "a.test", "/robots.txt")[0] == 404
    site.robots("a.test", "User-agent: *\nDisallow: /x\n")
    status, body, headers = get(site, "a.test", "/robots.txt")
    assert (status, body, headers["Content-Type"]) == (
        200,
        b"User-agent: *\nDisallow: /x\n",
        "text/plain; charset=utf-8",
    )


def test_a_path_answers_for_any_query_and_an_exact_target_comes_first(site: Site) -> None:
    site.page("a.test", "/list", "whole")
    site.page("a.test", "/list?page=2", "second")
    assert get(site, "a.test", "/list?page=1")[1] == b"whole"
    assert get(site, "a.test", "/list?page=2")[1] == b"second"


def test_a_request_is_recorded_as_it_was_sent(site: Site) -> None:
    with socket.create_connection((site.address, site.port)) as raw:
        raw.sendall(
            b"GET /x%7e?b=2&a=1 HTTP/1.1\r\nhOsT: A.test:80\r\nUser-Agent: mannerly/1 \r\nX: \xe9\r\n\r\n"
        )
        assert raw.recv(4096).startswith(b"HTTP/1.1 404 Not Found\r\n")
    (seen,) = site.requests
    assert (seen.host, seen.target, seen.method, seen.nth) == ("a.test", "/x%7e?b=2&a=1", "GET", 1)
    assert seen.headers == (("hOsT", "A.test:80"), ("User-Agent", "mannerly/1"), ("X", "é"))
    assert seen.header("user-agent") == "mannerly/1"
    assert site.paths("a.test") == ["/x%7e?b=2&a=1"]


def test_a_connection_is_kept_and_its_requests_counted(site: Site) -> None:
    site.page("a.test", "/", "x")
    kept = connection(site)
    for _ in range(3):
        assert get(site, "a.test", on=kept)[0] == 200
    kept.close()
    get(site, "a.test")
    assert [seen.nth for seen in site.requests] == [1, 2, 3, 1]
    assert len({seen.connection for seen in site.requests}) == 2


def test_pipelined_requests_are_answered_in_order_one_after_the_other(site: Site) -> None:
    site.route("a.test", "/slow", Reply(body="slow", delay_s=0.02))
    site.page("a.test", "/fast", "fast")
    with socket.create_connection((site.address, site.port)) as raw:
        raw.sendall(
            b"GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\nGET /fast HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
        )
        answer = b"".join(iter(lambda: raw.recv(4096), b""))
    assert answer.index(b"slow") < answer.index(b"fast")
    assert site.overlaps("a.test") == 0


def test_a_head_that_arrives_in_pieces_is_one_request_begun_at_its_last_byte(site: Site) -> None:
    site.page("a.test", "/", "x")
    with socket.create_connection((site.address, site.port)) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in (b"GET / HT", b"TP/1.1\r\nHost: a.te", b"st\r\n\r"):
            raw.sendall(piece)
            time.sleep(0.01)
        before = time.monotonic()
        raw.sendall(b"\n")
        assert raw.recv(4096).startswith(b"HTTP/1.1 200 OK")
    (seen,) = site.requests
    assert seen.began_at >= before


@pytest.mark.parametrize("size", [10, 3_000_000], ids=["one write", "many writes"])
def test_the_end_is_stamped_before_the_client_has_the_last_byte(site: Site, size: int) -> None:
    site.page("a.test", "/", b"x" * size)
    before = time.monotonic()
    assert len(get(site, "a.test")[1]) == size
    after = time.monotonic()
    (seen,) = site.requests
    assert seen.ended_at is not None
    assert before <= seen.began_at <= seen.ended_at <= after


def test_a_client_that_reads_slowly_keeps_the_request_in_flight(site: Site) -> None:
    site.page("a.test", "/", b"x" * 30_000_000)
    with socket.create_connection((site.address, site.port)) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
        until(lambda: site.requests)
        time.sleep(0.05)
        (seen,) = site.requests
        ended_unread = seen.ended_at
        before = time.monotonic()
        while raw.recv(1 << 20):
            pass
    assert ended_unread is None
    assert (seen.ended_at or 0) >= before


def test_chunked_and_bodiless_responses_are_framed_right(site: Site) -> None:
    site.route("a.test", "/chunked", Reply(body="hello world", chunked=True))
    site.route("a.test", "/204", Reply(status=204))
    site.route("a.test", "/304", Reply(status=304, headers=[("ETag", '"1"')]))
    site.page("a.test", "/", "body")
    kept = connection(site)
    assert get(site, "a.test", "/chunked", on=kept)[1] == b"hello world"
    assert get(site, "a.test", "/204", on=kept)[:2] == (204, b"")
    assert get(site, "a.test", "/304", on=kept)[:2] == (304, b"")
    status, body, headers = get(site, "a.test", "/", on=kept, method="HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", "4")
    assert get(site, "a.test", "/", on=kept)[1] == b"body"
    assert [seen.nth for seen in site.requests] == [1, 2, 3, 4, 5]
    kept.close()


def test_headers_are_sent_verbatim_and_may_lie(site: Site) -> None:
    site.route(
        "a.test",
        "/",
        Reply(body="abc", headers=[("X-A", "1"), ("X-A", "2"), ("content-length", "9")], close=True),
    )
    with socket.create_connection((site.address, site.port)) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
        answer = b"".join(iter(lambda: raw.recv(4096), b""))
    assert answer == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nX-A: 1\r\nX-A: 2\r\n"
        b"content-length: 9\r\nConnection: close\r\n\r\nabc"
    )


def test_a_redirect_says_where_to(site: Site) -> None:
    site.redirect("a.test", "/old", "/new", status=308)
    status, _, headers = get(site, "a.test", "/old")
    assert (status, headers["Location"]) == (308, "/new")


def test_delay_and_pause_are_kept(site: Site) -> None:
    site.route("a.test", "/late", Reply(body="x", delay_s=0.05))
    site.route("a.test", "/pause", Reply(body="x" * 100, pause_s=0.05, pause_after_bytes=50))
    for path in ("/late", "/pause"):
        before = time.monotonic()
        assert get(site, "a.test", path)[0] == 200
        assert time.monotonic() - before >= 0.05


def test_a_body_can_be_cut(site: Site) -> None:
    site.route("a.test", "/", Reply(body="x" * 100, close_after_bytes=30))
    with pytest.raises(http.client.IncompleteRead) as caught:
        get(site, "a.test")
    assert caught.value.partial == b"x" * 30
    assert not site.requests[0].aborted


def test_silence_and_reset_are_told_apart(site: Site) -> None:
    site.route("a.test", "/silent", Reply(silent=True))
    site.route("a.test", "/reset", Reply(silent=True, reset=True))
    with pytest.raises(http.client.RemoteDisconnected):
        get(site, "a.test", "/silent")
    with pytest.raises(ConnectionResetError) as caught:
        get(site, "a.test", "/reset")
    assert type(caught.value) is ConnectionResetError


def test_raw_bytes_go_out_as_they_are(site: Site) -> None:
    site.route("a.test", "/", Reply(raw=b"not http at all"))
    with socket.create_connection((site.address, site.port)) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
        assert b"".join(iter(lambda: raw.recv(4096), b"")) == b"not http at all"


def test_a_body_is_made_piece_by_piece_and_anew_for_each_response(site: Site) -> None:
    made: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(3):
            made.append(number)
            yield b"%d" % number * 50_000

    whole = b"".join(b"%d" % number * 50_000 for number in range(3))
    site.route("a.test", "/close", Reply(pieces=pieces))
    site.route("a.test", "/chunked", Reply(pieces=pieces, chunked=True))
    site.route("a.test", "/length", Reply(pieces=pieces, headers=[("Content-Length", "150000")]))
    site.route("a.test", "/raw", Reply(raw=b"HTTP/1.1 200 OK\r\n\r\n", pieces=pieces))
    for path in ("/close", "/chunked", "/length", "/raw"):
        status, body, headers = get(site, "a.test", path)
        assert (status, body) == (200, whole), path
        assert (headers.get("Connection") == "close") == (path == "/close"), path
    assert made == [0, 1, 2] * 4
    assert get(site, "a.test", "/close", method="HEAD")[1] == b""
    assert len(made) == 12
    kept = connection(site)
    for path in ("/chunked", "/length", "/chunked"):
        assert get(site, "a.test", path, on=kept)[1] == whole
    assert site.requests[-1].nth == 3
    kept.close()


def test_a_body_without_end_is_made_no_further_than_the_client_reads(site: Site) -> None:
    made = 0

    def pieces() -> Iterator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield b"x" * 65_536

    site.route("a.test", "/", Reply(pieces=pieces))
    used = connection(site)
    used.request("GET", "/", headers={"Host": "a.test"})
    response = used.getresponse()
    assert len(response.read(1_000_000)) == 1_000_000
    used.close()
    response.close()
    until(lambda: site.requests[0].over)
    assert site.requests[0].aborted
    # what the kernels of both sides hold comes on top of what was read
    assert made < 1_000


def test_pieces_are_spaced(site: Site) -> None:
    site.route("a.test", "/", Reply(pieces=lambda: (b"a", b"b", b"c"), every_s=0.02))
    began_at = time.monotonic()
    assert get(site, "a.test")[1] == b"abc"
    assert time.monotonic() - began_at >= 0.06


def test_pieces_that_raise_fail_the_test_that_wrote_them() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"a"
        raise RuntimeError("no more")

    with pytest.raises(SiteFault), Site() as site:
        site.route("a.test", "/", Reply(pieces=pieces))
        assert get(site, "a.test")[1] == b"a"


def test_pieces_are_the_whole_body() -> None:
    with pytest.raises(ValueError, match="pieces make the whole body"):
        Reply(body="a", pieces=lambda: (b"b",))


def test_a_kept_connection_can_die_on_its_second_request(site: Site) -> None:
    site.route("a.test", "/", close_on_nth(2, Reply(body="x")))
    kept = connection(site)
    assert get(site, "a.test", on=kept)[0] == 200
    with pytest.raises(http.client.RemoteDisconnected):
        get(site, "a.test", on=kept)
    kept.close()
    assert [seen.nth for seen in site.requests] == [1, 2]


def test_replies_can_be_given_in_turn(site: Site) -> None:
    site.route("a.test", "/", in_turn(Reply(status=503), Reply(status=429), Reply(body="x")))
    assert [get(site, "a.test")[0] for _ in range(4)] == [503, 429, 200, 200]


def test_a_handler_is_told_the_request_and_a_fallback_catches_the_rest(site: Site) -> None:
    def echo(request: Request) -> Reply:
        return Reply(body=f"{request.host} {request.path} {request.query} {request.header('HOST')}")

    site.fallback("a.test", echo)
    assert get(site, "a.test", "/p?q=1")[1] == f"a.test /p q=1 a.test:{site.port}".encode()


def test_a_handler_that_raises_fails_the_test_that_wrote_it() -> None:
    def broken(_: Request) -> Reply:
        raise KeyError("mine")

    with pytest.raises(SiteFault) as caught, Site() as site:
        site.route("a.test", "/", broken)
        assert get(site, "a.test")[0] == 500
    assert isinstance(caught.value.__cause__, KeyError)


def test_requests_at_once_are_counted(site: Site) -> None:
    site.fallback("a.test", lambda _: Reply(body="x", delay_s=30))
    site.fallback("b.test", lambda _: Reply(body="x", delay_s=30))
    with ExitStack() as open_ones:
        for number, host in enumerate((b"a.test", b"a.test", b"b.test"), start=1):
            raw = open_ones.enter_context(socket.create_connection((site.address, site.port)))
            raw.sendall(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
            until(partial(seen_so_far, site, number))
        assert [(seen.in_flight, seen.in_flight_host) for seen in site.requests] == [(1, 1), (2, 2), (3, 1)]
        assert (site.max_in_flight(), site.max_in_flight({"a.test"})) == (3, 2)
        assert (site.overlaps("a.test"), site.overlaps("b.test")) == (1, 0)
        assert [fault.host for fault in site.violations(0.0)] == ["a.test"]


def test_a_client_that_goes_away_ends_its_request(site: Site) -> None:
    site.route("a.test", "/", Reply(body="x", delay_s=30))
    with socket.create_connection((site.address, site.port)) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
        until(lambda: site.requests)
        dropped_at = time.monotonic()
    until(lambda: site.requests[0].over)
    assert site.requests[0].aborted
    assert 0 <= (site.requests[0].ended_at or 0) - dropped_at < 1
    get(site, "a.test", "/other")
    assert site.requests[-1].in_flight == 1


@pytest.mark.slow
def test_a_client_that_is_killed_ends_its_request(site: Site) -> None:
    site.route("a.test", "/", Reply(body="x", delay_s=30))
    script = (
        f"import socket, time; s = socket.create_connection(('127.0.0.1', {site.port}));"
        r"s.sendall(b'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n'); time.sleep(60)"
    )
    client = subprocess.Popen([sys.executable, "-c", script])
    until(lambda: site.requests)
    client.kill()
    client.wait()
    until(lambda: site.requests[0].over)
    assert site.requests[0].aborted


@pytest.mark.parametrize(
    "bad",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_and_not_recorded(site: Site, bad: bytes) -> None:
    with socket.create_connection((site.address, site.port)) as raw:
        raw.sendall(bad)
        assert raw.recv(4096).startswith(b"HTTP/1.1 400 ")
    assert site.requests == []


def test_names_may_live_at_several_addresses(site: Site) -> None:
    site.page("b.test", "/", "b")
    site.page("c.example", "/", "c")
    site.listen("127.0.0.7", "b.test")
    there = http.client.HTTPConnection("127.0.0.7", site.port)
    assert get(site, "b.test", on=there)[1] == b"b"
    there.close()
    assert site.requests[0].address == "127.0.0.7"
    assert site.resolve_args() == [
        *("--resolve", "b.test=127.0.0.7"),
        *("--resolve", "c.example=127.0.0.1"),
        *("--resolve", "*.test=127.0.0.1"),
        "--allow-private-addresses",
    ]


def test_a_grown_web_is_served_whole(site: Site) -> None:
    seeds = site.grow(hosts=3, pages=30)
    assert seeds == [f"http://h{number}.test:{site.port}/" for number in range(3)]
    assert len(site.urls()) == 30
    for url in site.urls("h1.test"):
        assert get(site, "h1.test", "/" + url.split("/", 3)[3])[0] == 200


def test_forget_clears_the_record(site: Site) -> None:
    get(site, "a.test")
    site.forget()
    assert site.requests == []


def test_a_site_that_was_not_entered_says_so() -> None:
    with pytest.raises(SiteFault, match="with Site"):
        Site().listen("127.0.0.9")


def test_a_taken_port_is_said_on_entering(site: Site) -> None:
    with pytest.raises(SiteFault, match=str(site.port)), Site(port=site.port):
        pass


@pytest.mark.slow
def test_the_demo_prints_where_it_is_and_what_it_sees() -> None:
    source = Path(__file__).parents[2] / "src"
    demo = subprocess.Popen(
        [sys.executable, "-m", "mannerly.testing", "site", "--pages", "12"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert demo.stdout is not None
    with demo.stdout as out:
        first = out.readline()
        assert first.startswith("serving 12 pages at http://h0.test:")
        port = int(first.split(":")[2].split("/")[0])
        used = http.client.HTTPConnection("127.0.0.1", port)
        used.request("GET", "/", headers={"Host": "h0.test"})
        assert used.getresponse().status == 200
        used.close()
        lines: list[str] = []
        while not lines or not lines[-1].startswith("200"):
            assert select.select([out], [], [], 10)[0]
            lines.append(out.readline())
        demo.send_signal(signal.SIGINT)
        assert demo.wait(10) == 0
    assert lines[-1] == "200 GET h0.test'/'\n"
