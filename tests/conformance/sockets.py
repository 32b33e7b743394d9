"""Looks at the sockets of another process by taking a copy of its descriptors (pidfd_getfd)."""
import ctypes
import os
import socket

import pytest

PIDFD_GETFD = 438
_libc = ctypes.CDLL(None, use_errno=True)


def _copy(pidfd, fd):
    got = _libc.syscall(PIDFD_GETFD, pidfd, fd, 0)
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got


def options_of(pid, level, option):
    """(local address, remote address, value) of every connected TCP socket of the process. PermissionError where it is forbidden."""
    out = []
    pidfd = os.pidfd_open(pid)
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    continue
                with socket.socket(fileno=_copy(pidfd, int(name))) as s:
                    if s.family in (socket.AF_INET, socket.AF_INET6) and s.type == socket.SOCK_STREAM:
                        out.append((s.getsockname(), s.getpeername(), s.getsockopt(level, option)))
            except PermissionError:
                raise
            except OSError:
                continue  # closed meanwhile, or a listener
    finally:
        os.close(pidfd)
    return out


def refused_here(error):
    pytest.skip(f"this system does not let us look at the sockets of our own processes: {error}")
