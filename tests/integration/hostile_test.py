# SPDX-License-Identifier: Apache-2.0
"""Peers that are wrong on purpose: every one gets a clear answer, and nothing is lost."""

import json
import re
import socket
import threading
import unittest

from tests.support.gateway_case import GatewayCase
from tests.support.processes import chat, request, wait_until
from tests.support.scripted_provider import (STREAM_END, STREAM_HEAD, Reset, chunk, completion,
                                             delta, http_answer, json_answer)

BODY = json.dumps({"model": "toy-chat", "messages": [{"role": "user", "content": "x"}]}).encode()


def raw(port, data, read=True, timeout=20.0):
    """Sends bytes, reads until the peer closes or goes quiet with a whole answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as peer:
        peer.sendall(data)
        got = b""
        while read:
            try:
                piece = peer.recv(65536)
            except ConnectionResetError:
                break
            if not piece:
                break
            got += piece
        return got


def head(*lines, length=len(BODY)):
    fixed = ["POST /v1/chat/completions HTTP/1.1", "host: a", "content-type: application/json"]
    if length is not None:
        fixed.append(f"content-length: {length}")
    return ("\r\n".join([*fixed, *lines]) + "\r\n\r\n").encode("latin-1")


class HalfClose(GatewayCase):
    def test_a_client_that_ends_its_sending_side_gets_its_answer(self):
        slow = threading.Event()

        def answer(_, __):
            slow.wait(20)
            return json_answer(200, completion(text="whole"))
        self.start(answer)
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as peer:
            peer.sendall(head("connection: close") + BODY)
            peer.shutdown(socket.SHUT_WR)
            wait_until(lambda: self.gateway.metric_sum("weir_inflight") == 1, "the call is out")
            slow.set()
            got = b"".join(iter(lambda: peer.recv(65536), b""))
        self.assertIn(b"HTTP/1.1 200 OK\r\n", got)
        self.assertIn(b"whole", got)
        self.assert_nothing_held()

    def test_a_client_that_leaves_while_it_waits_is_noticed(self):
        slow = threading.Event()

        def answer(_, __):
            slow.wait(20)
            return json_answer(200, completion())
        self.start(answer)
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as peer:
            peer.sendall(head() + BODY)
            wait_until(lambda: self.gateway.metric_sum("weir_inflight") == 1, "the call is out")
        wait_until(lambda: self.gateway.metric_sum("weir_client_gone_total") == 1, "it has gone")
        slow.set()
        self.assert_nothing_held()


class Framing(GatewayCase):
    def setUp(self):
        self.start(lambda request, _: json_answer(200, completion()))

    def refused(self, data, *statuses):
        got = raw(self.port, data)
        status = int(got.split(b" ", 2)[1]) if got else 0
        self.assertIn(status, statuses or (400,), data[:120])
        self.assertIn(b"connection: close", got.lower(), data[:120])
        self.assertEqual(len(re.findall(rb"HTTP/1\.1 \d{3} ", got)), 1, data[:120])

    def test_T099_ambiguous_framing_is_refused_and_closed(self):
        hidden = b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n"
        for line in ("transfer-encoding: chunked", "Transfer-Encoding: xchunked",
                     "content-length: 5", "content-length: +5", f" folded: {len(BODY)}"):
            self.refused(head(line) + BODY, 400, 501)
        for lines in (("content-length: 5, 6",), ("content-length: 0x5",),
                      ("content-length: -1",), ("content-length: 99999999999999999999",),
                      ("transfer-encoding: chunked, gzip",), ("transfer-encoding: gzip, chunked",),
                      ("transfer-encoding: chunked", "transfer-encoding: chunked"),
                      ("content-length : 5",)):
            self.refused(head(*lines, length=None) + hidden, 400, 413, 501)
        self.refused(head("transfer-encoding: chunked", length=None) +
                     b"ffffffffffffffffff\r\n" + BODY, 400, 413)
        self.refused(b"POST /v1/chat/completions HTTP/1.1\nhost: a\ncontent-length: 2\n\n{}")
        self.refused(b"GET / HTTP/9.9\r\nhost: a\r\n\r\n", 400, 505)
        self.refused(b"G\x00T / HTTP/1.1\r\nhost: a\r\n\r\n")
        self.assertEqual(len(self.provider.requests), 0)

    def test_T099_random_bytes_never_end_the_process(self):
        state = 1
        for _ in range(200):
            data = bytearray()
            for _ in range(200):
                state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                data.append(state >> 56)
            with socket.create_connection(("127.0.0.1", self.port), timeout=20) as peer:
                peer.sendall(bytes(data) + b"\r\n\r\n")
        self.assertEqual(chat(self.port)[0], 200)

    def test_T100_expect_continue(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as peer:
            peer.sendall(head("expect: 100-continue"))
            self.assertTrue(peer.recv(100).startswith(b"HTTP/1.1 100"))
            peer.sendall(BODY)
            self.assertIn(b" 200 ", peer.recv(4096).split(b"\r\n")[0])
        self.assertNotIn("expect", self.provider.requests[0].headers)

    def test_T101_early_refusals_are_readable(self):
        long_head = b"POST /nowhere HTTP/1.1\r\nhost: a\r\ncontent-length: 20000000\r\n\r\n"
        got = raw(self.port, long_head + b"x" * 2_000_000)
        self.assertIn(b" 404 ", got.split(b"\r\n")[0])

    def test_T111_bodies_above_the_cap_get_413(self):
        status, _, answer = request(self.port, "POST", "/v1/chat/completions",
                                    b"x" * (33 << 20), {"content-type": "application/json"})
        self.assertEqual(status, 413)
        self.assertIn("32", json.loads(answer)["error"]["message"])

    def test_T085_upgrades_are_refused_by_name(self):
        got = raw(self.port, b"GET /v1/realtime HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\n"
                  b"upgrade: websocket\r\nsec-websocket-key: x\r\n\r\n")
        self.assertIn(b" 501 ", got.split(b"\r\n")[0])

    def test_T119_oversized_heads_get_431(self):
        self.refused(head("x-long: " + "a" * 40000) + BODY, 431)

    def test_a_one_byte_at_a_time_client_is_served(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in head() + BODY:
                peer.sendall(bytes([byte]))
            self.assertIn(b" 200 ", peer.recv(4096).split(b"\r\n")[0])

    def test_a_31_mib_body_goes_through(self):
        body = json.dumps({"messages": [{"role": "user", "content": "y" * (31 << 20)}],
                           "model": "toy-chat"}).encode()
        status, _, _ = request(self.port, "POST", "/v1/chat/completions", body,
                               {"content-type": "application/json"})
        self.assertEqual(status, 200)
        self.assertEqual(self.provider.requests[0].body, body)


class Providers(GatewayCase):
    def test_malformed_answers_are_a_502(self):
        answers = [b"nonsense\r\n\r\n", b"HTTP/1.1 banana OK\r\n\r\n",
                   b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
                   b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b""]
        step = iter(answers)

        def answer(request, _):
            data = next(step)
            def pieces():
                if data:
                    yield data
                raise Reset()
            return pieces()
        self.start(answer)
        for _ in answers:
            status, _, body = chat(self.port)
            self.assertEqual(status, 502)
            self.assertEqual(body["error"]["gateway_decision"], "admitted_then_provider_failed")
        self.assert_nothing_held()

    def test_T107_one_byte_chunks_keep_every_byte(self):
        text = "漢字 é 😀 " * 20
        payload = ("data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text},
                                                       "finish_reason": "stop"}]},
                                         ensure_ascii=False) + "\n\ndata: [DONE]\n\n").encode()

        def answer(request, _):
            def pieces():
                yield STREAM_HEAD
                for byte in payload:
                    yield chunk(bytes([byte]))
                yield b"0\r\n\r\n"
            return pieces()
        self.start(answer)
        status, _, got = chat(self.port, stream=True)
        self.assertEqual((status, got), (200, payload))

    def test_T110_a_slow_reader_pauses_the_provider(self):
        sent = []

        def answer(request, connection):
            piece = delta("z" * 60_000)
            connection.peer.sendall(STREAM_HEAD)
            connection.peer.settimeout(3)
            try:
                for number in range(2000):
                    connection.peer.sendall(piece)
                    sent.append(number)
            except TimeoutError:
                pass
            return None
        self.start(answer)
        base = self.gateway.rss_kib()
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as peer:
            peer.sendall(head(length=len(BODY) + 15) +
                         BODY.replace(b"{", b'{"stream": true,', 1)[:len(BODY) + 15])
            wait_until(lambda: self.provider.open == 0 or len(sent) == 2000, "the writer stalled",
                       60)
            self.assertLess(len(sent), 2000, "the provider was never paused")
            self.assertLess(self.gateway.rss_kib() - base, 32 * 1024)
        self.assert_nothing_held()

    def test_a_silent_provider_times_out_with_504(self):
        held = threading.Event()
        self.addCleanup(held.set)

        def answer(request, connection):
            held.wait(30)
            return None
        self.start(answer, provider_extra="timeouts: {first_byte: 300ms}")
        status, _, body = chat(self.port)
        self.assertEqual(status, 504)
        self.assertEqual(body["error"]["gateway_decision"], "admitted_then_provider_failed")
        self.assert_nothing_held()

    def test_bodies_until_close_and_large_heads(self):
        body = json.dumps(completion()).encode()

        def answer(request, connection):
            connection.peer.sendall(
                b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\nx-long: " + b"a" * 20000 +
                b"\r\n\r\n" + body)
            return None
        self.start(answer)
        status, _, got = chat(self.port)
        self.assertEqual((status, got), (200, completion()))

    def test_one_hundred_continues_are_swallowed(self):
        def answer(request, _):
            return b"HTTP/1.1 100 Continue\r\n\r\n" + http_answer(
                200, json.dumps(completion()).encode(), {"content-type": "application/json"})
        self.start(answer)
        self.assertEqual(chat(self.port)[0], 200)


if __name__ == "__main__":
    unittest.main()
