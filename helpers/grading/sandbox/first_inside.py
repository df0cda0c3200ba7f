"""The first program in a sandbox: sets what only a process can set for itself, then gives way.

It is passed to the interpreter as text, since nothing of this package is visible in there. Its
arguments are the settings as JSON and the command.
"""

import contextlib
import ctypes
import json
import os
import platform
import resource
import sys

_KEYCTL = {"x86_64": 250, "aarch64": 219}  # glibc has no function for it
_JOIN_SESSION_KEYRING = 1


def leave_session_keyring() -> None:
    """Give up the keys of whoever started the sandbox: no namespace takes them away.

    Where a filter refuses this, it refuses every other use of keys as well.
    """
    number = _KEYCTL.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, _JOIN_SESSION_KEYRING, None)


def main() -> None:
    """Set limits, close what was inherited, report for duty, become the command."""
    settings, command = json.loads(sys.argv[1]), sys.argv[2:]
    # Also away from bwrap's own group, so that an interrupt can go to the command's group.
    with contextlib.suppress(PermissionError):  # it leads a group already
        os.setpgid(0, 0)
    leave_session_keyring()
    os.umask(0o077)
    for name, value in settings["limits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    ready = settings["ready"]
    kept = {0, 1, 2, ready, *settings["kept"]}
    for descriptor in [int(name) for name in os.listdir("/proc/self/fd")]:
        if descriptor not in kept:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    os.write(ready, b"1")
    os.close(ready)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run in the sandbox: {error.strerror}.")


if __name__ == "__main__":
    main()
