# SPDX-License-Identifier: Apache-2.0
"""Reload, drain, restart and crash of the real binary."""

import json
import signal
import threading
import time
import unittest

from tests.support import configs
from tests.support.gateway_case import GatewayCase
from tests.support.processes import (Emulator, Folder, Gateway, RawStream, chat, request,
                                     request_json, wait_until)
from tests.support.scripted_provider import STREAM_END, STREAM_HEAD, completion, delta, json_answer


def ask_stream(port, text="hi"):
    return RawStream(port, {"model": "toy-chat", "stream": True, "messages": [
        {"role": "user", "content": text}]})


def rule(amount):
    return f"{{unit: requests, amount: {amount}, per: 60s, enforce: sliding}}"


class Lifecycle(GatewayCase):
    def start_streaming(self, **config):
        """Streams that go on until `self.release` is set."""
        self.release = threading.Event()

        def answer(request, connection):
            if not request.json().get("stream"):
                return json_answer(200, completion())

            def pieces():
                yield STREAM_HEAD
                yield delta("begin")
                self.release.wait(60)
                yield delta("end", "stop")
                yield STREAM_END
            return pieces()
        self.start(answer, **config)

    def test_T132_reload_keeps_100_open_streams_and_the_meters(self):
        self.start_streaming(rules=[rule(200)])
        streams = [ask_stream(self.port) for _ in range(100)]
        for stream in streams:
            stream.read_until(b"begin")
        before = self.gateway.metric_sum("weir_quota_used_ratio", unit="requests")
        self.assertAlmostEqual(before, 100 / 200, delta=0.02)
        self.folder.write("weir.yaml", configs.gateway(self.provider.port, rules=[rule(400)]))
        self.gateway.signal(signal.SIGHUP)
        self.gateway.wait_event("config_reloaded")
        self.assertAlmostEqual(
            self.gateway.metric_sum("weir_quota_used_ratio", unit="requests"), 100 / 400,
            delta=0.02)
        self.assertEqual(chat(self.port)[0], 200)
        self.release.set()
        for stream in streams:
            self.assertIn(b"[DONE]", stream.read_until(b"[DONE]"))
        self.assert_nothing_held()

    def test_T132_an_invalid_file_changes_nothing(self):
        self.start_streaming(limits="{rpm: 200}")
        good = configs.gateway(self.provider.port, limits="{rpm: 200}")
        for bad in (good.replace("rpm", "rpmm"), good[:len(good) // 2] + "\n  ]", ""):
            self.folder.write("weir.yaml", bad)
            self.gateway.signal(signal.SIGHUP)
            self.assertTrue(self.gateway.wait_event("config_reload_refused")["reason"])
            self.assertEqual(chat(self.port)[0], 200)
        self.assertEqual(self.gateway.metric_sum("weir_config_reloads_total", result="refused"),
                         3)

    def test_T132_a_storm_of_sighups_ends_nothing(self):
        self.start_streaming(limits="{rpm: 200}")
        pause = threading.Event()
        for _ in range(50):
            self.gateway.signal(signal.SIGHUP)
            pause.wait(0.002)
        self.gateway.wait_event("config_reloaded")
        self.assertEqual(chat(self.port)[0], 200)
        for _ in range(5):
            self.gateway.signal(signal.SIGHUP)
        self.gateway.signal(signal.SIGTERM)
        self.assertEqual(self.gateway.wait(20), 0, "a signal during a reload drains")

    def test_T131_sigterm_drains(self):
        self.start_streaming(limits="{concurrency: 50}",
                             server="{listen: '127.0.0.1:0', drain: 20s}")
        streams = [ask_stream(self.port) for _ in range(50)]
        for stream in streams:
            stream.read_until(b"begin")
        waiting = ask_stream(self.port, "queued")
        wait_until(lambda: self.gateway.metric_sum("weir_queue_depth") == 1, "one queued")
        self.gateway.signal(signal.SIGTERM)
        wait_until(lambda: request(self.gateway.admin_port, "GET", "/readyz")[0] == 503,
                   "readiness gone")
        got = waiting.read_until(b"}}")
        self.assertIn(b" 503 ", got.split(b"\r\n")[0])
        self.assertIn(b"retry-after:", got.lower())
        self.release.set()
        for stream in streams:
            self.assertIn(b"[DONE]", stream.read_until(b"[DONE]"))
        self.assertEqual(self.gateway.wait(20), 0)

    def test_T131_a_second_sigterm_ends_at_once(self):
        self.start_streaming(server="{listen: '127.0.0.1:0', drain: 300s}")
        stream = ask_stream(self.port)
        stream.read_until(b"begin")
        self.gateway.signal(signal.SIGTERM)
        self.gateway.wait_event("draining")
        self.gateway.signal(signal.SIGTERM)
        self.assertNotEqual(self.gateway.wait(5), 0, "streams were cut")
        self.release.set()

    def test_T131_streams_past_the_drain_get_an_error_event(self):
        self.start_streaming(server="{listen: '127.0.0.1:0', drain: 500ms}")
        stream = ask_stream(self.port)
        stream.read_until(b"begin")
        self.gateway.signal(signal.SIGTERM)
        self.assertIn(b'"error"', stream.read_all())
        self.assertEqual(self.gateway.wait(20), 0)
        self.release.set()

    def test_T055_T056_T057_slots_last_as_long_as_the_stream(self):
        self.start_streaming(limits="{concurrency: 2}")
        streams = [ask_stream(self.port) for _ in range(2)]
        for stream in streams:
            stream.read_until(b"begin")
        third = ask_stream(self.port, "third")
        wait_until(lambda: self.gateway.metric_sum("weir_queue_depth") == 1, "the third waits")
        self.assertEqual(len(self.provider.requests), 2)
        self.folder.write("weir.yaml", configs.gateway(self.provider.port,
                                                       limits="{concurrency: 3}"))
        self.gateway.signal(signal.SIGHUP)
        third.read_until(b"begin")
        self.release.set()
        for stream in [*streams, third]:
            stream.read_until(b"[DONE]")
        self.assert_nothing_held()

    def test_T058_dead_waiters_are_dropped(self):
        self.start_streaming(limits="{concurrency: 1}")
        first = ask_stream(self.port)
        first.read_until(b"begin")
        dead = [ask_stream(self.port, "dead") for _ in range(50)]
        wait_until(lambda: self.gateway.metric_sum("weir_queue_depth") == 50, "50 wait")
        live = ask_stream(self.port, "live")
        wait_until(lambda: self.gateway.metric_sum("weir_queue_depth") == 51, "51 wait")
        for stream in dead:
            stream.reset()
        wait_until(lambda: self.gateway.metric_sum("weir_queue_depth") == 1, "the dead are gone")
        self.release.set()
        live.read_until(b"[DONE]")
        self.assertEqual([r.json()["messages"][0]["content"] for r in self.provider.requests],
                         ["hi", "live"])
        self.assert_nothing_held()


class Crash(unittest.TestCase):
    def test_T046_kill_9_under_full_load_then_no_429s(self):
        """At time scale 10 the emulator's minute is 6 s; the gateway is told a 6 s window."""
        folder = Folder()
        self.addCleanup(folder.remove)
        emulator = Emulator(folder, configs.emulator(
            ["{unit: requests, amount: 600, per: 60s, enforce: sliding}"]), time_scale=10)
        self.addCleanup(emulator.kill)
        text = configs.gateway(
            emulator.port, shaping="{start: empty}",
            rules=["{unit: requests, amount: 600, per: 6s, enforce: sliding}"],
            classes={"standard": "{max_wait: 1s, depth: 1k}"})
        gateway = Gateway(folder, text)
        self.addCleanup(lambda: gateway.kill())
        stopped = threading.Event()
        results = []

        def flood():
            while not stopped.is_set():
                try:
                    status, _, body = chat(gateway.port, max_tokens=1, timeout=10)
                    results.append((time.monotonic(), status, body))
                except OSError:
                    stopped.wait(0.05)
        threads = [threading.Thread(target=flood, daemon=True) for _ in range(24)]
        for thread in threads:
            thread.start()
        wait_until(lambda: emulator.counters()["admitted"] >= 900, "a full window went", 60)
        before = emulator.counters()
        gateway.kill()
        gateway = Gateway(folder, text)
        two_windows_ms = before["virtual_ms"] + 2 * 60_000 + 5_000
        wait_until(lambda: emulator.counters()["virtual_ms"] >= two_windows_ms,
                   "two windows passed", 40)
        stopped.set()
        for thread in threads:
            thread.join(20)
        after = emulator.counters()
        attempts = after["attempts"] - before["attempts"]
        refused = after["refused"] - before["refused"]
        self.assertGreater(attempts, 600)
        self.assertEqual(refused, 0, f"{refused} of {attempts}")


if __name__ == "__main__":
    unittest.main()
