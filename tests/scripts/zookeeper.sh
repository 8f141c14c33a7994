#!/bin/sh
# Three nodes of ZooKeeper on loopback, in a guest. Ten nodes of the tree are made, the leader is
# ended with SIGKILL, and the other two are given some time. What all three logged and wrote goes to
# DIR.
#
#   crashpoint machine --virtual-time --seed 1 --memory 2048 --share DIR -- sh zookeeper.sh DIR
set -eu

OUT=$1
NODES='1 2 3'
WAIT_S=30
# The first names what it needs; the second logs to standard error.
CLASSES=/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar

mkdir /tmp/zookeeper
cd /tmp/zookeeper
for node in $NODES; do
    mkdir "data$node"
    echo "$node" >"data$node/myid"
    {
        echo "tickTime=500"
        echo "initLimit=10"
        echo "syncLimit=5"
        echo "dataDir=/tmp/zookeeper/data$node"
        echo "clientPort=${node}2181"
        echo "admin.enableServer=false"
        echo "4lw.commands.whitelist=*"
        for other in $NODES; do echo "server.$other=127.0.0.1:${other}2888:${other}3888"; done
    } >"config$node"
    java -Xmx128m -cp "$CLASSES" -Dorg.slf4j.simpleLogger.showDateTime=true \
        org.apache.zookeeper.server.quorum.QuorumPeerMain "config$node" >"log$node" 2>&1 &
    eval "process$node=$!"
done

# Who has come to lead by now.
leaders() { for node in $NODES; do if grep -q 'LEADING - LEADER ELECTION TOOK' "log$node"; then echo "$node"; fi; done; }
until first=$(leaders) && [ -n "$first" ]; do sleep 0.5; done

for key in $(seq 10); do echo "create /key$key value$key"; done |
    java -Xmx128m -cp "$CLASSES" org.apache.zookeeper.ZooKeeperMain -server 127.0.0.1:12181 >client 2>&1
eval "kill -KILL \$process$first"
sleep "$WAIT_S"
echo "leader $first was killed, $(leaders | grep -v "$first") leads"

cp -r . "$OUT"
