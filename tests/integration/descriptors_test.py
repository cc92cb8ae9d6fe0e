# SPDX-License-Identifier: Apache-2.0
"""A gateway that has no descriptor left for a connection."""

import http.client
import re
import resource
import socket

from tests.support.gateway_case import GatewayCase
from tests.support.processes import chat, wait_until
from tests.support.scripted_provider import completion, json_answer


class Descriptors(GatewayCase):
    def test_a_process_without_descriptors_says_so_and_recovers(self):
        self.start(lambda request, _: json_answer(200, completion()))
        metrics = http.client.HTTPConnection("127.0.0.1", self.gateway.admin_port, timeout=20)

        def failures():
            metrics.request("GET", "/metrics")
            text = metrics.getresponse().read().decode()
            found = re.search(r"^weir_accept_failures_total (\d+)", text, re.M)
            return int(found.group(1)) if found else 0
        self.assertEqual(failures(), 0)
        held = self.gateway.descriptors()
        resource.prlimit(self.gateway.pid, resource.RLIMIT_NOFILE, (held + 4, held + 4))
        peers = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(12)]
        event = self.gateway.wait_event("accept_failed")
        self.assertIn("open files", event["reason"])
        self.assertIn("LimitNOFILE", event["fix"])
        wait_until(lambda: failures() > 0, "it is counted")
        for peer in peers:
            peer.close()
        wait_until(lambda: chat(self.port)[0] == 200, "it accepts again")
        metrics.close()
