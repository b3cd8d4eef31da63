// What Kafka itself makes of bytes: reads cases from the input, one a line, and writes kafka-4.3.1-answers.jsonl to the output.
//   record KEY VALUE     GroupCoordinatorRecordSerde and the JSON converters of kafka-dump-log (VALUE "-" for a tombstone)
//   subscription BYTES   what ClassicGroup.computeSubscribedTopics does with a member's subscription
//   text BYTES           new String(bytes, UTF_8)
// All bytes in hex. Run it with the jars of that release: java -cp 'jars/*' RecordSerde.java < cases > kafka-4.3.1-answers.jsonl

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.protocol.types.SchemaException;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;

public class RecordSerde {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ", -1);
            ObjectNode answer = JSON.createObjectNode().put("case", words[0]);
            for (int i = 1; i < words.length; i++) {
                answer.put(i == 1 ? "bytes" : "value", words[i].equals("-") ? null : words[i]);
            }
            try {
                read(words, answer);
            } catch (Exception e) {
                answer.put("error", e.getClass().getSimpleName() + ": " + e.getMessage());
            }
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
    }

    static void read(String[] words, ObjectNode answer) {
        byte[] bytes = HexFormat.of().parseHex(words[1]);
        switch (words[0]) {
            case "text" -> answer.put("answer", new String(bytes, StandardCharsets.UTF_8));
            case "subscription" -> {
                ByteBuffer buffer = ByteBuffer.wrap(bytes);
                try {
                    ConsumerProtocol.deserializeVersion(buffer);
                    var topics = ConsumerProtocol.deserializeConsumerProtocolSubscription(buffer, (short) 0).topics();
                    answer.putPOJO("answer", topics);
                } catch (SchemaException e) { // computeSubscribedTopics gives up quietly
                    answer.putNull("answer");
                }
            }
            default -> {
                ByteBuffer value = words[2].equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(words[2]));
                CoordinatorRecord record = new GroupCoordinatorRecordSerde().deserialize(ByteBuffer.wrap(bytes), value);
                ObjectNode both = answer.putObject("answer").put("type", record.key().apiKey());
                both.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
                if (record.value() != null) {
                    short version = record.value().version();
                    both.put("version", version);
                    both.set("value", CoordinatorRecordJsonConverters.writeRecordValueAsJson(record.value().message(), version));
                }
            }
        }
    }
}
