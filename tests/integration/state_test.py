# SPDX-License-Identifier: Apache-2.0
"""What the real binary keeps across restarts (stores.state), and what it makes of a file that is
damaged, of another version, from the future or in use."""

import json
import os
import signal
import stat
import subprocess
import unittest

from tests.support import configs
from tests.support.gateway_case import GatewayCase
from tests.support.processes import WEIR, Gateway, Process, chat, request_json, wait_until
from tests.support.scripted_provider import completion, json_answer

TOKEN = {"authorization": "Bearer test-admin-token"}
DAY = "organization: {name: org, limits: {rpd: 5}}\n"


def overview(gateway):
    return request_json(gateway.admin_port, "GET", "/admin/v1/overview", headers=TOKEN)[1]


def meters(gateway):
    return overview(gateway)["deployments"][0]["meters"]


class Kept(GatewayCase):
    def begin(self, extra="", **config):
        config.setdefault("classes", {"standard": "{max_wait: 0s}"})
        self.config = dict(config, extra="stores: {state: state}\n" + extra)
        self.start(lambda request, connection: json_answer(200, completion()), **self.config)
        self.file = os.path.join(self.folder.path, "state")

    def text(self):
        with open(self.file, encoding="utf-8") as file:
            return file.read()

    def restart(self, **changed):
        self.gateway = Gateway(self.folder,
                               configs.gateway(self.provider.port, **dict(self.config, **changed)))
        self.addCleanup(self.gateway.kill)
        self.port = self.gateway.port

    def logged(self, name):
        """The first event of this name; it came before the gateway listened."""
        for line in self.gateway.lines:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == name:
                return event
        raise AssertionError(f"no event {name}:\n" + "\n".join(self.gateway.lines))

    def use_up_the_day(self):
        for _ in range(5):
            self.assertEqual(chat(self.port)[0], 200)
        self.assertEqual(chat(self.port)[0], 429)

    def edit(self, **members):
        state = json.loads(self.text())
        state.update(members)
        self.folder.write("state", json.dumps(state))

    def test_a_day_is_not_forgiven_by_a_restart(self):
        self.begin(DAY)
        self.use_up_the_day()
        self.assertEqual(self.gateway.stop(), 0)
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)
        self.assertNotIn("canary", self.text())
        self.restart()
        self.assertTrue(self.logged("state_recalled")["complete"])
        self.assertEqual(chat(self.port)[0], 429)

    def test_a_day_is_not_forgiven_by_kill_9(self):
        self.begin(DAY)
        self.use_up_the_day()

        def written():
            day = [m for m in json.loads(self.text())["meters"] if m["name"].startswith("node|")]
            return day and sum(amount for _, amount in day[0]["charges"]) == 5
        wait_until(written, "the five calls stand in the file", 25)
        self.gateway.kill()
        self.restart()
        self.assertFalse(self.logged("state_recalled")["complete"])
        self.assertEqual(chat(self.port)[0], 429)

    def test_without_the_file_a_day_begins_anew(self):
        self.begin(DAY)
        self.use_up_the_day()
        self.gateway.stop()
        os.remove(self.file)
        self.restart()
        self.assertEqual(chat(self.port)[0], 200)

    def test_a_providers_windows_are_known_after_an_end_in_order(self):
        """Without a file a start with `start: empty` takes the day and the minute as used up."""
        self.begin(rules=["{unit: requests, amount: 60, per: 60s, enforce: sliding}",
                          "{unit: requests, amount: 1000, per: 1d, enforce: sliding}"])
        for _ in range(10):
            self.assertEqual(chat(self.port)[0], 200)
        self.gateway.stop()
        self.restart(shaping="{start: empty}")
        self.assertEqual([meter["used"] for meter in meters(self.gateway)], [10, 10])
        self.assertEqual(chat(self.port)[0], 200)
        # Broken off, the minute is not known, and of the day what a minute lets pass may be gone.
        self.gateway.kill()
        self.restart(shaping="{start: empty}")
        minute, day = meters(self.gateway)
        self.assertGreaterEqual(minute["used"], 58)
        self.assertLessEqual(day["used"], 11 + 60)
        self.assertGreaterEqual(day["used"], 10 + 60)
        self.assertEqual(chat(self.port)[0], 429)

    def test_a_damaged_file_is_put_aside(self):
        self.begin(DAY)
        self.use_up_the_day()
        self.gateway.stop()
        whole = self.text()
        for bad in (whole[:len(whole) // 2], "", "no json", whole.replace('"version":1',
                                                                          '"version":7')):
            self.folder.write("state", bad)
            self.restart()
            told = self.logged("state_unreadable")["message"]
            self.assertIn(self.file + ".bad", told)
            with open(self.file + ".bad", encoding="utf-8") as file:
                self.assertEqual(file.read(), bad)
            self.assertEqual(chat(self.port)[0], 200)
            self.assertIn(told, overview(self.gateway)["notices"])
            self.assertEqual(self.gateway.stop(), 0)
            json.loads(self.text())

    def test_a_file_from_the_future_forgives_nothing(self):
        self.begin(DAY)
        self.use_up_the_day()
        self.gateway.stop()
        state = json.loads(self.text())
        self.edit(boot="another", written_unix=state["written_unix"] + 1e7)
        self.restart()
        self.assertIn("in the future", self.logged("state_odd")["message"])
        self.assertEqual(chat(self.port)[0], 429)
        # Two days old, the day is over.
        self.gateway.stop()
        self.edit(boot="another", written_unix=state["written_unix"] - 2 * 86_400)
        self.restart()
        self.assertEqual(chat(self.port)[0], 200)

    def test_a_second_process_is_refused(self):
        self.begin()
        second = Process(["serve", "--config", self.gateway.path, "--log-format", "json"])
        self.assertEqual(second.wait(20), 1)
        self.assertIn(f"{self.file} is in use by another weir process", "\n".join(second.lines))
        self.assertEqual(chat(self.port)[0], 200)

    def test_a_path_that_cannot_be_written_is_named(self):
        self.begin()
        path = self.folder.write("other.yaml", configs.gateway(
            self.provider.port, extra="stores: {state: none/at/all}\n"))
        folder = os.path.join(self.folder.path, "none", "at")
        for command, code in (("check", 3), ("serve", 1)):
            done = subprocess.run([WEIR, command, "--config", path], capture_output=True,
                                  timeout=20, check=False, text=True)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(f"stores.state: cannot use the folder {folder}", done.stderr)

    def test_what_cannot_be_written_any_more_is_told_and_requests_go_on(self):
        self.begin()
        os.mkdir(self.file + ".tmp")
        self.assertEqual(chat(self.port)[0], 200)
        self.gateway.wait_event("state_not_written", deadline_s=25)
        self.assertEqual(chat(self.port)[0], 200)
        os.rmdir(self.file + ".tmp")
        self.gateway.wait_event("state_written_again", deadline_s=25)
        self.assertGreaterEqual(
            self.gateway.metric_sum("weir_state_writes_total", result="failed"), 1)

    def test_another_path_needs_a_restart(self):
        self.begin()
        self.folder.write("weir.yaml", configs.gateway(
            self.provider.port, **dict(self.config, extra="stores: {state: other}\n")))
        self.gateway.signal(signal.SIGHUP)
        self.assertIn("stores.state", self.gateway.wait_event("notice")["message"])


if __name__ == "__main__":
    unittest.main()
