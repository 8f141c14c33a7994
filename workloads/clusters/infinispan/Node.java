import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.infinispan.Cache;
import org.infinispan.configuration.cache.CacheMode;
import org.infinispan.configuration.cache.ConfigurationBuilder;
import org.infinispan.configuration.global.GlobalConfigurationBuilder;
import org.infinispan.conflict.MergePolicy;
import org.infinispan.counter.EmbeddedCounterManagerFactory;
import org.infinispan.counter.api.CounterConfiguration;
import org.infinispan.counter.api.CounterManager;
import org.infinispan.counter.api.CounterType;
import org.infinispan.counter.api.StrongCounter;
import org.infinispan.counter.configuration.CounterManagerConfigurationBuilder;
import org.infinispan.counter.configuration.Reliability;
import org.infinispan.lock.EmbeddedClusteredLockManagerFactory;
import org.infinispan.lock.api.ClusteredLock;
import org.infinispan.lock.api.ClusteredLockManager;
import org.infinispan.manager.DefaultCacheManager;
import org.infinispan.partitionhandling.PartitionHandling;

/** A node of Infinispan: Node ADDRESS ADDRESS,... DIRECTORY JGROUPS-FILE. Everything is kept on all nodes. */
public final class Node extends Door {
    private static final int OWNERS = 3;
    private static final int SEGMENTS = 16;
    private static final int WAIT_S = 1;
    private static final int ANSWER_S = 8;

    private final DefaultCacheManager manager;
    private final Cache<String, String> map;
    private final ClusteredLockManager locks;
    private final CounterManager counters;
    private final Map<String, ClusteredLock> knownLocks = new ConcurrentHashMap<>();
    private final Map<String, StrongCounter> knownCounters = new ConcurrentHashMap<>();

    private Node(String address, String directory, String jgroups) {
        GlobalConfigurationBuilder global = GlobalConfigurationBuilder.defaultClusteredBuilder();
        global.transport().clusterName("crashpoint").nodeName(address).addProperty("configurationFile", jgroups);
        global.globalJmxStatistics().allowDuplicateDomains(true);
        global.globalState().enable().persistentLocation(directory).temporaryLocation(directory);
        // What Infinispan does if nothing is said of it is the first of these two, and of the map below.
        String counting = System.getProperty("counters", "AVAILABLE");
        global.addModule(CounterManagerConfigurationBuilder.class).reliability(Reliability.valueOf(counting));
        manager = new DefaultCacheManager(global.build());
        ConfigurationBuilder cache = new ConfigurationBuilder();
        cache.clustering().cacheMode(CacheMode.DIST_SYNC).remoteTimeout(5000)
            .hash().numOwners(OWNERS).numSegments(SEGMENTS);
        cache.locking().lockAcquisitionTimeout(3000);
        String split = System.getProperty("when.split", "ALLOW_READ_WRITES");
        cache.clustering().partitionHandling().whenSplit(PartitionHandling.valueOf(split))
            .mergePolicy(MergePolicy.PREFERRED_ALWAYS);
        manager.defineConfiguration("map", cache.build());
        map = manager.getCache("map");
        locks = EmbeddedClusteredLockManagerFactory.from(manager);
        counters = EmbeddedCounterManagerFactory.asCounterManager(manager);
    }

    public static void main(String[] words) throws Exception {
        System.setProperty("node.address", words[0]);
        System.setProperty("node.all", words[1].replaceAll("([^,]+)", "$1[7800]"));
        new Node(words[0], words[2], words[3]).open(words[0]);
    }

    @Override
    Object run(String operation, String name, String value) throws Exception {
        switch (operation) {
            case "get": return map.get(name);
            case "put": map.put(name, value); return "ok";
            case "lock": return lock(name).tryLock(WAIT_S, TimeUnit.SECONDS).get(ANSWER_S, TimeUnit.SECONDS);
            case "unlock": lock(name).unlock().get(ANSWER_S, TimeUnit.SECONDS); return "ok";
            case "inc": return counter(name).incrementAndGet().get(ANSWER_S, TimeUnit.SECONDS);
            case "count": return counter(name).getValue().get(ANSWER_S, TimeUnit.SECONDS);
            case "members": return (manager.isCoordinator() ? "coordinator " : "member ") + manager.getMembers().size();
            default: throw new IllegalArgumentException(operation);
        }
    }

    // To define one writes what the other nodes have to acknowledge, so it is done once.
    private ClusteredLock lock(String name) {
        return knownLocks.computeIfAbsent(name, unknown -> {
            locks.defineLock(name);
            return locks.get(name);
        });
    }

    private StrongCounter counter(String name) {
        return knownCounters.computeIfAbsent(name, unknown -> {
            counters.defineCounter(name, CounterConfiguration.builder(CounterType.UNBOUNDED_STRONG).build());
            return counters.getStrongCounter(name);
        });
    }
}
