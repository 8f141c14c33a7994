import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;

/**
 * Clients and check of HDFS 3.3.1 with a standby.
 *
 * <pre>
 * Client work         does the work once, and prints a history
 * Client look         on SIGTERM it reads every file
 * Client check ACKS   says ok, or what is broken
 * </pre>
 *
 * A file is made of pieces. The value of a history is the text of their letters: "a" was written, "b" appended,
 * "ab" is read. The last look also prints `looked at all`, or `not settled`, for rules.
 */
public class Client {
    /** A piece has so many records of 16 bytes. */
    static final int RECORDS = 1000;
    static final int RECORD = 16;
    static final String FOLDER = "/files/";
    static final int FILES = 6;
    static final int DATA_NODES = 3;
    /** How long the cluster may take to come to itself when nothing is broken any more. */
    static final long SETTLES_WITHIN_MS = 60_000;
    /** Which waits until the name node takes a writer for gone. */
    static final long RECOVERED_WITHIN_MS = 90_000;

    final Configuration conf = new Configuration();
    long process = 0;
    /** Nothing more is worked on. */
    boolean isOver = false;

    public static void main(String[] words) throws Exception {
        Client client = new Client();
        switch (words[0]) {
            case "work": client.work(); break;
            case "look": client.waitAndLook(); break;
            case "check": client.check(words[1]); break;
            default: throw new IllegalArgumentException(words[0]);
        }
        System.out.flush();
        // Threads of HDFS's client may still wait for somebody.
        Runtime.getRuntime().halt(0);
    }

    DistributedFileSystem files() throws IOException {
        return (DistributedFileSystem) FileSystem.get(conf);
    }

    // ---- the work ----

    void work() throws Exception {
        isOver = !settles();
        for (int number = 0; number < FILES; number++) {
            String key = "w" + number;
            if (!isOver && change("write", key, "a")) {
                change("append", key, "b");
            }
        }
    }

    /** Writes or appends a piece, and reads it back. Whether it was acknowledged. If it failed and the cluster
     * does not come to itself either, the work is over. */
    boolean change(String f, String key, String piece) throws InterruptedException {
        say("invoke", f, key, quoted(piece), null);
        try {
            put(f, new Path(FOLDER + key), piece.charAt(0));
        } catch (IOException | RuntimeException error) {
            say("info", f, key, quoted(piece), said(error));
            process += 10;
            isOver = !settles();
            return false;
        }
        say("ok", f, key, quoted(piece), null);
        read(key);
        return true;
    }

    void put(String f, Path path, char piece) throws IOException {
        DistributedFileSystem files = files();
        OutputStream out = f.equals("append") ? files.append(path) : files.create(path, false);
        for (int record = 0; record < RECORDS; record++) {
            out.write(record(piece, record));
        }
        out.close();
    }

    /** Reads a file. Whether that was possible. */
    boolean read(String key) {
        say("invoke", "read", key, "null", null);
        try {
            String value = valueOf(key);
            say("ok", "read", key, value.isEmpty() ? "null" : quoted(value), null);
            return true;
        } catch (IOException | RuntimeException error) {
            say("fail", "read", key, "null", said(error));
            return false;
        }
    }

    String valueOf(String key) throws IOException {
        Path path = new Path(FOLDER + key);
        DistributedFileSystem files = files();
        if (!files.exists(path)) {
            return "";
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (InputStream in = files.open(path)) {
            byte[] buffer = new byte[1 << 16];
            for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                bytes.write(buffer, 0, read);
            }
        }
        return pieces(bytes.toByteArray());
    }

    // ---- what is in a file ----

    static byte[] record(char piece, int number) {
        return String.format("%c %013d\n", piece, number).getBytes();
    }

    /** The letters of the pieces that are whole. The beginning of a piece at the end is left out: who was told of
     * a failure may find some of what he wrote. */
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

    // ---- the last look ----

    void waitAndLook() throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        sun.misc.Signal.handle(new sun.misc.Signal("TERM"), signal -> asked.countDown());
        while (asked.getCount() > 0) {
            read("nothing");
            asked.await(500, TimeUnit.MILLISECONDS);
        }
        if (!settles()) {
            System.out.println("not settled");
            return;
        }
        for (FileStatus file : files().listStatus(new Path("/"))) {
            if (file.isDirectory() && FOLDER.equals(file.getPath().toUri().getPath() + "/")) {
                lookAtAll();
            }
        }
        System.out.println("looked at all");
    }

    void lookAtAll() throws Exception {
        for (FileStatus file : files().listStatus(new Path(FOLDER))) {
            String key = file.getPath().getName();
            if (!read(key)) {
                recover(key);
                read(key);
            }
        }
    }

    /** The last block of a file is recovered whose writer is gone. */
    void recover(String key) throws InterruptedException {
        long until = System.currentTimeMillis() + RECOVERED_WITHIN_MS;
        while (System.currentTimeMillis() < until) {
            try {
                if (files().recoverLease(new Path(FOLDER + key))) {
                    return;
                }
            } catch (IOException | RuntimeException error) {
                System.out.println("recovers " + key + ": " + said(error));
            }
            Thread.sleep(2000);
        }
    }

    /** Until a name node is active and takes writes, and knows what room there is on all data nodes. Whether it did
     * in time. */
    boolean settles() throws InterruptedException {
        long until = System.currentTimeMillis() + SETTLES_WITHIN_MS;
        while (System.currentTimeMillis() < until) {
            try (DistributedFileSystem files = files()) {
                boolean isSafe = files.setSafeMode(SafeModeAction.SAFEMODE_GET, true);
                int ready = 0;
                for (DatanodeInfo node : files.getDataNodeStats(DatanodeReportType.LIVE)) {
                    ready += node.getRemaining() > 0 ? 1 : 0;
                }
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

    // ---- the check ----

    void check(String acks) throws Exception {
        if (!settles()) {
            System.out.println("broken no name node is active, or it does not know three data nodes");
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
        try {
            put("write", new Path("/check" + System.nanoTime()), 'a');
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
