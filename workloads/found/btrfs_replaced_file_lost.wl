# Found by Crashpoint, 2026-11-20, on Linux 6.18.44: btrfs loses both the fsynced file and the one
# that replaced it. B3 reported the same as its new bug 1 (workloads/b3/new_1.wl); this is shorter.
workload btrfs_replaced_file_lost
source "Crashpoint, random workloads; rename(2): an instance of newpath stays in place"
expect "c exists: the old one or the new one"
creat c
creat b
fsync c
rename b c
creat d
fsync d
!
