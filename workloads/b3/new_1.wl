# New bug in btrfs, seen in Linux 4.16.0-041600, found by B3.
# Consequence: rename is not atomic: A/bar is deleted and B/bar not persisted.

workload new_1
source B3 new bug 1
source bug-1.cpp (which stops after fsync A/foo)
expect A has bar (old or new) and foo
mkdir A
creat A/bar
fsync A/bar; !
mkdir B
creat B/bar
rename B/bar A/bar
creat A/foo
fsync A/foo; !
fsync A; !
