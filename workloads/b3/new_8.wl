# New bug in btrfs, seen in Linux 4.16.0-041600, found by B3.
# Consequence: preallocated blocks beyond the end of the file are lost.

workload new_8
source B3 new bug 8
source bug1_btrfs_falloc_fsync.cpp
source bug-8.cpp
expect st_blocks is 40 (32 and 8)
creat foo
write foo 0 16K
fsync foo; !
falloc foo keep_size 16K 4K
fsync foo; !

# As new_bugs/bug-8.cpp runs it.
workload new_8.bug-8
source B3 new bug 8
expect st_blocks is 16 (8 and 8)
creat foo
write foo 0 4K
falloc foo keep_size 4K 4K
fsync foo; !

# The ranges of bug1_btrfs_falloc_fsync.cpp, each alone (the program runs them in turn).
workload new_8.keep_size_17000_3000
source B3 new bug 8
expect st_blocks is 40 (32 and 8)
setup
creat foo
write foo 0 16K
fsync foo
sync
run
falloc foo keep_size 17000 3000
fsync foo; !

workload new_8.keep_size_24576_3000
source B3 new bug 8
expect st_blocks is 40 (32 and 8)
setup
creat foo
write foo 0 16K
fsync foo
sync
run
falloc foo keep_size 24K 3000
fsync foo; !

workload new_8.keep_size_32768_8192
source B3 new bug 8
expect st_blocks is 48 (32 and 16)
setup
creat foo
write foo 0 16K
fsync foo
sync
run
falloc foo keep_size 32K 8K
fsync foo; !

workload new_8.zero_range_42000_3000
source B3 new bug 8
expect st_blocks is 40 (32 and 8)
setup
creat foo
write foo 0 16K
fsync foo
sync
run
falloc foo zero_range|keep_size 42000 3000
fsync foo; !

workload new_8.zero_range_49152_3000
source B3 new bug 8
expect st_blocks is 40 (32 and 8)
setup
creat foo
write foo 0 16K
fsync foo
sync
run
falloc foo zero_range|keep_size 48K 3000
fsync foo; !

workload new_8.zero_range_53248_8192
source B3 new bug 8
expect st_blocks is 48 (32 and 16)
setup
creat foo
write foo 0 16K
fsync foo
sync
run
falloc foo zero_range|keep_size 52K 8K
fsync foo; !
