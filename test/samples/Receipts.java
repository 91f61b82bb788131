// Writes a receipt, which takes 20 ms. Instrumented by the OpenTelemetry Java agent alone.
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

public class Receipts {
    public static void main(String[] args) throws Exception {
        var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT")));
        var server = HttpServer.create(address, 0);
        server.createContext("/receipts", exchange -> {
            try (exchange) {
                Thread.sleep(20);
                exchange.sendResponseHeaders(204, -1);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
            System.out.println("ok");
        });
        server.start();
    }
}
