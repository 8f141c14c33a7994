# Found by Crashpoint, 2026-11-26, on Linux 6.18.44: btrfs shows a file again that was replaced,
# although what replaced it was fsynced there. The log loses the name when that file loses it, or gets
# another one, and the old file is on the disk.
workload btrfs_replaced_file_back
source "Crashpoint, random programs; fsync(2): the data of a file are durable; rename(2): newpath is replaced"
expect "a has the 100 bytes that were fsynced, or is gone"
setup
mkdir A
creat a
creat A/b
sync
run
write A/b 0 100
fsync A/b
rename A/b a
fsync a
unlink a
creat A/d
fsync A/d
!
