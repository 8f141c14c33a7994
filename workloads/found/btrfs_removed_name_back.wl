# Found by Crashpoint, 2026-11-20, on Linux 6.18.44: btrfs brings a name back that the fsynced
# file had lost.
workload btrfs_removed_name_back
source "Crashpoint, random workloads; the rule is that of fstests generic/106, 107"
expect "A/b is the only name of the file; a is gone"
setup
creat a
run
mkdir A
link a A/b
fsync .
unlink a
fsync A/b
!
