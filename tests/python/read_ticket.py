"""Reads one output of a worker's task as any Flight client would.

    read_ticket.py LOCATION TICKET_FILE OUT_FILE

Writes the rows to OUT_FILE as an Arrow IPC file and prints `read N rows`, or prints `failed`, the
error's class and its text.
"""

import sys

import pyarrow as pa
import pyarrow.flight as flight


def read(location, ticket):
    with flight.connect(location) as client:
        return client.do_get(flight.Ticket(ticket)).read_all()


def main(location, ticket_file, out_file):
    with open(ticket_file, "rb") as file:
        ticket = file.read()
    try:
        table = read(location, ticket)
    except pa.lib.ArrowException as error:
        print("failed", type(error).__name__, " ".join(str(error).split()))
        return
    # A file has one dictionary for each column, where a stream replaces it.
    table = table.unify_dictionaries()
    with pa.OSFile(out_file, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    print("read", table.num_rows, "rows")


if __name__ == "__main__":
    main(*sys.argv[1:])
