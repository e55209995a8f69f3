//! Short files, as literal text: most of them are about the format itself.

use std::path::Path;

use datafusion::error::Result;

use super::write_file;

/// Writes the files of this module.
pub(super) fn write(root: &Path) -> Result<()> {
    let data = root.join("datafusion/core/tests/data");
    for (name, content) in FILES {
        write_file(&data.join(name), content)?;
    }
    write_file(&data.join("quote.csv"), quoted(|i| format!("~id{i}~,~value{i}~")))?;
    write_file(&data.join("escape.csv"), quoted(|i| format!("id{i},\"value\\\"{i}\"")))?;
    write_file(&data.join("aggregate_simple.csv"), aggregate_simple(','))?;
    write_file(&data.join("aggregate_simple_pipe.csv"), aggregate_simple('|'))?;
    for number in 0..4 {
        let name = format!("partitioned_csv/partition-{number}.csv");
        write_file(&data.join(name), numbered(number))?;
    }
    Ok(())
}

/// Below `datafusion/core/tests/data`.
const FILES: &[(&str, &str)] = &[
    ("empty.csv", "c1,c2,c3\n"),
    ("example.csv", "a,b,c\n1,2,3\n"),
    ("double_quote.csv", DOUBLE_QUOTE),
    ("cr_terminator.csv", "c1,c2\rid0,value0\rid1,value1\rid2,value2\rid3,value3\r"),
    ("newlines_in_values.csv", NEWLINES_IN_VALUES),
    ("timestamps.csv", TIMESTAMPS),
    ("partitioned_table/c_date=2018-11-13/timestamps.csv", TIMESTAMPS),
    ("partitioned_table/c_date=2018-12-13/timestamps.csv", TIMESTAMPS),
    ("decimal_data.csv", DECIMAL_DATA),
    ("aggregate_agg_multi_order.csv", MULTI_ORDER),
    ("convert_first_last.csv", "c1,c2,c3\n1,9,2\n2,8,4\n3,7,5\n4,6,7\n5,4,11\n6,3,12\n7,1,15\n"),
    // Neighbours that are one value as FLOAT.
    ("int_to_float_cast_precision.csv", "k,v\n1,16777217\n2,16777216\n"),
    ("2.json", TWO_JSON),
    ("3.json", "{\"mycol\":null}\n"),
    ("json_array.json", JSON_ARRAY),
    (
        "partitioned_table_json/part=1/data.json",
        "{\"id\":1,\"value\":\"foo\"}\n{\"id\":2,\"value\":\"bar\"}\n",
    ),
    (
        "partitioned_table_json/part=2/data.json",
        "{\"id\":3,\"value\":\"baz\"}\n{\"id\":4,\"value\":\"qux\"}\n",
    ),
    ("recursive_cte/balance.csv", BALANCE),
    ("recursive_cte/growth.csv", "name,account_growth\nJohn,3\nTim,20\n"),
    ("recursive_cte/sales.csv", SALES),
    ("recursive_cte/salespersons.csv", SALESPERSONS),
    // 1, 2 and 4 are a loop.
    ("recursive_cte/closure.csv", "start,end\n1,2\n2,3\n2,4\n4,1\n"),
];

const DOUBLE_QUOTE: &str = "\
c1,c2
id0,\"\"\"value0\"\"\"
id1,\"\"\"value1\"\"\"
id2,\"\"\"value2\"\"\"
id3,\"\"\"value3\"\"\"
";

const NEWLINES_IN_VALUES: &str = "\
id,message
1,\"hello
world\"
2,\"something
else\"
3,\"
many
lines
make
good test
\"
4,unquoted
value,end
";

/// Without a header, and sorted down by both columns, as some tables declare.
const TIMESTAMPS: &str = "\
Jorge,2018-12-13T12:12:10.011Z
Andrew,2018-11-13T17:11:10.011Z
";

/// `c1` is above `c5` in some rows; both are equal in others.
const DECIMAL_DATA: &str = "\
c1,c2,c3,c4,c5
0.00001,0.000000000001,1,true,0.000014
0.00002,0.000000000002,2,true,0.000025
0.00002,0.000000000002,3,false,0.000019
0.00003,0.000000000003,4,true,0.000032
0.00003,0.000000000003,5,false,0.000035
0.00003,0.000000000003,5,true,0.000011
0.00004,0.000000000004,5,true,0.000044
0.00004,0.000000000004,12,false,0.000040
0.00004,0.000000000004,14,true,0.000040
0.00004,0.000000000004,8,false,0.000044
0.00005,0.000000000005,9,true,0.000052
0.00005,0.000000000005,4,true,0.000078
0.00005,0.000000000005,8,false,0.000033
0.00005,0.000000000005,100,true,0.000068
0.00005,0.000000000005,1,false,0.000100
";

/// `c2` alone does not order the rows.
const MULTI_ORDER: &str = "\
c1,c2,c3
1,10,11
2,10,12
3,10,13
4,10,14
5,20,6
6,20,7
7,20,8
8,20,9
9,20,10
10,10,15
";

const TWO_JSON: &str = r#"{"a":1,"b":2.0,"c":false,"d":"4"}
{"a":-10,"b":-3.5,"c":true,"d":"4"}
{"a":2,"b":0.6,"c":false,"d":"text"}
{"a":1,"b":2.0,"c":false,"d":"4"}
{"a":7,"b":-3.5,"c":true,"d":"4"}
{"a":1,"b":0.6,"c":false,"d":"text"}
{"a":1,"b":2.0,"c":false,"d":"4"}
{"a":5,"b":-3.5,"c":true,"d":"4"}
{"a":1,"b":0.6,"c":false,"d":"text"}
{"a":1,"b":2.0,"c":false,"d":"4"}
{"a":1,"b":-3.5,"c":true,"d":"4"}
{"a":100000000000000,"b":0.6,"c":false,"d":"text"}
"#;

const JSON_ARRAY: &str = r#"[
    {"a": 1, "b": "hello"},
    {"a": 2, "b": "world"},
    {"a": 3, "b": "test"}
]
"#;

const BALANCE: &str = "\
time,name,account_balance
1,John,100
1,Tim,200
2,John,300
2,Tim,400
";

/// Some of them sold twice.
const SALES: &str = "\
salesperson_id,sale_amount
4,300
4,400
5,600
6,500
7,400
7,500
";

/// A tree of three levels; the head has no manager.
const SALESPERSONS: &str = "\
salesperson_id,manager_id
1,
2,1
3,1
4,2
5,2
6,3
7,3
";

/// Ten rows below a header.
fn quoted(row: impl Fn(i32) -> String) -> String {
    let rows = (0..10).map(|i| row(i) + "\n");
    format!("c1,c2\n{}", rows.collect::<String>())
}

/// Each of the numbers 1 to 5 as often as it says.
fn aggregate_simple(delimiter: char) -> String {
    let d = delimiter;
    let rows = (1..=5).flat_map(|n| (0..n).map(move |_| n));
    let rows = rows.map(|n| format!("0.0000{n}{d}0.00000000000{n}{d}{}\n", n % 2 == 1));
    format!("c1{d}c2{d}c3\n{}", rows.collect::<String>())
}

/// 11 rows that begin with the number of their file, without a header.
fn numbered(file: i32) -> String {
    (0..11).map(|i| format!("{file},{i},{}\n", i % 2 == 0)).collect()
}
