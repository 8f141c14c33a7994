# Log replay test of xfstests (written for btrfs).
# Consequence: xattrs lost.

workload xfstests_generic_489
source kdave/xfstests tests/generic/489
expect all 3 attributes exist
expect f has its 64K of data
creat f
setxattr f user.xa1 qwerty
setxattr f user.xa2 "hello world"
setxattr f user.xa3 test
fsync f
sync
write f 0 64K
fsync f; !
