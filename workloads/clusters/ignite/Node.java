import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteCache;
import org.apache.ignite.IgniteQueue;
import org.apache.ignite.Ignition;
import org.apache.ignite.cache.CacheAtomicityMode;
import org.apache.ignite.cache.CacheMode;
import org.apache.ignite.cache.CacheWriteSynchronizationMode;
import org.apache.ignite.cluster.ClusterNode;
import org.apache.ignite.configuration.AtomicConfiguration;
import org.apache.ignite.configuration.CacheConfiguration;
import org.apache.ignite.configuration.CollectionConfiguration;
import org.apache.ignite.configuration.DataRegionConfiguration;
import org.apache.ignite.configuration.DataStorageConfiguration;
import org.apache.ignite.configuration.IgniteConfiguration;
import org.apache.ignite.spi.communication.tcp.TcpCommunicationSpi;
import org.apache.ignite.spi.discovery.tcp.TcpDiscoverySpi;
import org.apache.ignite.spi.discovery.tcp.ipfinder.vm.TcpDiscoveryVmIpFinder;

/** A node of Ignite: Node ADDRESS ADDRESS,... DIRECTORY. Everything is kept on all nodes, and written there before it is acknowledged. */
public final class Node extends Door {
    private static final int DISCOVERY_PORT = 47500;
    private static final int PORT = 47100;
    private static final long MEMORY_BYTES = 100L << 20;
    private static final int MAJORITY = 2;
    private static final int WAIT_S = 1;

    private final Ignite ignite;
    private final IgniteCache<String, String> map;

    private Node(String address, String[] nodes, String directory) {
        List<String> addresses = new ArrayList<>();
        for (String node : nodes) addresses.add(node + ":" + DISCOVERY_PORT);
        TcpDiscoverySpi discovery = new TcpDiscoverySpi()
            .setIpFinder(new TcpDiscoveryVmIpFinder().setAddresses(addresses))
            .setLocalPort(DISCOVERY_PORT);
        discovery.setLocalPortRange(0);
        DataStorageConfiguration storage = new DataStorageConfiguration()
            .setDefaultDataRegionConfiguration(new DataRegionConfiguration().setMaxSize(MEMORY_BYTES));
        ignite = Ignition.start(new IgniteConfiguration()
            .setLocalHost(address)
            .setConsistentId(address)
            .setWorkDirectory(directory)
            .setDiscoverySpi(discovery)
            .setCommunicationSpi(new TcpCommunicationSpi().setLocalPort(PORT).setLocalPortRange(0))
            .setFailureDetectionTimeout(Long.getLong("detect.ms", 5000))
            .setMetricsLogFrequency(0)
            .setDataStorageConfiguration(storage)
            .setAtomicConfiguration(new AtomicConfiguration().setCacheMode(CacheMode.REPLICATED)));
        CacheConfiguration<String, String> config = new CacheConfiguration<String, String>("map")
            .setCacheMode(CacheMode.REPLICATED)
            .setWriteSynchronizationMode(CacheWriteSynchronizationMode.FULL_SYNC)
            .setAtomicityMode(CacheAtomicityMode.TRANSACTIONAL);
        // Nothing else of Ignite can be told what to do without a majority.
        if (Boolean.getBoolean("majority")) config.setTopologyValidator(members -> members.size() >= MAJORITY);
        map = ignite.getOrCreateCache(config);
    }

    public static void main(String[] words) throws Exception {
        new Node(words[0], words[1].split(","), words[2]).open(words[0]);
    }

    @Override
    Object run(String operation, String name, String value) throws Exception {
        switch (operation) {
            case "get": return map.get(name);
            case "put": map.put(name, value); return "ok";
            case "lock": return ignite.reentrantLock(name, true, false, true).tryLock(WAIT_S, TimeUnit.SECONDS);
            case "unlock": ignite.reentrantLock(name, true, false, true).unlock(); return "ok";
            case "permit": return ignite.semaphore(name, 1, true, true).tryAcquire(WAIT_S, TimeUnit.SECONDS);
            case "return": ignite.semaphore(name, 1, true, true).release(); return "ok";
            case "inc": return ignite.atomicLong(name, 0, true).incrementAndGet();
            case "count": return ignite.atomicLong(name, 0, true).get();
            case "offer": return queue(name).offer(value);
            case "poll": return queue(name).poll();
            case "members": return members();
            default: throw new IllegalArgumentException(operation);
        }
    }

    private IgniteQueue<String> queue(String name) {
        return ignite.queue(name, 0, new CollectionConfiguration().setCacheMode(CacheMode.REPLICATED));
    }

    /** Whether this is the oldest node, and how many there are. */
    private String members() {
        ClusterNode oldest = ignite.cluster().forOldest().node();
        boolean coordinates = ignite.cluster().localNode().equals(oldest);
        return (coordinates ? "coordinator " : "member ") + ignite.cluster().nodes().size();
    }
}
