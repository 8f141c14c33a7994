#!/usr/bin/python3
"""Looks at what a crash left of the repository of client.sh.

    check.py DIR ACKS, or check.py --serve

It is `ok` if `git fsck` has nothing against it and it has each commit that was acknowledged, and at
most the one after them. Before it was initialised nothing is asked of it.
"""

import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import serving

ENVIRONMENT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}


def git(repository, *arguments):
    """What git prints, and what it complains of if it fails."""
    # A repository of another user is as good.
    command = ["git", "-c", "safe.directory=*", "-C", repository, *arguments]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0:
        return done.stdout, None
    if done.returncode < 0:
        raise RuntimeError(f"git {arguments[0]} was ended by signal {-done.returncode}")
    complaints = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return done.stdout, complaints[0] if complaints else f"git {arguments[0]} fails"


def verdict(directory, lines):
    if "initialised" not in lines:
        return None
    repository = os.path.join(directory, "repository")
    if not os.path.isdir(repository):
        return "the repository is lost"
    _, complaint = git(repository, "fsck", "--full", "--no-progress", "--no-dangling")
    if complaint:
        return f"the repository is damaged: {complaint}"
    acknowledged = [line.split()[1:] for line in lines if line.startswith("committed ")]
    log, complaint = git(repository, "log", "--format=%H", "main")
    # A branch without a commit is none.
    there = [] if complaint else log.split()
    for number, commit in acknowledged:
        if commit not in there:
            return f"acknowledged commit {number} is lost"
    if len(there) > len(acknowledged) + 1:
        return f"commit {len(there)} is there, and was never begun"
    return None


if __name__ == "__main__":
    serving.main(verdict)
