"""A tree is copied, and only its directory is synced.

Source: sync(1): "Synchronize cached writes to persistent storage. If one or more files are
specified, sync only them"; -f syncs the file systems that contain them."""

from planted import lost, main, prepare, sh


def run(right):
    prepare(file=b"whole")
    sh(f"mkdir copy; cp file copy/file; sync {'-f copy' if right else 'copy .'}; echo copied")


def check(right, acks):
    return lost("copy/file", b"whole") if "copied" in acks else None


main(run, check)
