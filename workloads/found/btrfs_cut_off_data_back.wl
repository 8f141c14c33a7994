# Found by Crashpoint, 2026-11-26, on Linux 6.18.44: btrfs shows bytes again that were cut off, which
# was fsynced, where the file has grown since then. A commit for another file keeps the new size, and
# the zeros are written later.
workload btrfs_cut_off_data_back
source "Crashpoint, random programs; ftruncate(2): what a file grows by reads as zeros"
expect "foo has no byte from 1000 on that is not zero"
setup
mkdir A
creat A/b
creat foo
write foo 0 3000
sync
run
truncate foo 1000
fsync foo
truncate foo 3000
rename A/b c
fsync c
!
