import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.net.URI;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.ehcache.Cache;
import org.ehcache.clustered.client.config.builders.ClusteredResourcePoolBuilder;
import org.ehcache.clustered.client.config.builders.ClusteredStoreConfigurationBuilder;
import org.ehcache.clustered.client.config.builders.ClusteringServiceConfigurationBuilder;
import org.ehcache.clustered.client.config.builders.TimeoutsBuilder;
import org.ehcache.clustered.common.Consistency;
import org.ehcache.config.builders.CacheConfigurationBuilder;
import org.ehcache.config.builders.CacheManagerBuilder;
import org.ehcache.config.builders.ResourcePoolsBuilder;
import org.ehcache.config.units.MemoryUnit;
import org.ehcache.spi.resilience.ResilienceStrategy;

/** A server of Terracotta and a client of it, on one machine: Node ADDRESS ADDRESS,... COMMAND... The command is that of the server. */
public final class Node extends Door {
    private static final int PORT = 9410;
    private static final int CACHE_MB = 4;
    private static final int AGAIN_AFTER_MS = 500;
    /** Longer than anybody waits for an answer: a read that takes longer is answered with nothing. */
    private static final java.time.Duration LONG = java.time.Duration.ofMinutes(2);

    private final URI address;
    private volatile String role;
    /** How many others this server knows. */
    private volatile int others;
    private Cache<String, String> cache;

    private Node(String[] nodes) {
        address = URI.create("terracotta://" + String.join(":" + PORT + ",", nodes) + ":" + PORT + "/door");
    }

    public static void main(String[] words) throws Exception {
        Node node = new Node(words[1].split(","));
        new Thread(() -> node.serve(Arrays.copyOfRange(words, 2, words.length))).start();
        node.open(words[0]);
    }

    /** A server that ends because another one is active is started again, as by its script. */
    private void serve(String[] command) {
        while (true) {
            try {
                Process server = new ProcessBuilder(command).redirectErrorStream(true).start();
                BufferedReader lines = new BufferedReader(new InputStreamReader(server.getInputStream()));
                for (String line = lines.readLine(); line != null; line = lines.readLine()) hear(line);
                role = null;
                others = 0;
                Thread.sleep(AGAIN_AFTER_MS);
            } catch (IOException | InterruptedException error) {
                error.printStackTrace();
            }
        }
    }

    /** What a server becomes it says in its log only. */
    private void hear(String line) {
        System.out.println(line);
        if (line.contains("State[ ACTIVE-COORDINATOR ]")) role = "active";
        if (line.contains("State[ PASSIVE-STANDBY ]")) role = "passive";
        if (line.contains("joined the cluster")) others++;
        if (line.contains("left the cluster")) others--;
    }

    private synchronized Cache<String, String> cache() {
        if (cache == null) cache = connect();
        return cache;
    }

    private Cache<String, String> connect() {
        return CacheManagerBuilder.newCacheManagerBuilder()
            .with(ClusteringServiceConfigurationBuilder.cluster(address)
                .timeouts(TimeoutsBuilder.timeouts().read(LONG).write(LONG).connection(LONG))
                .autoCreate())
            .build(true)
            .createCache("map", CacheConfigurationBuilder.newCacheConfigurationBuilder(String.class, String.class,
                    ResourcePoolsBuilder.newResourcePoolsBuilder()
                        .with(ClusteredResourcePoolBuilder.clusteredDedicated("main", CACHE_MB, MemoryUnit.MB)))
                .withResilienceStrategy(throwing())
                .add(ClusteredStoreConfigurationBuilder.withConsistency(Consistency.STRONG)));
    }

    /** By default a cache takes what failed for done. */
    @SuppressWarnings("unchecked")
    private static ResilienceStrategy<String, String> throwing() {
        Object itself = new Object();
        return (ResilienceStrategy<String, String>) Proxy.newProxyInstance(Node.class.getClassLoader(),
            new Class<?>[] {ResilienceStrategy.class}, (proxy, method, words) -> {
                if (method.getDeclaringClass() == Object.class) return method.invoke(itself, words);
                throw new IllegalStateException((Throwable) words[words.length - 1]);
            });
    }

    @Override
    Object run(String operation, String name, String value) throws Exception {
        switch (operation) {
            case "get": return cache().get(name);
            case "put": cache().put(name, value); return "ok";
            case "members": return members();
            default: throw new IllegalArgumentException(operation);
        }
    }

    /** What this server is, and how many it knows, as soon as the client of this machine is connected. */
    private String members() {
        if (role == null || cache() == null) throw new IllegalStateException("no server");
        return role + " " + (1 + others);
    }
}
