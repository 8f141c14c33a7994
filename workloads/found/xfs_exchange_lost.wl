# Found by Crashpoint, 2026-11-20, on xfs of Linux 6.1.176; 6.18.44 has it mended.
# Consequence: fsync of a file does not make its exchange with another one in the same directory
# durable. fs/xfs/xfs_inode.c, xfs_cross_rename, logs neither inode then.

workload xfs_exchange_lost
source crashpoint, workloads/unlinked on Linux 6.1
expect foo is empty and baz has 4096 bytes
setup
creat foo
write foo 0 4K
creat baz
sync
run
rename foo baz exchange
fsync foo; !
