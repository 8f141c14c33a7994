# Known bug in btrfs, seen in Linux 3.13.
# Consequence: fsynced data lost (i_size wrong).

workload generic_056
source B3 reproduced bug 4
source generic_056.cpp
expect foo has its 4096 bytes
creat foo
write foo 0 4K
fsync foo; !
link foo foo_link
creat bar
fsync bar; !
