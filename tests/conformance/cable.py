"""Lines that can be cut: a TCP proxy that stops forwarding without a word, and a network namespace behind a pair of virtual
Ethernet ends."""
import ctypes
import os
import secrets
import select
import socket
import subprocess
import threading
import time

import pytest

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Line:
    """A port that forwards to another. `mode`: forward | stall (takes nothing more) | swallow (takes all, passes nothing on).

    With `keep`, `sent` has the pieces that came from who dialled, a list a connection.
    """

    def __init__(self, to, keep=False):
        host, port = to.rsplit(":", 1)
        self.to = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.mode = {"up": "forward", "down": "forward"}  # up: from the side that dialled
        self.accepted = []      # when
        self.pairs = []
        self.keep, self.sent = keep, []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, mode, *ways):
        """Nothing more comes through on connections that exist and those to come."""
        for way in ways or ("up", "down"):
            self.mode[way] = mode

    def mend(self):
        """The line works again; what was cut stays dead, as after a reboot of the box in between."""
        for a, b in self.pairs:
            for s in (a, b):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self.pairs = []
        self.mode = {"up": "forward", "down": "forward"}

    def close(self):
        self.mend()
        self.listener.close()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.accepted.append(time.monotonic())
            try:
                far = socket.create_connection(self.to)
            except OSError:
                near.close()
                continue
            self.pairs.append((near, far))
            pieces = [] if self.keep else None
            if self.keep:
                self.sent.append(pieces)
            threading.Thread(target=self._pass, args=(near, far, "up", pieces), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, "down"), daemon=True).start()

    def _pass(self, a, b, way, pieces=None):
        try:
            while True:
                while self.mode[way] == "stall":
                    if a.fileno() < 0:
                        return
                    time.sleep(0.02)
                ready, _, _ = select.select([a], [], [], 0.05)
                if not ready or self.mode[way] == "stall":
                    continue
                data = a.recv(65536)
                if not data:
                    break
                if pieces is not None:
                    pieces.append(data)
                if self.mode[way] == "forward":
                    b.sendall(data)
        except (OSError, ValueError):
            pass
        if self.mode[way] == "forward":  # a cut line tells nobody that the other side has ended
            for s in (a, b):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


def _run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


class FarSide:
    """A network namespace on the other end of a cable. Processes run in it by `command`, sockets are made in it by `inside`."""

    def __init__(self):
        tag = secrets.token_hex(3)
        self.name, self.near, self.far = f"hive-{tag}", f"hv{tag}n", f"hv{tag}f"
        third, fourth = secrets.randbelow(254) + 1, 4 * secrets.randbelow(63)
        self.near_ip, self.far_ip = f"10.213.{third}.{fourth + 1}", f"10.213.{third}.{fourth + 2}"
        if os.geteuid() != 0:
            pytest.skip("a cable to cut needs a network namespace, and that needs root")
        try:
            _run("ip", "netns", "add", self.name)
            _run("ip", "link", "add", self.near, "type", "veth", "peer", "name", self.far, "netns", self.name)
            _run("ip", "addr", "add", f"{self.near_ip}/30", "dev", self.near)
            _run("ip", "link", "set", self.near, "up")
            _run("ip", "-n", self.name, "addr", "add", f"{self.far_ip}/30", "dev", self.far)
            _run("ip", "-n", self.name, "link", "set", self.far, "up")
            _run("ip", "-n", self.name, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            self.remove()
            pytest.skip(f"no network namespaces here: {getattr(error, 'stderr', '') or error}")

    def command(self, *args):
        return ["ip", "netns", "exec", self.name, *args]

    def inside(self, make):
        """What `make()` makes in that network."""
        result = {}

        def run():
            try:
                fd = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
                if _libc.setns(fd, CLONE_NEWNET) != 0:  # of this thread only
                    raise OSError(ctypes.get_errno(), "setns")
                os.close(fd)
                result["made"] = make()
            except OSError as error:
                result["error"] = error

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if "error" in result:
            raise result["error"]
        return result["made"]

    def unplug(self):
        _run("ip", "-n", self.name, "link", "set", self.far, "down")

    def plug(self):
        _run("ip", "-n", self.name, "link", "set", self.far, "up")

    def remove(self):
        subprocess.run(["ip", "link", "del", self.near], capture_output=True)
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)
