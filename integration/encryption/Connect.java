import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;

/** Connects with the URL given, and prints what a query returns. */
public class Connect {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0]);
                ResultSet rows = connection.createStatement().executeQuery("SELECT CURRENT_USER")) {
            rows.next();
            System.out.println(rows.getString(1));
        }
    }
}
