# Known bug in btrfs, seen in Linux 3.12.
# Consequence: appended data lost.

workload generic_090
source B3 reproduced bug 7
source generic_090.cpp
expect foo has 65536 bytes and their data
creat foo
write foo 0 32K
fsync foo
sync
link foo foo_link
sync
write foo 32K 32K
fsync foo; !
