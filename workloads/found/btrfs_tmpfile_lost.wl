# Found by Crashpoint, 2026-11-20, on Linux 6.18.44: btrfs loses a file that was fsynced, and the
# new directory it was linked into. The file was made with O_TMPFILE.
workload btrfs_tmpfile_lost
source "Crashpoint, random workloads; the rule is that of fstests generic/498, 520"
expect "B/b exists with its 4096 bytes"
mkdir B
tmpfile . as @h
write @h 0 4K
link @h B/b
fsync @h
!
