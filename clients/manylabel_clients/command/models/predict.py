"""`manylabel predict`: labels of examples."""

from typing import Annotated

import click

from manylabel_clients.command.data.files import Ignore, LabelColumns, Separator, TableOptions, Tags, Text
from manylabel_clients.command.declaring import Commands, Option
from manylabel_clients.command.inputs import chunks, placed, read_items
from manylabel_clients.command.options import DEFAULT_URL, ApiKeyFile, AsJson, BatchSize, Input, ModelName, Url, connect
from manylabel_clients.command.output.models import label_texts, print_explanations, print_prediction
from manylabel_clients.command.output.text import print_json
from manylabel_clients.http.resources.predictions import Prediction


def register(app: Commands) -> None:
    """Add the command."""
    app.add(predict)


def predict(
    model: ModelName,
    source: Input = "-",
    labels: LabelColumns = None,
    tags: Tags = None,
    separator: Separator = None,
    ignore: Ignore = None,
    text: Text = None,
    batch_size: BatchSize = 64,
    probabilities: Annotated[bool, Option("--probabilities", help="Say how likely each label is, too.")] = False,
    explain: Annotated[
        int, Option("--explain", min=0, max=100, help="Number of features named for each label, and against it.")
    ] = 0,
    top: Annotated[int | None, Option("--top", min=1, help="Number of labels to show, the best first.")] = None,
    only: Annotated[
        list[str] | None, Option("--only", help="Predict this label alone, or labels that begin so: 'role::*'.")
    ] = None,
    except_: Annotated[
        list[str] | None, Option("--except", help="Leave out this label, or labels that begin so.")
    ] = None,
    keep: Annotated[
        bool, Option("--keep", help="Have the server keep what it answers, for `manylabel label` later.")
    ] = False,
    keep_record: Annotated[
        bool, Option("--keep-record", help="As --keep, with the example itself, to show to who labels it.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    api_key: ApiKeyFile = None,
) -> None:
    """Predict the labels of examples: a table for one, a line for each of many.

    With --probabilities, a line says how likely each label in it is; with --keep, it begins with the id of the answer.
    With --explain, a table says of each label predicted what speaks for it, and what against it. --only and --except
    may be repeated.

    Example: `manylabel predict tags '{"x": {"word=cat": 1}}'`
    """
    done = 0
    with connect(url, api_key) as client:
        for chunk in chunks(read_items(source, False, labels, TableOptions(tags, separator, ignore, text)), batch_size):
            with placed(chunk):
                xs = [item.x for item in chunk]
                predictions = client.model(model).predict_many(
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
            click.echo(f"kept as {prediction.id}")
        print_prediction(prediction)
    else:
        kept = "" if prediction.id is None else f"{prediction.id}  "
        click.echo(kept + ", ".join(label_texts(prediction)))
    if not as_json:
        print_explanations(prediction)
