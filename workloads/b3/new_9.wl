# New bug in f2fs, seen in Linux 4.16.0-041600, found by B3.
# Consequence: recovered size wrong (e.g. 4210688 instead of 16384).

workload new_9
source B3 new bug 9
source bug2_f2fs_fzero_fdatasync.cpp
source bug-9.cpp
expect size is 16384
creat foo
write foo 0 16K
fsync foo; !
falloc foo zero_range|keep_size 16K 4K
fsync foo; !

# As bug2_f2fs_fzero_fdatasync.cpp runs it.
workload new_9.fdatasync
source B3 new bug 9
expect size is 16384
creat foo
write foo 8K 8K
fsync foo; !
falloc foo zero_range|keep_size 4104K 8K
fdatasync foo; !

# As new_bugs/bug-9.cpp runs it.
workload new_9.bug-9
source B3 new bug 9
expect size is 4096
creat foo
write foo 0 4K
falloc foo zero_range|keep_size 4K 4K
fsync foo; !
