import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/// Talks to itself while the virtual machine uses SIGSEGV for itself: null pointers that compiled code does
/// not test for, safepoints, stack overflows. Prints what it has counted.
public class Nulls {
    int value;

    static int read(Nulls object) {
        return object.value;
    }

    static int deep(int n) {
        return deep(n + 1) + 1;
    }

    static int nulls(int rounds) {
        int caught = 0;
        for (int i = 0; i < rounds; i++) {
            try {
                caught += read(i % 3 == 0 ? null : new Nulls());
            } catch (NullPointerException expected) {
                caught++;
            }
        }
        return caught;
    }

    public static void main(String[] arguments) throws Exception {
        ServerSocket listener = new ServerSocket(0, 8, InetAddress.getLoopbackAddress());
        List<Thread> threads = new ArrayList<>();
        int[] caught = new int[4];
        for (int t = 0; t < caught.length; t++) {
            int me = t;
            Socket here = new Socket(listener.getInetAddress(), listener.getLocalPort());
            Socket there = listener.accept();
            Thread echo = new Thread(() -> {
                try {
                    byte[] bytes = new byte[4096];
                    for (int n; (n = there.getInputStream().read(bytes)) > 0; )
                        there.getOutputStream().write(bytes, 0, n);
                } catch (Exception e) {
                    System.out.println(e);
                }
            });
            Thread talk = new Thread(() -> {
                try {
                    DataOutputStream out = new DataOutputStream(here.getOutputStream());
                    DataInputStream in = new DataInputStream(here.getInputStream());
                    for (int i = 0; i < 3000; i++) {
                        out.writeInt(i);
                        if (in.readInt() != i)
                            throw new IllegalStateException("a wrong number");
                        caught[me] += nulls(30);
                        if (i % 1000 == 0)
                            try {
                                deep(0);
                            } catch (StackOverflowError expected) {
                                caught[me]++;
                            }
                        if (i % 500 == 0)
                            System.gc();
                    }
                    here.close();
                } catch (Exception e) {
                    System.out.println(e);
                }
            });
            echo.start();
            talk.start();
            threads.add(echo);
            threads.add(talk);
        }
        for (Thread thread : threads)
            thread.join();
        int total = 0;
        for (int n : caught)
            total += n;
        System.out.println("caught " + total);
    }
}
