# Found by Crashpoint in seq-2, 2026-11-20, on Linux 6.18.44: btrfs gives back space past the
# end of a file that fallocate had reserved and sync made durable (st_blocks 128 before, 64 after).
workload btrfs_preallocation_lost
source "Crashpoint, ACE's seq-2 (seq-2/66118); the rule is that of fstests generic/483, 677"
expect "foo has its 64 KiB: 32 of data and 32 reserved"
setup
creat foo
write foo 0 32K
falloc foo keep_size 32K 32K
run
link foo bar
fsync .
!
