# Found by Crashpoint, 2026-11-20, on Linux 6.1.176: fsync after chmod commits nothing on reiserfs
# (reiserfs_dirty_inode in fs/reiserfs/super.c does not note the transaction in the inode) and on
# nilfs2 (nilfs_sync_file asks nilfs_inode_dirty, which is about data only).
workload chmod_lost
source Crashpoint
expect "foo has mode 600"
setup
creat foo
run
chmod foo 0600
fsync foo
!
