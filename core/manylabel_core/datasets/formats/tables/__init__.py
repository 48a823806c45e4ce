"""Tables, such as CSV files.

`table` reads them twice: `lines` finds the separator, the names and the rows, `roles` which columns have labels,
`column_scan` counts what the cells of each column are, `column_kinds` decides what the column is, `label_cells` how its
cells list labels, and `values` reads the rows. `counts` are those of the labels, and `quotes` finds quotes that are not
closed.
"""
