# Log replay test of xfstests (written for btrfs).
# Consequence: links or new inodes are not logged.

workload xfstests_generic_065
source kdave/xfstests tests/generic/065
expect all new links below D exist
expect link counts are right
creat foo
write foo 0 8K
mkdir D
sync
link foo D/foo_2
link foo D/foo_3
creat hello
write hello 0 64K
link hello D/hello_2
mkdir D/x
mkdir D/x/y
mkdir D/x/y/z
link foo D/x/y/l
link foo D/x/y/z/l
creat D/x/y/z/q
fsync D
fsync hello; !
