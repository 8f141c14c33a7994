# Known bug in btrfs (-O no-holes), seen in Linux 4.1.1.
# Consequence: extent map incorrect.
# mkfs.btrfs needs "-O no-holes". The program punches the third hole at 32786, xfstests at 32K.

workload generic_177
source B3 reproduced bug 11
source generic_177.cpp
source xfstests generic/177
expect the contents are those before the crash
creat foo
write foo 0 128K
fsync foo
falloc foo punch_hole|keep_size 96K 32K
falloc foo punch_hole|keep_size 64K 128K
falloc foo punch_hole|keep_size 32K 96K
fsync foo; !

# As ACE finds it (ace.py, entry 21).
workload generic_177.ace
source B3 reproduced bug 11
expect the contents are those before the crash
creat foo
write foo 0 32K
sync
falloc foo punch_hole|keep_size 24K 8K
falloc foo punch_hole|keep_size 4K 60K
fsync foo; !
