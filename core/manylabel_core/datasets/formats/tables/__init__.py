"""Tables, such as CSV files.

`table` reads them twice. `lines` finds the separator, the names and the rows, and `roles` the columns with labels.
`column_scan` counts the kinds of the cells of each column, `column_kinds` decides the kind of the column, and
`label_cells` how its cells list labels. `values` reads the rows. `counts` counts the labels, and `quotes` finds quotes
that are not closed.
"""
