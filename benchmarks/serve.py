"""Load on `labelwright serve`: throughput, latency and memory beside an empty FastAPI handler, in
the same run.

    python benchmarks/serve.py     # 60 s of each, 64 clients, sentences of 25 tokens
    python benchmarks/serve.py --seconds 10 --model names.crf

Clients are connections of one process that speak HTTP by themselves, so that they take little of
the machine.  The empty handler reads the same bodies and answers {}.  The two take turns, a few
seconds each.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TURNS = 3  # of each service
EMPTY = """
import socket, sys
import uvicorn
from fastapi import FastAPI, Request, Response

app = FastAPI()

@app.post("/tag")
async def tag(request: Request) -> Response:
    await request.body()
    return Response(b"{}", media_type="application/json")

listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
print(f"serving at http://127.0.0.1:{listening.getsockname()[1]} ", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listening])
"""


class Service:
    """A process that serves, and where."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        if "http://" not in line:
            sys.exit(f"no service: {line}{self.process.stderr.read()}")
        self.port = int(line.split("http://127.0.0.1:")[1].split()[0])
        self.seconds, self.latencies, self.errors = 0.0, [], 0

    @property
    def megabytes(self):
        """Resident memory (Linux)."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def cpu(self):
        """Seconds of CPU time so far (Linux): what a busy machine does not change."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def load(self, requests, clients, seconds):
        """Send requests by so many clients; what they waited is kept."""
        begun = time.perf_counter()
        await asyncio.gather(*(self._client(requests, begun + seconds, n) for n in range(clients)))
        self.seconds += time.perf_counter() - begun

    async def _client(self, requests, end, n):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while time.perf_counter() < end:
            n += 1
            begun = time.perf_counter()
            writer.write(requests[n * 7919 % len(requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            self.latencies.append(time.perf_counter() - begun)
            self.errors += not head.startswith(b"HTTP/1.1 200")
        writer.close()

    def forget(self):
        self.seconds, self.latencies, self.errors, self.cpu_before = 0.0, [], 0, self.cpu

    def summary(self, name):
        waits = sorted(self.latencies)
        median, p99 = statistics.median(waits) * 1e3, waits[int(0.99 * len(waits))] * 1e3
        rate, self.cost = len(waits) / self.seconds, (self.cpu - self.cpu_before) / len(waits)
        print(
            f"{name:<12} {rate:8.0f} requests/s  median {median:6.1f} ms  p99 {p99:6.1f} ms",
            end="  ",
        )
        print(
            f"p99/median {p99 / median:4.2f}  {self.errors} errors  {self.cost * 1e3:.2f} ms of "
            "CPU time a request"
        )
        return rate

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def made_requests(n, length, corpus):
    """Requests of one sentence each, as bytes."""
    words, rng = corpus.tokens(corpus.names[0]), random.Random(0)
    requests = []
    for _ in range(n):
        first = rng.randrange(len(words) - length)
        body = json.dumps({"tokens": [words[first : first + length]]}).encode()
        head = (
            "POST /tag HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}"
        )
        requests.append(head.encode() + b"\r\n\r\n" + body)
    return requests


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of load on each service")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=25)
    parser.add_argument("--model", help="a model of words; default: a CRF trained on built-in data")
    o = parser.parse_args()
    from labelwright import CRF
    from labelwright.corpus import builtin_corpus

    corpus = builtin_corpus(n_sentences=2000, random_state=1)
    with tempfile.TemporaryDirectory() as folder:
        model = o.model or f"{folder}/chunks.crf"
        if o.model is None:
            some = corpus.take(slice(0, 1000))
            CRF(max_iter=30).fit(some.column("word"), some.y).save(model)
        requests = made_requests(2000, o.tokens, corpus)
        empty = Service([sys.executable, "-c", EMPTY])
        ours = Service([sys.executable, "-m", "labelwright", "serve", model, "--port", "0"])
        try:
            for service in (empty, ours):  # until machine code is loaded
                asyncio.run(service.load(requests, o.clients, min(5.0, o.seconds)))
                service.forget()
            before = ours.megabytes
            for _ in range(TURNS):
                for service in (empty, ours):
                    asyncio.run(service.load(requests, o.clients, o.seconds / TURNS))
            after = ours.megabytes
            print(
                f"{o.clients} clients, {o.tokens} tokens, {o.seconds:g} s of each, "
                f"{os.cpu_count()} cores"
            )
            share = 1 / empty.summary("empty") * ours.summary("labelwright")
            print(f"{100 * empty.cost / ours.cost:.0f} % of empty by CPU time")
            print(
                f"throughput {100 * share:.0f} % of empty; memory {before:.0f} MB before, "
                f"{after:.0f} MB after"
            )
        finally:
            codes = [service.stop() for service in (empty, ours)]
        print(f"exit status of labelwright after SIGTERM: {codes[1]}")


if __name__ == "__main__":
    main()
