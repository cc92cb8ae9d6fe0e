# SPDX-License-Identifier: Apache-2.0
"""Starts the real weir binary for tests: every server on a free loopback port, in a temporary
folder, ended by its process id. Nothing here waits for a time: it waits for conditions with a
deadline."""

import http.client
import json
import os
import queue
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

WEIR = os.environ.get("WEIR_BINARY", "build/release/apps/weir/weir")


def wait_until(condition, what, deadline_s=20.0):
    """Polls `condition` until it returns something true; fails loudly at the deadline."""
    end = time.monotonic() + deadline_s
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        pause.wait(0.01)


class Process:
    """A weir process whose standard error is JSON lines."""

    def __init__(self, arguments, environment=None, cwd=None):
        full = dict(os.environ)
        full.update(environment or {})
        self.lines = []
        self._events = queue.Queue()
        self.process = subprocess.Popen(
            [WEIR, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=full, cwd=cwd)
        self.stdout = []
        self._readers = [
            threading.Thread(target=self._read_log, daemon=True),
            threading.Thread(target=self._read_output, daemon=True)]
        for reader in self._readers:
            reader.start()

    def _read_log(self):
        for raw in self.process.stderr:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            self.lines.append(line)
            if line.startswith("{"):
                try:
                    self._events.put(json.loads(line))
                except ValueError:
                    pass

    def _read_output(self):
        for raw in self.process.stdout:
            self.stdout.append(raw.decode("utf-8", "replace").rstrip("\n"))

    def wait_event(self, name, deadline_s=20.0, **members):
        """The first log event of this name (and members) not yet taken."""
        end = time.monotonic() + deadline_s
        while True:
            left = end - time.monotonic()
            try:
                event = self._events.get(timeout=max(0.01, min(left, 0.2)))
            except queue.Empty:
                if left <= 0 or self.process.poll() is not None:
                    raise AssertionError(
                        f"no event {name} {members}; exit {self.process.poll()}; log:\n" +
                        "\n".join(self.lines[-30:])) from None
                continue
            if event.get("event") == name and all(
                    event.get(key) == value for key, value in members.items()):
                return event

    def listening_port(self, **members):
        """The port it says it listens on; a process that does not come up is ended."""
        try:
            event = self.wait_event("listening", **members)
        except AssertionError:
            self.kill()
            raise
        return int(event["address"].rsplit(":", 1)[1])

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """kill -9, and wait."""
        if self.process.poll() is None:
            self.process.kill()
        self.wait(20)

    def wait(self, deadline_s=60.0):
        code = self.process.wait(deadline_s)
        for reader in self._readers:
            reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def stop(self, deadline_s=60.0):
        """SIGTERM, and the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait(deadline_s)

    def rss_kib(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        return 0

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


class Folder:
    """A temporary folder that goes when the test ends."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="weir-test-")

    def write(self, name, text):
        path = os.path.join(self.path, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Emulator(Process):
    """`weir emulate` on a free port."""

    def __init__(self, folder, config, time_scale=1, name="emulator.yaml"):
        path = folder.write(name, config)
        super().__init__(["emulate", "--config", path, "--listen", "127.0.0.1:0",
                          "--time-scale", str(time_scale), "--log-format", "json"])
        self.port = self.listening_port()

    def counters(self):
        return request_json(self.port, "GET", "/emulator/v1/counters")[1]

    def put(self, what, value):
        status, body = request_json(self.port, "PUT", f"/emulator/v1/{what}", value)
        assert status in (200, 204), (status, body)


class Gateway(Process):
    """`weir serve` on free ports. The configuration text may use {data} for nothing: it must
    listen on port 0; the bound ports are read from the log."""

    def __init__(self, folder, config, name="weir.yaml", environment=None, level="info"):
        self.path = folder.write(name, config)
        super().__init__(["serve", "--config", self.path, "--log-format", "json",
                          "--log-level", level], environment)
        self.port = self.listening_port(plane="data")
        self.admin_port = self.listening_port(plane="admin")

    def metrics(self):
        """The metrics as {name{labels}: value}."""
        status, _, body = request(self.admin_port, "GET", "/metrics")
        assert status == 200, body
        found = {}
        for line in body.decode().splitlines():
            if line and not line.startswith("#"):
                series, value = line.rsplit(" ", 1)
                found[series] = float(value)
        return found

    def metric_sum(self, name, **labels):
        total = 0.0
        for series, value in self.metrics().items():
            if series.split("{", 1)[0] == name and all(
                    f'{key}="{label}"' in series for key, label in labels.items()):
                total += value
        return total


def request(port, method, path, body=None, headers=None, timeout=60.0):
    """One HTTP request on a connection of its own: status, headers, body bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def request_json(port, method, path, value=None, headers=None, timeout=60.0):
    body = None if value is None else json.dumps(value)
    sent = {"content-type": "application/json", **(headers or {})}
    status, _, raw = request(port, method, path, body, sent, timeout)
    return status, (json.loads(raw) if raw else None)


def chat(port, content="hello", headers=None, timeout=60.0, **members):
    """One chat completion: status, headers, parsed body (or raw bytes of a stream)."""
    body = {"model": "toy-chat", "messages": [{"role": "user", "content": content}], **members}
    sent = {"content-type": "application/json", **(headers or {})}
    status, got, raw = request(port, "POST", "/v1/chat/completions", json.dumps(body), sent,
                               timeout)
    if got.get("content-type", "").startswith("application/json"):
        return status, got, json.loads(raw)
    return status, got, raw


class RawStream:
    """A raw connection with one request sent, so that a test decides when to read or leave."""

    def __init__(self, port, body, path="/v1/chat/completions", headers=None, timeout=30.0):
        payload = json.dumps(body).encode()
        head = [f"POST {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json",
                f"content-length: {len(payload)}"]
        head += [f"{key}: {value}" for key, value in (headers or {}).items()]
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.sendall(("\r\n".join(head) + "\r\n\r\n").encode() + payload)
        self.received = b""

    def read_until(self, mark, deadline_s=30.0):
        end = time.monotonic() + deadline_s
        while mark not in self.received:
            left = end - time.monotonic()
            if left <= 0:
                raise AssertionError(f"{mark!r} did not come; got {self.received[-300:]!r}")
            ready, _, _ = select.select([self.socket], [], [], left)
            if ready:
                chunk = self.socket.recv(65536)
                if not chunk:
                    raise AssertionError(
                        f"closed before {mark!r}; got {self.received[-300:]!r}")
                self.received += chunk
        return self.received

    def read_all(self, deadline_s=60.0):
        """Everything until the peer closes."""
        self.socket.settimeout(deadline_s)
        while True:
            try:
                chunk = self.socket.recv(65536)
            except ConnectionResetError:
                return self.received
            if not chunk:
                return self.received
            self.received += chunk

    def reset(self):
        """Leaves the rude way: RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def close(self):
        self.socket.close()
