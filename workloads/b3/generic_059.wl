# Known bug in btrfs, seen in Linux 3.13.
# Consequence: the hole is lost, since fsync did nothing.
# The hole is smaller than a page: 8000/4096, as in Hydra's btrfs-150215.
# In ACE: write foo append, falloc foo PUNCH|KEEP overlap_unaligned / sync, fsync foo.

workload generic_059
source B3 reproduced bug 5
source generic_059.cpp
expect the hole reads as zeros
setup
creat foo
write foo 0 16K
fsync foo
sync
run
falloc foo punch_hole|keep_size 8000 4K
fsync foo; !
