//! The small open set of error kinds that travel.

macro_rules! kinds {
    ($($number:literal $name:ident $prefix:literal $doc:literal;)*) => {
        /// Which variant of `DataFusionError` (or of `ArrowError` inside it) an error was. Numbers
        /// are part of the wire protocol; one that isn't known here is kept as it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $(#[doc = $doc] $name,)*
            /// A kind of a newer peer.
            Unknown(u32),
        }

        impl ErrorKind {
            /// Every kind that this version knows.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The kind's number on the wire.
            pub fn number(self) -> u32 {
                match self {
                    $(Self::$name => $number,)*
                    Self::Unknown(number) => number,
                }
            }

            /// The kind with this number.
            pub fn from_number(number: u32) -> Self {
                match number {
                    $($number => Self::$name,)*
                    other => Self::Unknown(other),
                }
            }

            /// What DataFusion writes in front of such an error's text.
            pub fn prefix(self) -> &'static str {
                match self {
                    $(Self::$name => $prefix,)*
                    Self::Unknown(_) => "",
                }
            }
        }
    };
}

kinds! {
    1 Internal "Internal error: " "A bug: of DataFusion, of Tributary, or a panic.";
    2 Plan "Error during planning: " "The query is wrong.";
    3 Configuration "Invalid or Unsupported Configuration: " "An option is wrong or missing.";
    4 NotImplemented "This feature is not implemented: " "A part of the query isn't supported.";
    5 Execution "Execution error: " "The query failed on its data.";
    6 ResourcesExhausted "Resources exhausted: " "Memory, disk or another limit was reached.";
    7 Schema "Schema error: " "A column isn't there or is ambiguous.";
    8 Sql "SQL error: " "SQL that can't be parsed.";
    9 Io "IO error: " "The operating system's error.";
    10 ObjectStore "Object Store error: " "An object store's error.";
    11 Parquet "Parquet error: " "A parquet file can't be read or written.";
    12 External "External error: " "An error of foreign code.";
    13 Substrait "Substrait error: " "A Substrait plan's error.";
    14 Ffi "FFI error: " "An error across a language boundary.";
    15 Join "Join error: " "A task of the runtime failed.";
    24 Timeout "" "The deadline passed at a worker.";
    25 Unavailable "" "A worker could not reach another one.";
    26 Overloaded "" "A worker had too much to do.";
    32 Arrow "Arrow error: " "An Arrow error of a kind without a number of its own.";
    33 ArrowDivideByZero "Arrow error: " "Division by zero.";
    34 ArrowOverflow "Arrow error: Arithmetic overflow: " "Arithmetic overflow.";
    35 ArrowCast "Arrow error: Cast error: " "A value can't be cast.";
    36 ArrowCompute "Arrow error: Compute error: " "A kernel failed.";
    37 ArrowInvalidArgument "Arrow error: Invalid argument error: " "A kernel refused its input.";
    38 ArrowParse "Arrow error: Parser error: " "A text can't be parsed.";
    39 ArrowCsv "Arrow error: Csv error: " "A CSV file can't be read.";
    40 ArrowJson "Arrow error: Json error: " "A JSON file can't be read.";
    41 ArrowSchema "Arrow error: Schema error: " "A batch doesn't have its schema.";
    42 ArrowMemory "Arrow error: Memory error: " "Arrow could not allocate.";
    43 ArrowNotImplemented "Arrow error: Not yet implemented: " "Arrow doesn't support it.";
}
