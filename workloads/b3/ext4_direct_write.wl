# Known bug in ext4, seen in Linux 4.15.
# Consequence: size 0 while blocks non-zero.
# The program at CrashMonkey's HEAD crashes after the direct write: its fsync is commented
# out, since it would settle the buffered write and the bug would not show. Hence two variants.
# In ACE: write foo append, dwrite foo overlap / none, fsync bar.

# As the program runs it.
workload ext4_direct_write.o_sync
source B3 reproduced bug 23
source generic_ext4_direct_write.cpp
expect size is at least 4096
expect the size fits the blocks
setup
creat foo
run
write foo 16K 4K
dwrite foo 0 4K sync; !

# With the fsync.
workload ext4_direct_write.fsync
source B3 reproduced bug 23
source generic_ext4_direct_write.cpp
expect size is at least 4096
expect the size fits the blocks
setup
creat foo
run
write foo 16K 4K
dwrite foo 0 4K sync
fsync foo; !
