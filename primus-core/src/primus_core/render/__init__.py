"""Tables, charts and the pages that hold them, as data, and what they look like in each format.

A report builds a `primus_core.render.pages.Page` of paragraphs, `primus_core.render.tables.Table` and
`primus_core.render.charts.Chart`. Only `primus_core.render.drawing` needs a library, of the extra ``[report]``.
"""
