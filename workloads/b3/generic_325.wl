# Known bug in btrfs, seen in Linux 3.16.
# Consequence: the second msync did nothing, its data is lost.

workload generic_325
source B3 reproduced bug 14
source generic_325.cpp
expect both ranges that were stored through the mapping are persisted
creat foo
write foo 0 256K
sync
mmapwrite foo 0 4K
mmapwrite foo 252K 4K
msync foo 0 64K
msync foo 192K 64K; !
