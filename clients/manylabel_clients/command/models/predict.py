"""`manylabel predict`: labels of examples."""

from typing import Annotated

import click

from manylabel_clients.command.data.files import PLAIN, LabelColumns, UnlabelledRowOptions, as_learnt
from manylabel_clients.command.declaring import Option
from manylabel_clients.command.inputs import chunks, placed, read_items
from manylabel_clients.command.options import AsJson, BatchSize, Input, ModelName, remote
from manylabel_clients.command.output.models import label_texts, print_explanations, print_prediction
from manylabel_clients.command.output.text import print_json
from manylabel_clients.http.client import Client
from manylabel_clients.http.responses import Prediction


@remote()
def predict(
    client: Client,
    model: ModelName,
    source: Input = "-",
    labels: LabelColumns = None,
    table: UnlabelledRowOptions = PLAIN,
    batch_size: BatchSize = 64,
    probabilities: Annotated[bool, Option(help="Show probabilities, too.")] = False,
    explain: Annotated[
        int, Option(min=0, max=100, help="Number of features for and against each predicted label.")
    ] = 0,
    top: Annotated[int | None, Option(min=1, help="Number of labels to show, best first.")] = None,
    only: Annotated[
        list[str] | None, Option(help="Only this label, or labels with a prefix: 'role::*'. Repeatable.")
    ] = None,
    except_: Annotated[
        list[str] | None, Option("--except", help="Omit this label, or labels with a prefix. Repeatable.")
    ] = None,
    keep: Annotated[bool, Option(help="Store the predictions for `manylabel label`.")] = False,
    keep_record: Annotated[
        bool, Option(help="Like --keep, and store the example itself for the person who labels it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict the labels of examples: print a table for one example, or a line for each of several.

    With --probabilities, a line has the probability of each label; with --keep, it begins with the id of the
    prediction. Names with commas, quotes or line breaks are JSON strings. With --explain, a table lists the features
    for and against each predicted label.

    Example: `manylabel predict tags '{"x": {"word=cat": 1}}'`
    """
    done, handle = 0, client.model(model)
    table = as_learnt(handle, source, labels, table)
    for chunk in chunks(read_items(source, False, labels, table), batch_size):
        with placed(chunk):
            xs = [item.x for item in chunk]
            predictions = handle.predict_many(
                xs,
                batch_size=len(xs),
                keep="record" if keep_record else keep,
                probabilities=probabilities,
                explain=explain,
                top=top,
                only=only or None,
                except_=except_ or None,
            )
        is_alone = done == 0 and len(chunk) == 1 < batch_size
        for prediction in predictions:
            _print(prediction, as_json, is_alone)
        done += len(chunk)


def _print(prediction: Prediction, as_json: bool, is_alone: bool) -> None:
    if as_json:
        print_json(prediction)
    elif is_alone:
        if prediction.id is not None:
            click.echo(f"stored as {prediction.id}")
        print_prediction(prediction)
    else:
        kept = "" if prediction.id is None else f"{prediction.id}  "
        click.echo(kept + ", ".join(label_texts(prediction)))
    if not as_json:
        print_explanations(prediction)
