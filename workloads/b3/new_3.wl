# New bug in btrfs, seen in Linux 4.16.0-041600, found by B3.
# Consequence: directory A and its contents are missing.
# ACE needs its nested set of files for it.

workload new_3
source B3 new bug 3
source bug-3.cpp
source xfstests generic/498
expect A, A/C and A/C/foo exist
mkdir A
mkdir B
mkdir A/C
creat B/foo
fsync B/foo; !
link B/foo A/C/foo
fsync A; !

# As new_bugs/bug-3.cpp runs it.
workload new_3.bug-3
source B3 new bug 3
expect A, A/C and A/C/foo exist
mkdir A
mkdir A/C
mkdir B
creat B/foo
fsync B/foo; !
creat B/bar
fsync B/bar; !
link B/foo A/C/foo
fsync A; !
