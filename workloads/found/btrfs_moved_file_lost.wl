# Found by Crashpoint, 2026-11-20, on Linux 6.18.44: btrfs loses a file that was synced.
# After the crash there is only the new, empty c: neither A nor the old file is anywhere.
# Clean where A existed before the sync. Shown by hand too, with a copy of the loop device's file.
workload btrfs_moved_file_lost
source "Crashpoint, random workloads; the rule is that of fstests generic/341, 342, 526"
expect "the old c, synced with its 4096 bytes, is at A/b"
setup
creat c
write c 0 4K
run
mkdir A
rename c A/b
creat c
fsync c
!
