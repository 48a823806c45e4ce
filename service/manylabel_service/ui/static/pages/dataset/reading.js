/** How a file is read: its format by its name, and the parameters of `POST /v1/datasets`, as they are written in a form. */

/** Format of a file by the ending of its name, without that of gzip. */
const FORMATS = {
  '.arff': 'arff', '.csv': 'csv', '.jsonl': 'ndjson', '.libsvm': 'libsvm', '.ndjson': 'ndjson', '.npz': 'npz',
  '.svm': 'libsvm', '.svmlight': 'libsvm', '.tsv': 'tsv',
};

/** Kinds that a column can be declared as, each a parameter that lists columns. */
export const KINDS = ['number', 'category', 'text', 'ignore'];

/** Parameters with what they mean. Two double quotes are the empty text. */
export const PARAMETERS = {
  tags: 'Column or field that lists the labels of a row.',
  label_columns: 'Or the columns of 0 and 1 that are a label each: their names, or their number at the end of the table.',
  separator: 'Separator of labels in a cell, such as ;. "" if a cell is one label. Default: what the column shows.',
  number: 'Columns that are numbers; their other cells are missing values.',
  category: 'Columns that are categories, such as zip codes.',
  text: 'Columns that are text.',
  ignore: 'Columns that are neither features nor labels.',
  names: 'Names of all columns, if the file has no line of names.',
  decimal: 'Decimal mark: . or a comma. Default: what the columns show.',
  missing: 'Cells that mean a missing value, such as NA, -9, instead of the usual words. "" for none but empty cells.',
  empty: 'Meaning of an empty cell of labels: unknown (default), or none.',
  encoding: 'Encoding of the file, such as cp1252 or latin-1. Default: UTF-8, or UTF-16 with its mark.',
  merge_alike: 'true: labels that differ only in case, spaces or Unicode form are one.',
  weight: 'Column with the weight of each row.',
};

/** Return the format of a file, null if its name says none. */
export function formatOf(fileName) {
  return FORMATS[/\.[a-z]+$/.exec(fileName.toLowerCase().replace(/\.gz$/, ''))?.[0]] ?? null;
}

/** Return a name for the dataset of a file: lower-case letters, digits, and dashes between them. */
export function nameFor(fileName) {
  return fileName.toLowerCase().replace(/(\.gz)?$/, '').replace(/\.[a-z]+$/, '').replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 63);
}

/** Return the parameters that are not empty, from the texts of a form by parameter. */
export function queryOf(texts) {
  const written = Object.entries(texts).filter(([, text]) => text !== '');
  return Object.fromEntries(written.map(([name, text]) => [name, text.trim() === '""' ? '' : text]));
}

/** Return the names in a line of CSV. */
export function namesOf(line) {
  const names = [...line.matchAll(/(?:^|,)(?:\s*"((?:[^"]|"")*)"\s*|([^,]*))/g)];
  return names.map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain.trim()).filter((name) => name !== '');
}

/** Return names as a line of CSV. */
export function lineOf(names) {
  return names.map((name) => (/[",\r\n]|^\s|\s$/.test(name) ? `"${name.replaceAll('"', '""')}"` : name)).join(',');
}

/** Change the texts of a form, so that a column is declared as a kind, or, with '', as none. */
export function declare(texts, column, kind) {
  for (const each of KINDS) {
    if (texts[each].startsWith('{')) continue; // all text options
    const others = namesOf(texts[each]).filter((name) => name !== column);
    texts[each] = lineOf(each === kind ? [...others, column] : others);
  }
}
