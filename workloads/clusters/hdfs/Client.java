import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DFSClient;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.FSConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.protocol.FSConstants.SafeModeAction;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.hdfs.server.protocol.NamenodeProtocol;
import org.apache.hadoop.ipc.RPC;

/**
 * Clients and check of HDFS 0.20.2.
 *
 * <pre>
 * Client work write|append|reboot   does the work once, and prints a history
 * Client look                       on SIGTERM it reads every file, and looks at every replica
 * Client check ACKS                 says ok, or what is broken
 * </pre>
 *
 * A file is made of pieces. The value of a history is the text of their letters: "a" was written, "b"
 * appended, "ab" is read. Lines that are of no history say what rules look at: `writes FILE`, and `wrote FILE`
 * or `failed FILE WORDS`; of the last look `block FILE NUMBER BLOCK LENGTH`, `replica FILE NUMBER ADDRESS HASH`
 * and `bad FILE NUMBER ADDRESS WORDS`, then `looked FILE`, and in the end `looked at all`. Each `dfs` line is
 * one of HDFS's own client.
 */
public class Client {
    /** A piece has so many records of 16 bytes: two blocks, of which the second is not full. */
    static final int RECORDS = 6250;
    static final int RECORD = 16;
    static final String FOLDER = "/files/";
    static final int DATA_NODES = 3;
    /** How long the cluster may take to come to itself when nothing is broken any more. */
    static final long SETTLES_WITHIN_MS = 30_000;
    /** And for that many replicas of what was written. */
    static final long REPLICATED_WITHIN_MS = 30_000;
    /** Which waits until the name node takes the writer for gone. */
    static final long RECOVERED_WITHIN_MS = 90_000;
    static final int REBOOT_PORT = 7100;

    final Configuration conf = new Configuration();
    long process = 0;
    /** Nothing more is worked on. */
    boolean isOver = false;

    public static void main(String[] words) throws Exception {
        Client client = new Client();
        switch (words[0]) {
            case "work": client.work(words[1]); break;
            case "look": client.waitAndLook(); break;
            case "check": client.check(words[1]); break;
            default: throw new IllegalArgumentException(words[0]);
        }
        System.out.flush();
        // Threads of HDFS's client may still wait for somebody.
        Runtime.getRuntime().halt(0);
    }

    // ---- the work ----

    void work(String what) throws Exception {
        isOver = !settles();
        switch (what) {
            case "write": writes(0, 4); break;
            case "append": appends(); break;
            case "reboot": reboots(); break;
            default: throw new IllegalArgumentException(what);
        }
    }

    void writes(int from, int to) throws InterruptedException {
        for (int number = from; number < to && !isOver; number++) {
            change("write", "w" + number, "a");
        }
    }

    void appends() throws InterruptedException {
        for (int number = 0; number < 2 && !isOver; number++) {
            String key = "a" + number;
            boolean isKnown = change("write", key, "a");
            for (String piece : new String[] {"b", "c"}) {
                isKnown = isKnown && change("append", key, piece);
            }
        }
    }

    /** The name node is rebooted, once in the middle of a checkpoint that its secondary has begun. */
    void reboots() throws Exception {
        writes(0, 2);
        try {
            rollEdits();
            System.out.println("a checkpoint has begun");
        } catch (IOException error) {
            System.out.println("no checkpoint has begun: " + said(error));
        }
        writes(2, 3);
        reboot(3);
        writes(3, 4);
        reboot(4);
        writes(4, 5);
    }

    void reboot(int files) throws InterruptedException {
        if (isOver) {
            return;
        }
        InetSocketAddress address = new InetSocketAddress(NameNode.getAddress(conf).getAddress(), REBOOT_PORT);
        try (Socket socket = new Socket()) {
            socket.connect(address, 2000);
            socket.getInputStream().read();
        } catch (IOException error) {
            System.out.println("nobody reboots: " + said(error));
        }
        isOver = isOver || !settles();
        for (int number = 0; number < files && !isOver; number++) {
            read("w" + number);
        }
    }

    /** What a secondary name node asks for first. */
    void rollEdits() throws IOException {
        InetSocketAddress address = NameNode.getAddress(conf);
        NamenodeProtocol name = (NamenodeProtocol)
            RPC.getProxy(NamenodeProtocol.class, NamenodeProtocol.versionID, address, conf);
        name.rollEditLog();
    }

    /** Writes or appends a piece, and reads it back. Whether it was acknowledged. If it failed and the cluster
     * does not come to itself either, the work is over. */
    boolean change(String f, String key, String piece) throws InterruptedException {
        System.out.println("writes " + key);
        say("invoke", f, key, quoted(piece), null);
        try {
            put(f, new Path(FOLDER + key), piece.charAt(0));
        } catch (IOException | RuntimeException error) {
            say("info", f, key, quoted(piece), said(error));
            System.out.println("failed " + key + " " + said(error));
            process += 10;
            isOver = !settles();
            return false;
        }
        say("ok", f, key, quoted(piece), null);
        System.out.println("wrote " + key);
        read(key);
        return true;
    }

    void put(String f, Path path, char piece) throws IOException {
        FileSystem files = FileSystem.get(conf);
        OutputStream out = f.equals("append") ? files.append(path) : files.create(path, false);
        for (int record = 0; record < RECORDS; record++) {
            out.write(record(piece, record));
        }
        out.close();
    }

    /** Reads a file. Its value, or null if it cannot be read. */
    String read(String key) {
        say("invoke", "read", key, "null", null);
        try {
            String value = valueOf(key);
            say("ok", "read", key, value.isEmpty() ? "null" : quoted(value), null);
            return value;
        } catch (IOException | RuntimeException error) {
            say("fail", "read", key, "null", said(error));
            return null;
        }
    }

    String valueOf(String key) throws IOException {
        Path path = new Path(FOLDER + key);
        FileSystem files = FileSystem.get(conf);
        if (!files.exists(path)) {
            return "";
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (InputStream in = files.open(path)) {
            copy(in, bytes);
        }
        return pieces(bytes.toByteArray());
    }

    // ---- what is in a file ----

    static byte[] record(char piece, int number) {
        return String.format("%c %013d\n", piece, number).getBytes();
    }

    /** The letters of the pieces that are whole. The beginning of a piece at the end is left out: who was
     * told of a failure may find some of what he wrote. */
    static String pieces(byte[] bytes) {
        StringBuilder found = new StringBuilder();
        int place = 0;
        while (place < bytes.length) {
            char piece = (char) bytes[place];
            for (int number = 0; number < RECORDS; number++, place += RECORD) {
                byte[] record = record(piece, number);
                int length = Math.min(RECORD, bytes.length - place);
                for (int at = 0; at < length; at++) {
                    if (bytes[place + at] != record[at]) {
                        return found + "?" + (place + at);
                    }
                }
                if (length < RECORD) {
                    return found.toString();
                }
            }
            found.append(piece);
        }
        return found.toString();
    }

    static void copy(InputStream in, OutputStream out) throws IOException {
        byte[] buffer = new byte[1 << 16];
        for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
            out.write(buffer, 0, read);
        }
    }

    // ---- the last look ----

    void waitAndLook() throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        sun.misc.Signal.handle(new sun.misc.Signal("TERM"), signal -> asked.countDown());
        while (asked.getCount() > 0) {
            say("invoke", "read", "nothing", "null", null);
            try {
                FileSystem.get(conf).exists(new Path("/nothing"));
                say("ok", "read", "nothing", "null", null);
            } catch (IOException | RuntimeException error) {
                say("fail", "read", "nothing", "null", said(error));
            }
            asked.await(500, java.util.concurrent.TimeUnit.MILLISECONDS);
        }
        if (!settles()) {
            System.out.println("not settled");
            return;
        }
        DFSClient client = new DFSClient(NameNode.getAddress(conf), conf);
        FileStatus[] files = FileSystem.get(conf).listStatus(new Path(FOLDER));
        long until = System.currentTimeMillis() + REPLICATED_WITHIN_MS;
        for (FileStatus file : files == null ? new FileStatus[0] : files) {
            look(client, file.getPath().getName(), file.getLen(), until);
        }
        System.out.println("looked at all");
    }

    /** Until the name node takes writes, and knows what room there is on all data nodes: one that has only
     * registered gets no blocks. Whether it did in time. */
    boolean settles() throws InterruptedException {
        long until = System.currentTimeMillis() + SETTLES_WITHIN_MS;
        while (System.currentTimeMillis() < until) {
            try {
                DFSClient client = new DFSClient(NameNode.getAddress(conf), conf);
                boolean isSafe = client.setSafeMode(SafeModeAction.SAFEMODE_GET);
                int ready = 0;
                for (DatanodeInfo node : client.datanodeReport(DatanodeReportType.LIVE)) {
                    ready += node.getRemaining() > 0 ? 1 : 0;
                }
                client.close();
                if (!isSafe && ready == DATA_NODES) {
                    return true;
                }
            } catch (IOException error) {
                // It is not there yet.
            }
            Thread.sleep(300);
        }
        return false;
    }

    /** Reads a file, and each replica of its blocks: again, as long as there are too few good ones. */
    void look(DFSClient client, String key, long length, long until) throws Exception {
        if (read(key) == null) {
            recover(key);
            read(key);
        }
        List<String> lines = replicas(client, key, length);
        while (lines.contains("few") && System.currentTimeMillis() < until) {
            Thread.sleep(500);
            lines = replicas(client, key, length);
        }
        for (String line : lines) {
            if (!line.equals("few")) {
                System.out.println(line);
            }
        }
        System.out.println("looked " + key);
    }

    /** Whoever opens a file again whose writer is gone for a minute has its last block recovered. */
    void recover(String key) throws InterruptedException {
        long until = System.currentTimeMillis() + RECOVERED_WITHIN_MS;
        while (System.currentTimeMillis() < until) {
            try {
                FileSystem.get(conf).append(new Path(FOLDER + key)).close();
                return;
            } catch (IOException | RuntimeException error) {
                System.out.println("recovers " + key + ": " + said(error));
            }
            Thread.sleep(5000);
        }
    }

    List<String> replicas(DFSClient client, String key, long length) throws IOException {
        List<String> lines = new ArrayList<>();
        List<LocatedBlock> blocks =
            client.namenode.getBlockLocations(FOLDER + key, 0, Math.max(length, 1)).getLocatedBlocks();
        for (int number = 0; number < blocks.size(); number++) {
            LocatedBlock block = blocks.get(number);
            String name = key + " " + number;
            lines.add("block " + name + " " + block.getBlock() + " " + block.getBlockSize()
                + (block.isCorrupt() ? " corrupt" : ""));
            TreeSet<String> good = new TreeSet<>();
            for (DatanodeInfo node : block.getLocations()) {
                try {
                    lines.add("replica " + name + " " + node.getHost() + " " + hash(block, node));
                    good.add(node.getHost());
                } catch (IOException | RuntimeException error) {
                    lines.add("bad " + name + " " + node.getHost() + " " + said(error));
                }
            }
            if (good.size() < DATA_NODES) {
                lines.add("few");
            }
        }
        return lines;
    }

    /** What one data node has of a block, if its checksums are right. */
    String hash(LocatedBlock block, DatanodeInfo node) throws IOException {
        String[] address = node.getName().split(":");
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(address[0], Integer.parseInt(address[1])), 5000);
            socket.setSoTimeout(5000);
            long length = block.getBlockSize();
            DFSClient.BlockReader reader = DFSClient.BlockReader.newBlockReader(socket, "look",
                block.getBlock().getBlockId(), block.getBlock().getGenerationStamp(), 0, length, 4096);
            byte[] bytes = new byte[(int) length];
            int read = reader.readAll(bytes, 0, bytes.length);
            if (read != bytes.length) {
                throw new IOException("it has " + read + " of " + length + " bytes");
            }
            CRC32 hash = new CRC32();
            hash.update(bytes);
            return Long.toHexString(hash.getValue());
        }
    }

    // ---- the check ----

    void check(String acks) throws Exception {
        if (!settles()) {
            System.out.println("broken the name node and three data nodes are not there");
            return;
        }
        for (Map.Entry<String, String> entry : acknowledged(acks).entrySet()) {
            String found;
            try {
                found = valueOf(entry.getKey());
            } catch (IOException | RuntimeException error) {
                System.out.println("broken " + entry.getKey() + " cannot be read: " + said(error));
                return;
            }
            if (!found.startsWith(entry.getValue())) {
                System.out.println("broken " + entry.getKey() + " has \"" + found + "\", and \""
                    + entry.getValue() + "\" was acknowledged");
                return;
            }
        }
        String key = "check" + System.nanoTime();
        try {
            put("write", new Path("/" + key), 'a');
        } catch (IOException | RuntimeException error) {
            System.out.println("broken nothing can be written: " + said(error));
            return;
        }
        System.out.println("ok");
    }

    /** What of each file was acknowledged. */
    static Map<String, String> acknowledged(String acks) throws IOException {
        Map<String, String> found = new LinkedHashMap<>();
        Pattern done = Pattern.compile(
            "\"type\":\"ok\",.*\"f\":\"(write|append)\",\"key\":\"([^\"]*)\",\"value\":\"([^\"]*)\"");
        try (BufferedReader lines = new BufferedReader(new FileReader(acks))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                Matcher matcher = done.matcher(line);
                if (matcher.find()) {
                    found.merge(matcher.group(2), matcher.group(3), String::concat);
                }
            }
        }
        return found;
    }

    // ---- what is printed ----

    void say(String type, String f, String key, String value, String error) {
        System.out.println("{\"type\":\"" + type + "\",\"process\":" + process + ",\"f\":\"" + f
            + "\",\"key\":\"" + key + "\",\"value\":" + value
            + (error == null ? "" : ",\"error\":" + quoted(error)) + "}");
    }

    static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    static String said(Exception error) {
        String words = String.valueOf(error).split("\n")[0].replaceAll("[\\x00-\\x1f]", " ");
        return words.length() > 200 ? words.substring(0, 200) : words;
    }
}
