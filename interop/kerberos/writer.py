"""Stores files in a directory, one after another, until its input ends.

Each line of its output says what has happened:

    stored NAME MD5     fsync and close have succeeded
    failed ERRNO        a file could not be stored
    held ERRNO          fsync of another file, which was opened before, and written to
                        after the failure; OK if it succeeded

After a failure it waits for a line, tries for some time to go on, and then syncs the
held file again.
"""

import errno
import hashlib
import os
import select
import sys
import time

SIZE = 100_000  # bytes of a file
TRIES = 300  # in which it must be able to go on, after a line

directory, name = sys.argv[1:]
os.chdir(directory)
held = os.open(name, os.O_CREAT | os.O_WRONLY, 0o644)
count = 0


def say(*words):
    print(*words, flush=True)


def store():
    global count
    count += 1
    data, file = os.urandom(SIZE), f"{name}{count}"
    with open(file, "wb", buffering=0) as f:
        f.write(data)
        os.fsync(f.fileno())
    say("stored", file, hashlib.md5(data).hexdigest())


def sync():
    try:
        os.write(held, b"late")
        os.fsync(held)
        say("held OK")
    except OSError as e:
        say("held", errno.errorcode[e.errno])


while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        store()
    except OSError as e:
        say("failed", errno.errorcode[e.errno])
        sync()
        if not sys.stdin.readline():
            break
        for left in reversed(range(TRIES)):
            try:
                store()
                break
            except OSError:
                if not left:
                    raise
                time.sleep(0.1)
        sync()
