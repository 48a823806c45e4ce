import com.yahoo.labs.samoa.instances.MultiLabelInstance;
import com.yahoo.labs.samoa.instances.Prediction;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import moa.classifiers.MultiLabelLearner;
import moa.core.InstanceExample;
import moa.options.ClassOption;
import moa.streams.MultiTargetArffFileStream;

/** A multi-label learner of MOA on a file: a line of 0 and 1 for each example before it was learnt, then the seconds. */
public class Prequential {
    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // learners print too
        MultiTargetArffFileStream stream = new MultiTargetArffFileStream(args[0], args[1]);
        stream.prepareForUse();
        MultiLabelLearner learner =
            (MultiLabelLearner) ClassOption.cliStringToObject(args[2], MultiLabelLearner.class, null);
        learner.prepareForUse();
        learner.setModelContext(stream.getHeader());
        int n = Integer.parseInt(args[1]);
        double limit = Double.parseDouble(args[3]), spent = 0.0;
        while (stream.hasMoreInstances() && spent < limit) {
            InstanceExample example = (InstanceExample) stream.nextInstance();
            MultiLabelInstance instance = (MultiLabelInstance) example.getData();
            long began = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            Prediction prediction = learner.getPredictionForInstance(example);
            learner.trainOnInstance(example);
            spent += 1e-9 * (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - began);
            StringBuilder line = new StringBuilder();
            for (int j = 0; j < n; j++) line.append(predicted(prediction, j) ? '1' : '0');
            out.println(line);
        }
        out.println(spent);
    }

    /** A label without a vote is not predicted. */
    private static boolean predicted(Prediction prediction, int label) {
        if (prediction == null || label >= prediction.numOutputAttributes()) return false;
        if (prediction.numClasses(label) <= 1) return prediction.getVote(label, 0) > 0.5;
        return prediction.getVote(label, 1) > prediction.getVote(label, 0);
    }
}
