"""syncfs gets a descriptor of another file system.

Source: syncfs(2): it synchronises "just the filesystem containing file referred to by the open file
descriptor fd"."""

from planted import ack, create, lost, main, syncfs


def run(right):
    create("file", b"whole")
    syncfs("." if right else "/dev/shm")
    ack("saved")


def check(right, acks):
    return lost("file", b"whole") if acks else None


main(run, check)
