# Found by Crashpoint, 2026-11-20, on Linux 6.1.176: the first fsync after a mount commits nothing on
# reiserfs. do_journal_end in fs/reiserfs/journal.c keeps the number of the transaction before the
# first one of a mount has got it, and then does not wait for it.
workload reiserfs_first_fsync
source "Crashpoint, seq-1/0"
expect "foo exists"
creat foo
fsync foo
!
