# New bug in btrfs, seen in Linux 4.16.0-041600, found by B3.
# Consequence: B/foo (and directory B) are missing.

workload new_5
source B3 new bug 5
source bug-5.cpp
expect B/foo exists
mkdir A
mkdir B
creat A/foo
link A/foo B/foo
fsync A/foo; !
fsync B/foo; !

# As new_bugs/bug-5.cpp runs it.
workload new_5.bug-5
source B3 new bug 5
expect B/foo exists
mkdir A
mkdir B
creat A/foo
link A/foo B/foo
fsync A/foo; !
creat A/bar
fsync B/foo; !
