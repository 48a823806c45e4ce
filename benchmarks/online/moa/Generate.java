import com.yahoo.labs.samoa.instances.MultiLabelInstance;
import moa.options.ClassOption;
import moa.streams.MultiTargetInstanceStream;

/** The first examples of a multi-label stream of MOA: a line of labels and features for each. */
public class Generate {
    public static void main(String[] args) throws Exception {
        MultiTargetInstanceStream stream = (MultiTargetInstanceStream)
            ClassOption.cliStringToObject(args[0], MultiTargetInstanceStream.class, null);
        ((moa.options.OptionHandler) stream).prepareForUse();
        for (int i = 0; i < Integer.parseInt(args[1]); i++) {
            MultiLabelInstance x = (MultiLabelInstance) stream.nextInstance().getData();
            StringBuilder line = new StringBuilder();
            for (int j = 0; j < x.numberOutputTargets(); j++) line.append((int) x.valueOutputAttribute(j)).append(',');
            for (int j = 0; j < x.numInputAttributes(); j++) line.append(x.valueInputAttribute(j)).append(',');
            System.out.println(line.substring(0, line.length() - 1));
        }
    }
}
