#!/bin/sh
# A node of Cassandra: node.sh ADDRESS DIRECTORY. Its configuration is there.
set -eu
here=$(dirname "$(realpath "$0")")
neat=$here/../../../target/neat
mkdir -p "$2/triggers"
exec "$neat/jdk/home/bin/java" -Xms192m -Xmx320m -Xmn64m -Xss512k -XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC \
    -javaagent:"$neat/cassandra/jars/jamm-0.3.0.jar" -Djava.net.preferIPv4Stack=true -Djava.io.tmpdir="$2" \
    -Dcassandra.config="file://$2/cassandra.yaml" -Dcassandra.storagedir="$2" -Dcassandra.triggers_dir="$2/triggers" \
    -Dcassandra.jmx.local.port=7199 -Dcassandra-foreground=yes -Dcassandra.ring_delay_ms=2000 \
    -Dcassandra.consistent.rangemovement=false -Dcassandra.skip_wait_for_gossip_to_settle=0 \
    -Dlogback.configurationFile="$here/logback.xml" -Dlevel=INFO \
    -cp "$neat/cassandra/jars/*" org.apache.cassandra.service.CassandraDaemon
