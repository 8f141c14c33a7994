import com.hazelcast.config.Config;
import com.hazelcast.config.NetworkConfig;
import com.hazelcast.config.QuorumConfig;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.IMap;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/** A node of Hazelcast: Node ADDRESS ADDRESS,... Everything is kept on all nodes. */
public final class Node extends Door {
    private static final int PORT = 5701;
    private static final int OTHERS = 2;
    private static final int MAJORITY = 2;
    private static final int WAIT_S = 1;

    private final HazelcastInstance hazelcast;
    private final IMap<String, String> map;

    private Node(String address, String[] nodes) {
        Config config = new Config();
        NetworkConfig network = config.getNetworkConfig();
        network.setPort(PORT).setPortAutoIncrement(false).setPublicAddress(address);
        network.getInterfaces().setEnabled(true).addInterface(address);
        network.getJoin().getMulticastConfig().setEnabled(false);
        network.getJoin().getTcpIpConfig().setEnabled(true).setMembers(Arrays.asList(nodes));
        // Times that a test can wait for; the defaults are minutes.
        config.setProperty("hazelcast.heartbeat.interval.seconds", "1")
            .setProperty("hazelcast.max.no.heartbeat.seconds", System.getProperty("detect.s", "3"))
            .setProperty("hazelcast.merge.first.run.delay.seconds", "5")
            .setProperty("hazelcast.merge.next.run.delay.seconds", "5")
            .setProperty("hazelcast.operation.call.timeout.millis", "5000")
            .setProperty("hazelcast.wait.seconds.before.join", "1")
            .setProperty("hazelcast.partition.count", "31")
            .setProperty("hazelcast.phone.home.enabled", "false")
            .setProperty("hazelcast.shutdownhook.enabled", "false")
            .setProperty("hazelcast.logging.type", "jdk");
        config.getMapConfig("map").setBackupCount(OTHERS);
        config.getQueueConfig("*").setBackupCount(OTHERS);
        if (Boolean.getBoolean("quorum")) {
            config.addQuorumConfig(new QuorumConfig("majority", true, MAJORITY));
            config.getMapConfig("map").setQuorumName("majority");
            config.getLockConfig("*").setQuorumName("majority");
            config.getQueueConfig("*").setQuorumName("majority");
            config.getSemaphoreConfig("*").setQuorumName("majority");
            config.getAtomicLongConfig("*").setQuorumName("majority");
        }
        hazelcast = Hazelcast.newHazelcastInstance(config);
        map = hazelcast.getMap("map");
    }

    public static void main(String[] words) throws Exception {
        new Node(words[0], words[1].split(",")).open(words[0]);
    }

    @Override
    Object run(String operation, String name, String value) throws Exception {
        switch (operation) {
            case "get": return map.get(name);
            case "put": map.put(name, value); return "ok";
            case "lock": return hazelcast.getLock(name).tryLock(WAIT_S, TimeUnit.SECONDS);
            case "unlock": hazelcast.getLock(name).unlock(); return "ok";
            case "permit":
                hazelcast.getSemaphore(name).init(1);
                return hazelcast.getSemaphore(name).tryAcquire(WAIT_S, TimeUnit.SECONDS);
            case "return": hazelcast.getSemaphore(name).release(); return "ok";
            case "inc": return hazelcast.getAtomicLong(name).incrementAndGet();
            case "count": return hazelcast.getAtomicLong(name).get();
            case "offer": return hazelcast.<String>getQueue(name).offer(value);
            case "poll": return hazelcast.<String>getQueue(name).poll();
            case "members": return members();
            default: throw new IllegalArgumentException(operation);
        }
    }

    /** Whether this is the oldest node, and how many there are. */
    private String members() {
        boolean coordinates = hazelcast.getCluster().getMembers().iterator().next().localMember();
        return (coordinates ? "coordinator " : "member ") + hazelcast.getCluster().getMembers().size();
    }
}
