"""Runs a command under a seccomp filter that answers some system calls with EPERM, as containers do.

    forbid.py NUMBER[,NUMBER…] COMMAND…        of x86-64
"""

import ctypes
import os
import struct
import sys

LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # of classic BPF: a word, a jump, an end
ALLOW, EPERM = 0x7FFF0000, 0x00050001
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def step(code, when_true, when_false, value):
    return struct.pack("HBBI", code, when_true, when_false, value)


def main():
    numbers = [int(number) for number in sys.argv[1].split(",")]
    steps = [step(LOAD, 0, 0, 0)]
    for number in numbers:
        steps += [step(IF_EQUAL, 0, 1, number), step(RETURN, 0, 0, EPERM)]
    steps.append(step(RETURN, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in [(PR_SET_NO_NEW_PRIVS, 1), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER)]:
        if libc.prctl(*call, ctypes.c_void_p(ctypes.addressof(program)) if call[0] == PR_SET_SECCOMP else 0, 0, 0):
            sys.exit(f"prctl {call}: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[2], sys.argv[2:])


main()
