#!/bin/sh
# Three nodes of etcd on loopback, in a guest. Twenty keys are put, the leader is ended with
# SIGKILL, and the other two are given some time. What all three logged and wrote goes to DIR.
#
#   crashpoint machine --virtual-time --seed 1 --share DIR -- sh etcd.sh DIR
set -eu

OUT=$1
KEYS=20
WAIT_S=30
NODES='1 2 3'
export ETCDCTL_API=3

client() { echo "http://127.0.0.1:${1}2379"; }
peer() { echo "http://127.0.0.1:${1}2380"; }
ctl() { etcdctl --endpoints "$(client 1),$(client 2),$(client 3)" "$@"; }
# The column after the third comma and a size is whether a node leads.
leader() { ctl endpoint status 2>/dev/null | sed -n 's|^http://127.0.0.1:\(.\)2379, .*, true, false, .*|\1|p'; }

mkdir /tmp/etcd
cd /tmp/etcd
for node in $NODES; do
    etcd --name "node$node" --data-dir "data$node" --logger zap \
        --listen-client-urls "$(client "$node")" --advertise-client-urls "$(client "$node")" \
        --listen-peer-urls "$(peer "$node")" --initial-advertise-peer-urls "$(peer "$node")" \
        --initial-cluster "node1=$(peer 1),node2=$(peer 2),node3=$(peer 3)" >"log$node" 2>&1 &
    eval "process$node=$!"
done
until ctl endpoint health >/dev/null 2>&1; do sleep 0.1; done

for key in $(seq "$KEYS"); do
    ctl put "key$key" "value$key" >/dev/null
done
first=$(leader)
eval "kill -KILL \$process$first"
sleep "$WAIT_S"
second=$(leader)
keys=$(ctl get --prefix key --keys-only 2>/dev/null | grep -c key)
echo "leader $first was killed, $second leads, $keys keys"

for node in $NODES; do
    cp "log$node" "$OUT"
    for file in "data$node/member/wal"/*.wal; do
        # After what was written it is reserved space.
        cp --sparse=always "$file" "$OUT/wal$node-${file##*/}"
    done
done
