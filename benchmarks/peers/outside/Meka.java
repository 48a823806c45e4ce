import java.lang.management.ManagementFactory;
import java.util.StringJoiner;
import meka.classifiers.multilabel.MultiLabelClassifier;
import weka.core.Instances;
import weka.core.Utils;
import weka.core.converters.ConverterUtils.DataSource;

/** A learner of MEKA: a line of scores for each row of the second file, then the seconds to learn and to score. */
public class Meka {
    public static void main(String[] args) throws Exception {
        Instances train = DataSource.read(args[0]), other = DataSource.read(args[1]);
        int n = Integer.parseInt(args[2]);
        train.setClassIndex(n); // MEKA's labels are the columns before the class
        other.setClassIndex(n);
        String[] options = Utils.splitOptions(args[3]);
        String name = options[0];
        options[0] = "";
        MultiLabelClassifier learner = (MultiLabelClassifier) Utils.forName(MultiLabelClassifier.class, name, options);
        double began = seconds();
        learner.buildClassifier(train);
        double learnt = seconds();
        for (int i = 0; i < other.numInstances(); i++) {
            double[] scores = learner.distributionForInstance(other.instance(i));
            StringJoiner line = new StringJoiner(" ");
            for (int j = 0; j < n; j++) line.add(Double.toString(scores[j]));
            System.out.println(line);
        }
        System.out.println((learnt - began) + " " + (seconds() - learnt));
    }

    private static double seconds() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() * 1e-9;
    }
}
