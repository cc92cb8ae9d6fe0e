# SPDX-License-Identifier: Apache-2.0
"""The real binary before a scripted provider: what goes through, what is kept back, and what
happens when the provider or the caller misbehaves."""

import json
import threading
import time
import unittest

from tests.support.gateway_case import GatewayCase
from tests.support.processes import RawStream, chat, request, request_json, wait_until
from tests.support.scripted_provider import (STREAM_END, STREAM_HEAD, Reset, ScriptedProvider,
                                             completion, delta, event, http_answer, json_answer)


class Relay(GatewayCase):
    def test_chat_goes_through_byte_for_byte(self):
        odd = b'{ "id":"x",  "choices":[{"index":0,"message":{"role":"assistant","content":' \
              b'"\\u00e9 1.10"},"finish_reason":"stop"}],"big":12345678901234567890,' \
              b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
        self.start(lambda request, _: json_answer(200, odd, {"x-request-id": "req_1"}))
        sent = b'{"messages":[{"role":"user","content":"hi"}], "unknown":{"a":1.10}, ' \
               b'"model":"toy-chat"}'
        status, headers, body = request(self.port, "POST", "/v1/chat/completions", sent,
                                        {"content-type": "application/json"})
        self.assertEqual((status, body), (200, odd))
        self.assertEqual(self.provider.requests[0].body, sent)
        self.assertEqual(headers["x-request-id"], "req_1")
        for name in ("x-weir-trace-id", "x-weir-decision", "x-weir-queue-ms",
                     "x-weir-deployment", "x-weir-model", "x-weir-attempts",
                     "x-weir-overhead-us", "x-weir-reserved-input-tokens",
                     "x-weir-reserved-output-tokens"):
            self.assertIn(name, headers)
        self.assertEqual(headers["x-weir-decision"], "admitted")

    def test_T026_credentials_stay_with_their_target(self):
        self.start(lambda request, _: json_answer(
            200, completion(), {"set-cookie": "session=provider-cookie",
                                "alt-svc": 'h3=":443"'}))
        status, headers, _ = chat(self.port, headers={
            "authorization": "Bearer client-canary-1", "x-api-key": "client-canary-2",
            "api-key": "client-canary-3", "x-goog-api-key": "client-canary-4",
            "cookie": "a=client-canary-5", "x-weir-class": "standard",
            "openai-organization": "org-canary", "openai-project": "proj-canary",
            "x-forwarded-for": "203.0.113.9", "connection": "x-hop", "x-hop": "hop-canary"})
        self.assertEqual(status, 200)
        seen = self.provider.requests[0]
        self.assertEqual(seen.headers["authorization"], "Bearer sk-provider-canary")
        self.assertNotIn(b"canary", seen.raw_head.replace(b"sk-provider-canary", b""))
        for name in ("cookie", "x-api-key", "api-key", "x-goog-api-key", "x-weir-class",
                     "openai-organization", "x-forwarded-for", "x-hop"):
            self.assertNotIn(name, seen.headers)
        self.assertNotIn("set-cookie", headers)
        self.assertNotIn("alt-svc", headers)

    def test_T026_redirects_are_not_followed(self):
        other = ScriptedProvider(lambda request, _: json_answer(200, completion()))
        self.addCleanup(other.stop)
        self.start(lambda request, _: http_answer(
            307, b"", {"location": f"http://127.0.0.1:{other.port}/v1/chat/completions"}))
        status, _, _ = chat(self.port)
        self.assertNotEqual(status, 200)
        self.assertEqual(other.connections, 0)

    def test_T007_out_of_credit_is_final(self):
        self.start(lambda request, _: json_answer(429, {"error": {
            "message": "You exceeded your current quota, please check your plan and billing "
                       "details.", "type": "insufficient_quota", "param": None,
            "code": "insufficient_quota"}}), retry="{attempts: 5, base: 1ms}")
        status, _, body = chat(self.port, "x" * 1_000_000)
        self.assertEqual(len(self.provider.requests), 1)
        self.assertGreaterEqual(status, 402)
        self.assertEqual(body["error"]["gateway_decision"], "admitted_then_provider_rejected")
        self.assertEqual(body["error"]["provider_error"]["code"], "insufficient_quota")

    def test_T009_retries_are_spaced_without_a_hint(self):
        begun = time.monotonic()
        times = []

        def answer(request, _):
            times.append(time.monotonic() - begun)
            if times[-1] < 3.0:
                return json_answer(429, {"error": {"message": "slow down", "type": "requests",
                                                   "code": "rate_limit_exceeded"}})
            return json_answer(200, completion())
        self.start(answer, retry="{attempts: 6, base: 2s}")
        begun = time.monotonic()
        status, headers, _ = chat(self.port, timeout=120)
        if status == 200:
            self.assertGreaterEqual(times[-1], 3.0)
        self.assertLessEqual(len(times), 6)
        self.assertIn(status, (200, 429))
        self.assert_nothing_held()

    def test_T011_error_object_inside_a_200(self):
        self.start(lambda request, _: json_answer(200, {"error": {
            "code": 502, "message": "Provider returned error"}}), retry="{attempts: 1}")
        status, _, body = chat(self.port)
        self.assertGreaterEqual(status, 400)
        self.assertIn("error", body)
        self.assertEqual(self.gateway.metric_sum("weir_attempts_total", status="200"), 0)

    def test_T016_error_bodies_that_are_not_json(self):
        page = b"<html><h1>Web server is down</h1>" + b"x" * 20000 + b"</html>"
        self.start(lambda request, _: http_answer(521, page, {"content-type": "text/html"}))
        for stream in (False, True):
            status, headers, body = chat(self.port, stream=stream)
            self.assertIn(status, (502, 503, 521))
            self.assertTrue(headers["content-type"].startswith("application/json"))
            self.assertNotIn("<html>", json.dumps(body))
            self.assertLess(len(json.dumps(body)), 4096)

    def test_T016_retry_after_of_a_503_is_kept(self):
        self.start(lambda request, _: json_answer(503, {"error": {"message": "busy"}},
                                                  {"retry-after": "2"}))
        status, headers, _ = chat(self.port)
        self.assertIn(status, (502, 503))
        self.assertGreaterEqual(int(headers["retry-after"]), 2)

    def test_T023_no_replay_after_content_reached_the_client(self):
        def answer(request, _):
            def pieces():
                yield STREAM_HEAD
                for index in range(5):
                    yield delta(f"w{index}")
                raise Reset()
            return pieces()
        self.start(answer)
        stream = RawStream(self.port, {"model": "toy-chat", "stream": True, "messages": [
            {"role": "user", "content": "hi"}]})
        got = stream.read_all()
        self.assertEqual(len(self.provider.requests), 1)
        for index in range(5):
            self.assertEqual(got.count(f'"w{index}"'.encode()), 1)
        self.assertIn(b'"error"', got.split(b'"w4"')[1])
        self.assertNotIn(b"[DONE]", got)
        self.assert_nothing_held()

    def test_T024_dead_pooled_connections_are_replaced_silently(self):
        for style in ("fin", "rst"):
            with self.subTest(style):
                def answer(request, connection, style=style):
                    def pieces():
                        yield json_answer(200, completion())
                        if style == "rst":
                            raise Reset()
                    if style == "fin":
                        connection.peer.sendall(json_answer(200, completion()))
                        return None
                    return pieces()
                self.start(answer)
                for number in range(20):
                    status, _, _ = chat(self.port, f"call {number}")
                    self.assertEqual(status, 200, f"call {number}")
                bodies = [r.body for r in self.provider.requests]
                self.assertEqual(len(bodies), 20)
                self.assertEqual(len(set(bodies)), 20)

    def test_T048_asking_for_usage_stays_invisible(self):
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}

        def answer(request, _):
            asked = request.json().get("stream_options", {}).get("include_usage")
            def pieces():
                yield STREAM_HEAD
                yield delta("a")
                yield delta("b", "stop")
                if asked:
                    yield event({"id": "c", "object": "chat.completion.chunk", "choices": [],
                                 "usage": usage})
                yield STREAM_END
            return pieces()
        self.start(answer)
        status, _, got = chat(self.port, stream=True)
        self.assertEqual(status, 200)
        self.assertTrue(self.provider.requests[0].json()["stream_options"]["include_usage"])
        self.assertNotIn(b"usage", got)
        self.assertNotIn(b'"choices": []', got)
        self.assertTrue(got.rstrip().endswith(b"data: [DONE]"))
        self.assertEqual(self.gateway.metric_sum("weir_tokens_total", kind="output"), 2)
        status, _, got = chat(self.port, stream=True,
                              stream_options={"include_usage": True, "other": 1})
        self.assertIn(b'"total_tokens": 7', got)
        self.assertEqual(self.provider.requests[1].json()["stream_options"],
                         {"include_usage": True, "other": 1})

    def test_T051_a_stream_without_its_end_is_an_error(self):
        def answer(request, _):
            finish = request.json()["messages"][0]["content"]
            def pieces():
                yield STREAM_HEAD
                yield delta("a")
                yield delta("b", "stop" if finish == "finish_reason" else None)
                yield b"0\r\n\r\n"
            return pieces()
        self.start(answer)
        _, _, got = chat(self.port, "finish_reason", stream=True)
        self.assertNotIn(b'"error"', got)
        stream = RawStream(self.port, {"model": "toy-chat", "stream": True, "messages": [
            {"role": "user", "content": "cut"}]})
        self.assertIn(b'"error"', stream.read_all())

    def test_T052_an_aborted_caller_cancels_the_provider(self):
        gone = []

        def answer(request, connection):
            streaming = request.json().get("stream")
            if streaming:
                connection.peer.sendall(STREAM_HEAD + delta("a"))
            begun = time.monotonic()
            while not connection.closed():
                if time.monotonic() - begun > 20:
                    return None
                threading.Event().wait(0.002)
            gone.append(time.monotonic())
            return None
        self.start(answer)
        for streaming in (True, False):
            stream = RawStream(self.port, {"model": "toy-chat", "stream": streaming, "messages": [
                {"role": "user", "content": "hi"}]})
            wait_until(lambda: self.gateway.metric_sum("weir_inflight") == 1, "one in flight")
            if streaming:
                stream.read_until(b'"a"')
            left = time.monotonic()
            stream.reset() if streaming else stream.close()
            wait_until(lambda: gone, "the provider saw the close")
            self.assertLess(gone.pop() - left, 0.1, "cancelled within 100 ms")
            self.assert_nothing_held()

    def test_T044_a_caller_that_leaves_early_is_charged(self):
        def answer(request, connection):
            connection.peer.sendall(STREAM_HEAD)
            for index in range(50):
                connection.peer.sendall(delta(f"word {index} "))
            while not connection.closed():
                threading.Event().wait(0.002)
            return None
        self.start(answer)
        for number in range(20):
            stream = RawStream(self.port, {"model": "toy-chat", "stream": True, "max_tokens": 100,
                                           "messages": [{"role": "user", "content": "hi"}]})
            stream.read_until(b"word 49")
            stream.reset()
            wait_until(lambda n=number: self.gateway.metric_sum(
                "weir_tokens_total", kind="output") >= 50 * (n + 1),
                f"abort {number} charged at least what was seen")
        self.assert_nothing_held()
        self.assertLessEqual(self.gateway.metric_sum("weir_tokens_total", kind="output"), 2000)

    def test_T054_slots_are_freed_on_every_path(self):
        def answer(request, connection):
            what = json.dumps(request.json())
            if "refuse" in what:
                return json_answer(400, {"error": {"message": "no", "type": "x"}})
            if "break" in what:
                raise Reset()
            if "/embeddings" in request.target:
                return json_answer(200, {"object": "list", "data": [], "usage": {
                    "prompt_tokens": 2, "total_tokens": 2}})
            if request.json().get("stream"):
                return STREAM_HEAD + delta("a", "stop") + STREAM_END
            return json_answer(200, completion())
        self.start(answer, limits="{concurrency: 4}")
        for _ in range(5):
            for text in ("plain", "refuse", "break"):
                for stream in (False, True):
                    chat(self.port, text, stream=stream)
            request_json(self.port, "POST", "/v1/embeddings",
                         {"model": "toy-chat", "input": "plain"})
            request_json(self.port, "POST", "/v1/completions",
                         {"model": "toy-chat", "prompt": "plain"})
            self.assert_nothing_held()

    def test_T045_reserves_return_when_the_provider_is_not_there(self):
        self.start(lambda request, _: json_answer(200, completion()),
                   limits="{total_tpm: 10000}")
        self.provider.stop()
        wait_until(lambda: chat(self.port, max_tokens=4000)[0] == 502, "a refused connection")
        status, _, body = chat(self.port, max_tokens=4000)
        self.assertEqual(status, 502)
        self.assertEqual(body["error"]["gateway_decision"], "admitted_then_provider_failed")
        self.assert_nothing_held()

    def test_provider_400_passes_byte_for_byte(self):
        said = b'{"error": {"message": "bad  thing", "type": "invalid_request_error", ' \
               b'"param": "messages", "code": null}}'
        self.start(lambda request, _: json_answer(400, said))
        status, _, raw = request(self.port, "POST", "/v1/chat/completions", json.dumps(
            {"model": "toy-chat", "messages": []}), {"content-type": "application/json"})
        self.assertEqual((status, raw), (400, said))

    def test_provider_401_does_not_show_our_key(self):
        self.start(lambda request, _: json_answer(401, {"error": {
            "message": "Incorrect API key provided: sk-provider-canary"}}))
        status, _, body = chat(self.port)
        self.assertEqual(status, 502)
        self.assertNotIn("canary", json.dumps(body))

    def test_T121_T122_T123_malformed_bodies_cost_nothing(self):
        self.start(lambda request, _: json_answer(200, completion()))
        bodies = [b"", b" ", b"null", b"[]", b"1", b"{", b"\xff\xfe{}", b'{"model":5}',
                  b'{"messages":[]}', b'{"model":"a","model":"b","messages":[]}',
                  b'{"model":"toy-chat","messages":[],"max_tokens":"abc"}',
                  b'{"model":"toy-chat","messages":[],"n":0}',
                  b'{"model":"toy-chat","messages":[],"n":"5"}',
                  b'{"model":"toy-chat","messages":' + b"[" * 100_000]
        for body in bodies:
            status, _, raw = request(self.port, "POST", "/v1/chat/completions", body,
                                     {"content-type": "application/json"})
            self.assertEqual(status, 400, body[:60])
            self.assertTrue(json.loads(raw)["error"]["message"])
        self.assertEqual(len(self.provider.requests), 0)
        self.assert_nothing_held()

    def test_T128_T129_no_secret_and_no_prompt_in_any_output(self):
        self.start(lambda request, _: json_answer(500, {"error": {
            "message": "sk-provider-canary reply-canary"}}), level="debug")
        for body in ("prompt-canary", ):
            chat(self.port, body, headers={"authorization": "Bearer client-canary"})
            chat(self.port, body, stream=True)
            request(self.port, "POST", "/v1/chat/completions?key=query-canary",
                    b'{"prompt-canary', {"content-type": "application/json"})
        outputs = "\n".join(self.gateway.lines + self.gateway.stdout)
        _, _, metrics = request(self.gateway.admin_port, "GET", "/metrics")
        _, _, overview = request(self.gateway.admin_port, "GET", "/admin/v1/overview",
                                 headers={"authorization": "Bearer test-admin-token"})
        for canary in ("prompt-canary", "client-canary", "provider-canary", "query-canary",
                       "reply-canary", "test-admin-token"):
            self.assertNotIn(canary, outputs)
            self.assertNotIn(canary, metrics.decode())
            self.assertNotIn(canary, overview.decode())


if __name__ == "__main__":
    unittest.main()
