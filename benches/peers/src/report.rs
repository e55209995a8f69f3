//! Markdown tables.

use std::fmt::Write;

/// A table whose first column is text and whose others are numbers.
#[derive(Debug)]
pub struct Table {
    text: String,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[&str]) -> Self {
        let mut text = row(columns);
        let lines =
            columns.iter().enumerate().map(|(nth, _)| if nth == 0 { "---" } else { "---:" });
        text.push_str(&row(&lines.collect::<Vec<_>>()));
        Self { text }
    }

    /// Adds a row.
    pub fn push(&mut self, cells: &[String]) {
        self.text.push_str(&row(cells));
    }

    /// The table's text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn row(cells: &[impl AsRef<str>]) -> String {
    let mut line = String::from("|");
    for cell in cells {
        // Writing to a string doesn't fail.
        let _ = write!(line, " {} |", cell.as_ref());
    }
    line.push('\n');
    line
}

/// A number with about three digits, or a dash for one that isn't known.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "–".to_owned(),
        0.0..0.0995 => format!("{value:.3}"),
        0.0..9.95 => format!("{value:.2}"),
        0.0..99.5 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_markdown() {
        let mut table = Table::new(&["a", "b"]);
        table.push(&["x".to_owned(), number(12.34)]);
        assert_eq!(table.text(), "| a | b |\n| --- | ---: |\n| x | 12.3 |\n");
        assert_eq!([1234.5, 1.234, 0.0123, f64::NAN].map(number), ["1234", "1.23", "0.012", "–"]);
    }
}
