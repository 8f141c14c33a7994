# Known bug in btrfs, seen in Linux 3.12.
# Consequence: the file is in both directories and cannot be removed.

workload generic_321
source B3 reproduced bug 12
source generic_321.cpp
expect foo is only in A
expect it can be removed, and then A
setup
creat foo
mkdir A
fsync foo
sync
run
rename foo A/foo
fsync A; !
fsync A/foo; !
