# Known bug in ext4, seen in Linux 4.4. Also f2fs 4.4.
# Consequence: blocks beyond EOF lost.
# The program has a syncfs between the two crash points, to part their epochs.
# In ACE: write foo append, falloc foo KEEP_SIZE append, fdatasync foo / sync,none,none.

workload generic_468
source B3 reproduced bug 22
source generic_468.cpp
expect st_blocks includes the preallocated blocks
expect size is 16384
setup
creat foo
write foo 8K 8K
run
fsync foo; !
falloc foo keep_size 4104K 8K
fdatasync foo; !
