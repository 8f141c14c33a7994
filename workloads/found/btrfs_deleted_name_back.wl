# Found by Crashpoint, 2026-11-20, on btrfs of Linux 6.1.176; 6.18.44 has it mended.
# Consequence: fsync of a file that was deleted while open does not make the deletion durable.

workload btrfs_deleted_name_back
source crashpoint, workloads/unlinked on Linux 6.1
expect there is no foo
setup
creat foo
write foo 0 8K
sync
run
open foo as @h
unlink foo
fsync @h; !
