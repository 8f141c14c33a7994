# Found by Crashpoint, 2026-11-20, on Linux 6.1.176: a file of f2fs is larger after the crash than
# it ever was. The hole ends past the end of the file, in a block that fill_zero in fs/f2fs/file.c
# writes; recovery (do_recover_data in fs/f2fs/recovery.c) takes the last block for the size.
workload f2fs_punch_hole_grows
source "Crashpoint, seq-1/44"
expect "foo has 32768 bytes"
creat foo
write foo 0 32K
falloc foo punch_hole|keep_size 30768 5000
fsync foo
!
