# Control, which must pass everywhere, run on Linux 4.16.
# Consequence: none.
# A regular file where btrfs_rename_special_* have a special one: must pass everywhere.

workload btrfs_rename_file
source btrfs_rename_file.cpp
expect mountable
setup
mkdir A
creat A/foo
sync
run
creat A/dummy
open A/dummy as @dummy
fsync A/dummy
rename A/foo A/bar
link A/bar A/foo
unlink A/dummy
fsync @dummy; !
