#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU per request of a relay beside nginx's proxy_pass, on one core each, in interleaved rounds.

Both relays stand on core 0 before the same upstream (own, 1,220 bytes of JSON per answer, kept
connections); wrk posts 2,048 bytes over 64 connections from core 1. In each round both are driven
once, so that the ratio of a round is made under the same conditions; the ratios are the result,
the microseconds only say how noisy the machine was. CPU is read from schedstat.

    bench/relay.py            the whole gateway with bench/weir.yaml: key, limits at every node,
                              four rules, usage, metrics; built first if needed (preset bench)
    bench/relay.py --bare     the relay alone (bench/relay_spike.cc): no governor, no parsing
    bench/relay.py --build DIR --config FILE.yaml
        another build, another configuration; in FILE, ${BENCH_PORT} and ${BENCH_UPSTREAM} stand for
        the ports, and the key that BENCH_KEY names is sent
"""
import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

NGINX = """
daemon off;
worker_processes 1;
worker_cpu_affinity 01;
pid {dir}/nginx.pid;
error_log {dir}/error.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_buffer_size 64k;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  upstream provider {{
    server 127.0.0.1:{upstream};
    keepalive 256;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://provider;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Authorization "Bearer upstream-key";
      proxy_buffering off;
    }}
  }}
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, process, seconds=20):
    """Waits until something listens on the port, or exits if the process ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended with {process.returncode} before it listened")
        with socket.socket() as probe:
            probe.settimeout(0.1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        try:
            process.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            pass
    sys.exit(f"nothing listens on port {port} after {seconds} s")


def cpu_ns(pids):
    """Nanoseconds on a CPU of all threads of the processes."""
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    return total


def children(pid):
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += children(int(child))
    return found


class Relay:
    """A relay under test: a process on core 0 and the port it serves."""

    def __init__(self, name, command, port, env=None):
        self.name = name
        self.port = port
        self.process = subprocess.Popen(["taskset", "-c", "0", *command], env=env,
                                        stdout=subprocess.DEVNULL)
        wait_for(port, self.process)

    def measure(self, seconds, env):
        pids = children(self.process.pid)
        before = cpu_ns(pids)
        output = subprocess.run(
            ["taskset", "-c", "1", "wrk", "-t1", "-c64", f"-d{seconds}s", "-s",
             str(HERE / "post.lua"), f"http://127.0.0.1:{self.port}"],
            capture_output=True, text=True, check=True, env=env).stdout
        spent = cpu_ns(pids) - before
        requests = int(re.search(r"(\d+) requests in", output)[1])
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
        errors = re.search(r"Socket errors: (.*)", output)
        if bad or errors or requests == 0:
            sys.exit(f"{self.name}: the measurement is void: {output}")
        rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])
        return spent / requests / 1000, rate

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def spread(values, digits=1):
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f}-{max(values):.{digits}f})")


def start_nginx(directory, upstream):
    port = free_port()
    config = Path(directory) / "nginx.conf"
    config.write_text(NGINX.format(dir=directory, upstream=upstream, port=port))
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    return Relay("nginx", [nginx, "-c", str(config), "-p", directory, "-e",
                           f"{directory}/error.log"], port)


def start_ours(options, upstream, env):
    port = free_port()
    if options.bare:
        command = [str(options.build / "bench/weir_bench_relay"), str(port), str(upstream)]
        return Relay("relay", command, port)
    env = dict(env, BENCH_PORT=str(port), BENCH_UPSTREAM=str(upstream))
    command = [str(options.build / "apps/weir/weir"), "serve", "--config", str(options.config),
               "--log-level", "warn"]
    return Relay("weir", command, port, env)


def run(options):
    env = dict(os.environ)
    upstream_port = free_port()
    upstream = subprocess.Popen(
        ["taskset", "-c", "1", str(options.build / "bench/weir_bench_upstream"),
         str(upstream_port)], stdout=subprocess.DEVNULL)
    relays = []
    rounds = []
    with tempfile.TemporaryDirectory() as directory:
        try:
            wait_for(upstream_port, upstream)
            relays.append(start_nginx(directory, upstream_port))
            relays.append(start_ours(options, upstream_port, env))
            for relay in relays:
                relay.measure(1, env)
            for number in range(options.rounds):
                # Who goes first alternates, so that a trend of the machine favours nobody.
                order = relays if number % 2 == 0 else relays[::-1]
                result = {relay.name: relay.measure(options.seconds, env) for relay in order}
                rounds.append(result)
                line = "  ".join(f"{relay.name} {result[relay.name][0]:5.1f} us "
                                 f"{result[relay.name][1]:7.0f}/s" for relay in relays)
                ratio = result[relays[1].name][0] / result["nginx"][0]
                print(f"round {number + 1:2}: {line}  ratio {ratio:.2f}", flush=True)
        finally:
            for relay in relays:
                relay.stop()
            upstream.kill()
            upstream.wait()
    name = relays[1].name
    print(f"\nCPU per request, median (min-max) of {len(rounds)} interleaved rounds:")
    for relay in relays:
        print(f"  {relay.name:6} {spread([r[relay.name][0] for r in rounds])} us, "
              f"{spread([r[relay.name][1] for r in rounds], 0)} requests/s")
    ratios = [r[name][0] / r["nginx"][0] for r in rounds]
    print(f"  {name} / nginx per round: {spread(ratios, 2)}")
    median = statistics.median(ratios)
    if options.at_most and median > options.at_most:
        print(f"above the bound of {options.at_most}")
        return 1
    return 0


def build():
    """Configures and builds what is measured; answers the folder."""
    targets = ["weir", "weir_bench_upstream", "weir_bench_relay"]
    subprocess.run(["cmake", "--preset", "bench"], cwd=HERE.parent, check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "build/bench", "--target", *targets], cwd=HERE.parent,
                   check=True, stdout=subprocess.DEVNULL)
    return HERE.parent / "build/bench"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="a build with WEIR_BENCH=ON; made if left out")
    parser.add_argument("--bare", action="store_true", help="measure the bare relay")
    parser.add_argument("--config", type=Path, default=HERE / "weir.yaml")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--at-most", type=float, help="exit 1 if the median ratio is above")
    options = parser.parse_args()
    if options.build is None:
        options.build = build()
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
