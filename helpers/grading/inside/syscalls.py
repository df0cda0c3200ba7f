"""Which calls of the kernel's student code may not make: those by which it could get memory that no
cap counts, mount something, or reach another process.

A filter in seccomp's language, classic BPF, as seccomp(2) and Linux's uapi headers describe it: it
looks at a call's number, for ``clone`` at its flags, and answers. Its own library would write it,
but is not on every machine, and it has no need of more than this. What is started from a filtered
process is filtered as well, and no filter is ever taken off.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

# The numbers on x86-64, and on 64-bit ARM.
_REFUSED = {
    # Namespaces and mounts: a user namespace has all rights in itself, disks of any size among
    # them.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "open_by_handle_at": (304, 265),
    # Memory that belongs to no process: System V's, and queues of messages.
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    # Keys, other processes, and the kernel itself.
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
}
# Libraries try these first, and do without where a kernel is too old to have them. The flags of
# clone3 are in memory, where no filter can look; for the others, what is done through them is
# seen by none.
_UNKNOWN = {
    "clone3": (435, 435),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_CLONE = (56, 220)
# Mounts, control groups, host names, IPC, users, processes, network: each a namespace of its own.
_NEW_NAMESPACES = 0x7E020000
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
# On x86-64, the same calls with 32-bit pointers, under other numbers.
_X32 = 0x40000000

_INSTRUCTION = struct.Struct("HBBI")
_LOAD, _RETURN = 0x20, 0x06
_JUMP_IF_EQUAL, _JUMP_IF_NOT_LESS, _JUMP_IF_ANY = 0x15, 0x35, 0x45
# Where the filter finds them: the call's number, the machine, the lower half of its first argument.
_AT_NUMBER, _AT_MACHINE, _AT_FIRST = 0, 4, 16
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_SET_SECCOMP, _FILTER = 22, 2


def build_filter(machine: str = "") -> bytes:
    """Return the filter; nothing for a processor whose numbers are not known here.

    Args:
        machine: the processor, as ``platform.machine`` calls it; this one if empty.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        return b""
    column, known_as = _MACHINES[machine]
    program = [
        (_LOAD, 0, 0, _AT_MACHINE),
        (_JUMP_IF_EQUAL, 1, 0, known_as),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _AT_NUMBER),
    ]
    if machine == "x86_64":
        program += _answer_if(_JUMP_IF_NOT_LESS, _X32, _FAIL | errno.ENOSYS)
    for numbers, error in ((_REFUSED, errno.EPERM), (_UNKNOWN, errno.ENOSYS)):
        for number in numbers.values():
            program += _answer_if(_JUMP_IF_EQUAL, number[column], _FAIL | error)
    program += [(_JUMP_IF_EQUAL, 1, 0, _CLONE[column]), (_RETURN, 0, 0, _ALLOW)]
    program += [(_LOAD, 0, 0, _AT_FIRST)]
    program += _answer_if(_JUMP_IF_ANY, _NEW_NAMESPACES, _FAIL | errno.EPERM)
    program += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)


def _answer_if(jump: int, value: int, answer: int) -> list[tuple[int, int, int, int]]:
    return [(jump, 0, 1, value), (_RETURN, 0, 0, answer)]


def restrict() -> None:
    """Refuse these calls to this process, and to all that it starts, from here on.

    It must have given up getting new rights by what it executes.

    Raises:
        OSError: the kernel has no filters.
    """
    program = build_filter()
    if not program:
        return
    code = ctypes.create_string_buffer(program, len(program))
    about = struct.pack("HP", len(program) // _INSTRUCTION.size, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_SECCOMP, _FILTER, about, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
