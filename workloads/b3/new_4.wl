# New bug in btrfs, seen in Linux 4.16.0-041600, found by B3.
# Consequence: directory B and its contents are missing.

workload new_4
source B3 new bug 4
source bug-4.cpp
expect B/foo exists
mkdir A
sync; !
rename A B
creat B/foo
fsync B/foo; !
fsync B; !

# As new_bugs/bug-4.cpp runs it.
workload new_4.bug-4
source B3 new bug 4
expect B/foo exists
mkdir A
sync; !
rename A B
creat B/foo
fsync B/foo; !
mkdir A
creat A/foo
fsync B; !
