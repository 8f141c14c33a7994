# Known bug in btrfs, seen in Linux 3.12.
# Consequence: renamed file missing.

workload generic_322
source B3 reproduced bug 13
source generic_322.cpp
expect A/bar exists and has its data
setup
mkdir A
creat A/foo
write A/foo 0 4K
sync
run
rename A/foo A/bar
fsync A/bar; !

# The second half of the file is only flushed with sync_file_range (generic_322_2.cpp).
workload generic_322.sync_file_range
source B3 reproduced bug 13
expect A/bar exists and has its data
setup
mkdir A
creat A/foo
write A/foo 0 4K
sync
run
write A/foo 4K 4K
sync_file_range A/foo 4K 4K
rename A/foo A/bar
fsync A/bar; !
