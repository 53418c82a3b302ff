# SPDX-License-Identifier: GPL-2.0
"""Programs at the far end: on another guest, or in another network namespace.

The agent listens on TCP. A request and an answer are a line of JSON each:
{"start": [WORD, ...], "port": N} starts a program and answers when it listens;
{"end": SECONDS} waits for the program and answers with its status and output.
"""

import json
import pathlib
import socket
import subprocess
import tempfile
import time

PORT = 7999
_LISTEN_SECONDS = 20
_CONNECT_SECONDS = 120


def _listens(port):
    """Whether somebody listens on a TCP port of this network namespace."""
    wanted = f":{port:04X}"
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(name).read_text().splitlines()[1:]:
            words = line.split()
            if words[1].endswith(wanted) and words[3] == "0A":
                return True
    return False


class Server:
    """The program that runs, if one does."""

    def __init__(self):
        self.process = None
        self.output = None

    def start(self, words, port):
        """Starts a program; why it does not listen, or an empty text."""
        self.output = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output)
        end = time.monotonic() + _LISTEN_SECONDS
        while port and not _listens(port):
            if self.process.poll() is not None or time.monotonic() > end:
                return "it does not listen"
            time.sleep(0.02)
        return ""

    def end(self, seconds):
        """The status of the program and what it said."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = 124
        self.output.seek(0)
        return status, self.output.read()


def _answer(server, request):
    if "start" in request:
        return {"fault": server.start(request["start"], request["port"])}
    status, output = server.end(request["end"])
    return {"status": status, "output": output}


def serve():
    """Serves one caller after the other, for ever."""
    server = Server()
    listener = socket.create_server(("", PORT))
    while True:
        caller, _ = listener.accept()
        with caller, caller.makefile("rw") as lines:
            for line in lines:
                lines.write(json.dumps(_answer(server, json.loads(line))) + "\n")
                lines.flush()


class Remote:
    """An agent at `address`, with the interface of a `Server`."""

    def __init__(self, address):
        end = time.monotonic() + _CONNECT_SECONDS
        while True:
            try:
                self.connection = socket.create_connection((address, PORT), timeout=5)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
        self.connection.settimeout(None)
        self.lines = self.connection.makefile("rw")

    def _ask(self, request):
        self.lines.write(json.dumps(request) + "\n")
        self.lines.flush()
        return json.loads(self.lines.readline())

    def start(self, words, port):
        """As `Server.start`."""
        return self._ask({"start": words, "port": port})["fault"]

    def end(self, seconds):
        """As `Server.end`."""
        answer = self._ask({"end": seconds})
        return answer["status"], answer["output"]
