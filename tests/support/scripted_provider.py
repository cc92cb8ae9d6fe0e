# SPDX-License-Identifier: Apache-2.0
"""A provider that does as it is told: answers each request by the next step of a script, records
every byte it was sent, and can stall, cut or reset a connection where the script says."""

import json
import socket
import threading


def json_answer(status, value, headers=None, reason="X"):
    """A whole HTTP response with a JSON body."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return http_answer(status, body, {"content-type": "application/json", **(headers or {})},
                       reason)


def http_answer(status, body, headers=None, reason="X"):
    lines = [f"HTTP/1.1 {status} {reason}", f"content-length: {len(body)}"]
    lines += [f"{key}: {value}" for key, value in (headers or {}).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def completion(text="hello", prompt_tokens=9, completion_tokens=3, **usage):
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text},
                     "finish_reason": "stop"}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens,
                  "total_tokens": prompt_tokens + completion_tokens, **usage}}


STREAM_HEAD = (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
               b"transfer-encoding: chunked\r\n\r\n")


def chunk(data):
    """One HTTP chunk."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(value):
    """One server-sent event in a chunk of its own."""
    text = value if isinstance(value, str) else json.dumps(value)
    return chunk(f"data: {text}\n\n".encode())


def delta(text, finish=None):
    return event({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
                  "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})


STREAM_END = event("[DONE]") + b"0\r\n\r\n"


class Recorded:
    """One request as it arrived."""

    def __init__(self, head, body):
        self.raw_head = head
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        self.headers = {}
        for line in lines[1:]:
            if line:
                key, value = line.split(":", 1)
                self.headers[key.lower()] = value.strip()
        self.body = body

    def json(self):
        return json.loads(self.body)


class Reset(Exception):
    """Raised by a step: the connection is reset."""


class ScriptedProvider:
    """`answer(request, connection)` is called per request, on the connection's thread. It returns
    bytes to send, or an iterable of bytes; raises Reset to reset the connection; returns None to
    close it. `connection.closed()` tells whether the peer has gone."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.connections = 0
        self.open = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self._listener.getsockname()[1]
        self._stopped = False
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self):
        self._stopped = True
        # Closing alone would leave the socket listening as long as a thread waits in accept.
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()

    def _accept(self):
        while not self._stopped:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        with self._lock:
            self.connections += 1
            self.open += 1
        connection = Connection(peer)
        try:
            while True:
                request = connection.read_request()
                if request is None:
                    return
                with self._lock:
                    self.requests.append(request)
                answer = self.answer(request, connection)
                if answer is None:
                    return
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    peer.sendall(piece)
        except Reset:
            connection.reset()
        except OSError:
            pass
        finally:
            with self._lock:
                self.open -= 1
            peer.close()


class Connection:
    def __init__(self, peer):
        self.peer = peer
        self.buffer = b""

    def _more(self):
        chunk_bytes = self.peer.recv(65536)
        self.buffer += chunk_bytes
        return bool(chunk_bytes)

    def read_request(self):
        while b"\r\n\r\n" not in self.buffer:
            if not self._more():
                return None
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        length = 0
        for line in head.decode("latin-1").lower().split("\r\n"):
            if line.startswith("content-length:"):
                length = int(line.split(":", 1)[1])
        while len(self.buffer) < length:
            if not self._more():
                return None
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return Recorded(head, body)

    def closed(self):
        """True once the peer has closed; does not block."""
        self.peer.setblocking(False)
        try:
            return self.peer.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.peer.setblocking(True)

    def reset(self):
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
