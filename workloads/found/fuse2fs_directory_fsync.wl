# Found by Crashpoint, 2026-11-20, on fuse2fs 1.47.0: fsync of a directory is answered, and does
# nothing. op_fsync in misc/fuse2fs.c flushes what was opened for writing only, which no directory
# can be.
workload fuse2fs_directory_fsync
source "Crashpoint, seq-1"
expect "there is no foo"
setup
creat foo
run
unlink foo
fsync .
!
