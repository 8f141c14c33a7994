#!/bin/sh
# A broker of Kafka, which is a controller too: node.sh ADDRESS DIRECTORY. It formats its directory the first time.
set -eu
neat=$(dirname "$(realpath "$0")")/../../../target/neat
java="$neat/jdk/home/bin/java -Xms96m -Xmx192m -XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
    -Djava.net.preferIPv4Stack=true -Djava.io.tmpdir=$2 -Dkafka.logs.dir=$2 -Dorg.slf4j.simpleLogger.logFile=System.out"
# shellcheck disable=SC2086 # These are words.
[ -e "$2/data/meta.properties" ] ||
    $java -cp "$neat/kafka/jars/*" kafka.tools.StorageTool format -t Q3Jhc2hwb2ludENyYXNocA -c "$2/server.properties"
# shellcheck disable=SC2086
exec $java -cp "$neat/kafka/jars/*" kafka.Kafka "$2/server.properties"
