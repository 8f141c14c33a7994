# New bug in f2fs, seen in Linux 4.16.0-041600, found by B3.
# Consequence: file persisted in a different directory (A/foo).

workload new_10
source B3 new bug 10
source bug-10.cpp
expect B/foo exists
mkdir A
sync; !
rename A B
creat B/foo
fsync B/foo; !
