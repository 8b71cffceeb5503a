"""What strangers may ask: the documented views, by functions that only calculate.

`readonly` keeps statements of people who may read the database from writing. A page is open to
everybody on the network, so its statements may not read tokens, files of the server or other
databases either, and may not take locks or run SQL that hides in a string.

SQLite asks an authorizer about each column while it compiles a statement. The name of the view
that a column is read for is no proof, for a common table expression may have the name of a view:
what counts is that the views read this column of this table themselves (`reader.guard`). Of
PostgreSQL's statements, `postgresql_reader` looks at the stored form.
"""

from __future__ import annotations

from vkbench_db import schema

MOST_ROWS = 10_000
MOST_SECONDS = 10.0
MOST_BYTES = 2**20  # of one value
VIEWS = tuple(sorted(schema.VIEWS.tables))
ONLY_VIEWS = f"only the views {', '.join(VIEWS)} can be queried here"
