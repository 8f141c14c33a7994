# New bug in btrfs, seen in Linux 4.16.0-041600, found by B3.
# Consequence: test/foo is missing.

workload new_6
source B3 new bug 6
source bug-6.cpp
expect test/foo exists
mkdir test
mkdir test/A
creat test/foo
creat test/A/foo
fsync test/A/foo; !
fsync test; !

# As new_bugs/bug-6.cpp runs it: there `test` is the root of the file system.
workload new_6.bug-6
source B3 new bug 6
expect foo exists
mkdir A
creat foo
creat A/foo
fsync A/foo; !
creat A/bar
fsync .; !
