//! The interactive shell: history, statements over several lines, Ctrl-C for the running one.

use std::fs;
use std::path::PathBuf;

use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use tokio::runtime::Runtime;

use crate::args::SqlArgs;
use crate::dirs;
use crate::error::{CliError, Result};
use crate::interrupt::Interrupt;
use crate::session::Backend;
use crate::sql::run_guarded;

const HELP: &str = r"Statements end with ; and may span lines. Ctrl-C cancels, Ctrl-D leaves.
  \d         list tables
  \d NAME    describe a table
  \?         this help
  \q         quit
SET distributed.x = y changes how queries are distributed; SHOW ALL lists every option.
EXPLAIN shows the stages of a query.";

/// Reads and runs statements until the user leaves. A failing statement doesn't end the shell.
pub(crate) fn run(
    mut editor: DefaultEditor,
    runtime: &Runtime,
    interrupt: &Interrupt,
    ctx: &SessionContext,
    backend: &Backend,
    args: &SqlArgs,
) -> Result<()> {
    let history = history_file();
    if let Some(file) = &history {
        // there is none before the first session
        let _ = editor.load_history(file);
    }
    println!("Tributary {}, {}. \\? for help.", env!("CARGO_PKG_VERSION"), backend.describe());
    let outcome = loop {
        let sql = match read(&mut editor) {
            Ok(Input::Sql(sql)) => sql,
            Ok(Input::Nothing) => continue,
            Ok(Input::Help) => {
                println!("{HELP}");
                continue;
            }
            Ok(Input::Quit) => break Ok(()),
            Err(e) => break Err(e),
        };
        match runtime.block_on(run_guarded(interrupt, ctx, backend, &sql, args)) {
            Err(error) if error.is_broken_pipe() => break Ok(()),
            Err(error) => eprintln!("error: {error}"),
            Ok(()) => {}
        }
    };
    if let Some(file) = &history
        && let Err(e) = editor.save_history(file)
    {
        eprintln!("warning: the history can't be saved to {}: {e}", file.display());
    }
    outcome
}

#[derive(Debug, PartialEq)]
enum Input {
    Sql(String),
    Help,
    Quit,
    Nothing,
}

/// Reads one command or statement, over as many lines as it takes.
fn read(editor: &mut DefaultEditor) -> Result<Input> {
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() { "tributary> " } else { "      ...> " };
        match editor.readline(prompt) {
            Ok(line) => {
                if text.is_empty()
                    && let Some(input) = command(&line)
                {
                    let _ = editor.add_history_entry(line);
                    return Ok(input);
                }
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&line);
            }
            Err(ReadlineError::Interrupted) => return Ok(Input::Nothing),
            Err(ReadlineError::Eof) => return Ok(Input::Quit),
            Err(e) => return Err(failed(e)),
        }
        if is_complete(&text) {
            let _ = editor.add_history_entry(text.trim());
            return Ok(Input::Sql(text));
        }
    }
}

/// What a line means before any statement was begun; `None` where it begins one.
fn command(line: &str) -> Option<Input> {
    let line = line.trim();
    Some(match line.trim_end_matches(';').trim_end() {
        "" => Input::Nothing,
        "\\q" | "quit" | "exit" => Input::Quit,
        "\\?" | "\\h" | "help" => Input::Help,
        "\\d" => Input::Sql("SHOW TABLES".to_string()),
        rest => {
            let table = rest.strip_prefix("\\d ").map(str::trim);
            match table {
                Some(table) => Input::Sql(format!("DESCRIBE {table}")),
                None if rest.starts_with('\\') => Input::Help,
                None => return None,
            }
        }
    })
}

/// True where the last token is a semicolon, one inside a string or a comment not counted.
fn is_complete(text: &str) -> bool {
    match Tokenizer::new(&GenericDialect {}, text).tokenize() {
        Ok(tokens) => {
            let last = tokens.iter().rev().find(|t| !matches!(t, Token::Whitespace(_)));
            last == Some(&Token::SemiColon)
        }
        // an open string or comment goes on; anything else is for the parser to explain
        Err(e) => {
            let is_open = e.message.contains("Unterminated") || e.message.contains("EOF");
            !is_open && text.trim_end().ends_with(';')
        }
    }
}

/// The line editor.
pub(crate) fn editor() -> Result<DefaultEditor> {
    DefaultEditor::with_config(Config::default()).map_err(failed)
}

fn history_file() -> Option<PathBuf> {
    let dir = dirs::state()?;
    fs::create_dir_all(&dir).ok()?;
    Some(dir.join("history"))
}

fn failed(error: ReadlineError) -> CliError {
    CliError::usage(format!("the terminal can't be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_at_its_semicolon() {
        assert!(is_complete("SELECT 1;"));
        assert!(is_complete("SELECT ';' ;  -- done"));
        assert!(!is_complete("SELECT 1"));
        assert!(!is_complete("SELECT ';"));
        assert!(!is_complete("SELECT 1 -- ;"));
        assert!(!is_complete("SELECT 1 /* ;"));
    }

    #[test]
    fn commands_start_with_a_backslash() {
        assert_eq!(command("\\q"), Some(Input::Quit));
        assert_eq!(command(" exit; "), Some(Input::Quit));
        assert_eq!(command("\\d"), Some(Input::Sql("SHOW TABLES".to_string())));
        assert_eq!(command("\\d t"), Some(Input::Sql("DESCRIBE t".to_string())));
        assert_eq!(command("\\nonsense"), Some(Input::Help));
        assert_eq!(command("SELECT 1"), None);
        assert_eq!(command("   "), Some(Input::Nothing));
    }
}
