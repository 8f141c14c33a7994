import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Serves over HTTP what a system can do that is embedded in this process.
 *
 * <p>GET /SESSION/OPERATION/NAME[/VALUE] has the result, with status 200, or what was thrown, with
 * status 500. All that a session does runs in one thread, for locks belong to threads.
 */
abstract class Door {
    static final int PORT = 8080;

    private final Map<String, ExecutorService> sessions = new ConcurrentHashMap<>();

    /** Does something with the object of a name. */
    abstract Object run(String operation, String name, String value) throws Exception;

    void open(String address) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(address, PORT), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", this::answer);
        server.start();
        System.out.println("the door is open");
    }

    private void answer(HttpExchange exchange) throws IOException {
        String[] words = exchange.getRequestURI().getPath().split("/");
        String value = words.length > 4 ? words[4] : null;
        int status = 200;
        String result;
        try {
            ExecutorService thread =
                sessions.computeIfAbsent(words[1], session -> Executors.newSingleThreadExecutor());
            result = String.valueOf(thread.submit(() -> run(words[2], words[3], value)).get());
        } catch (ExecutionException | InterruptedException | RuntimeException error) {
            status = 500;
            result = String.valueOf(error.getCause() == null ? error : error.getCause());
        }
        byte[] bytes = result.getBytes("UTF-8");
        exchange.sendResponseHeaders(status, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }
}
