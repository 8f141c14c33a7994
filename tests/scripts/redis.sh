#!/bin/sh
# A redis and a replica, in a guest, that sync each write. Random keys are set by several clients,
# the append-only file is written anew, and the primary is ended with SIGKILL. What both logged and
# wrote goes to DIR.
#
#   crashpoint machine --virtual-time --seed 1 --share DIR -- sh redis.sh DIR
set -eu

OUT=$1
WAIT_S=10
PRIMARY=6379
REPLICA=6380

mkdir /tmp/redis
cd /tmp/redis
serve() {
    port=$1
    shift
    mkdir "$port"
    redis-server --port "$port" --dir "$port" --appendonly yes --appendfsync always --logfile log "$@" >/dev/null &
}
serve $PRIMARY
primary=$!
serve $REPLICA --replicaof 127.0.0.1 $PRIMARY
until redis-cli -p $REPLICA info replication 2>/dev/null | grep -q master_link_status:up; do sleep 0.1; done

redis-benchmark -p $PRIMARY -t set,incr -n 300 -r 100 -c 10 -q >benchmark
redis-cli -p $PRIMARY bgrewriteaof >/dev/null
sleep "$WAIT_S"
redis-cli -p $PRIMARY set last one >/dev/null
kill -KILL $primary
sleep "$WAIT_S"
redis-cli -p $REPLICA replicaof no one >/dev/null
echo "the primary was killed, $(redis-cli -p $REPLICA dbsize) keys"

cp -r . "$OUT"
