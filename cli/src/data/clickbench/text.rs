//! The strings of `hits`: many begin alike, some are empty, some are not ASCII.

use super::cell::{BUSY_REFERER, Cell, HOME_PAGE, NO_REFERER};
use super::random::{chance, choose, mix};

const SECTIONS: &[&str] =
    &["catalog/used-cars", "news/2013/07", "forum/viewtopic", "realty/sale", "map", "user/profile"];

const HEADINGS: &[&str] = &[
    "Продажа автомобилей с пробегом",
    "Buy and sell used cars, page",
    "Новости дня",
    "Discussion board, topic",
    "Weather forecast for the week",
    "Квартиры в аренду без посредников",
];

/// Searched for most. Some are shorter than 12 bytes, which is what a string view holds itself.
const COMMON_PHRASES: &[&str] = &["погода", "карта", "cars", "cheap flights", "weather forecast"];

const QUESTIONS: &[&str] = &[
    "cheap flights from london to",
    "cheap flights from berlin to",
    "как правильно приготовить",
    "скачать бесплатно без регистрации",
    "weather forecast for tomorrow in",
];

const OBJECTS: &[&str] =
    &["paris", "москва", "google maps", "борщ", "new york", "istanbul", "музыка", "rome"];

/// Without `www.`, which a query takes off.
const REFERERS: &[&str] = &[
    "search.example.com",
    "search.example.ru",
    "mail.example.com",
    "news.example.org",
    "social.example.net",
    "forum.example.org",
    "images.search.example.com",
    "blog.example.net",
];

/// The address of the page. The queries look for `google` in it, with and without dots around it.
pub(super) fn url(cell: Cell) -> String {
    let (page, counter) = (cell.page(), cell.counter());
    if chance(cell.number(), 1) {
        return String::new();
    }
    if page == HOME_PAGE {
        return format!("http://site{counter}.example.ru/");
    }
    let item = page.unsigned_abs() % 1_000_000_007;
    match google(page) {
        Google::Host => format!("http://www.google.example/search?client=site{counter}&q={item}"),
        Google::Path => format!("http://site{counter}.example.ru/google-maps/place-{item}"),
        _ => {
            let section = choose(SECTIONS, mix(item));
            format!("http://site{counter}.example.ru/{section}/{item}.html?from=main")
        }
    }
}

/// The title of the page. Several pages share one.
pub(super) fn title(cell: Cell) -> String {
    if chance(cell.number(), 12) {
        return String::new();
    }
    let page = cell.page();
    if page == HOME_PAGE {
        return "Автомобили: продажа и обмен".to_string();
    }
    let item = mix(page.unsigned_abs());
    let (heading, number) = (choose(HEADINGS, item), mix(item) % 2_000);
    match google(page) {
        Google::No => format!("{heading} {number}"),
        _ => format!("{heading} {number} - Google"),
    }
}

/// The address of the page that led here.
pub(super) fn referer(cell: Cell) -> String {
    match cell.referer() {
        NO_REFERER => String::new(),
        BUSY_REFERER => "https://www.search.example.com/results?text=used+cars&lr=213".to_string(),
        hash => {
            let page = mix(hash.unsigned_abs());
            let host = choose(REFERERS, page);
            let item = mix(page);
            match item % 8 {
                // no slash after the host, so that the query's pattern doesn't match
                0 => format!("http://{host}"),
                1..4 => format!("https://www.{host}/page/{item}"),
                _ => format!("http://{host}/page/{item}"),
            }
        }
    }
}

/// What was searched for, empty in most rows.
pub(super) fn search_phrase(cell: Cell) -> String {
    let Some(rank) = cell.phrase() else {
        return String::new();
    };
    let common = usize::try_from(rank).ok().and_then(|rank| COMMON_PHRASES.get(rank));
    match common {
        Some(phrase) => (*phrase).to_string(),
        None => {
            let phrase = mix(rank);
            let (question, object) = (choose(QUESTIONS, phrase), choose(OBJECTS, mix(phrase)));
            format!("{question} {object} {rank}")
        }
    }
}

/// The name of the phone, empty in most rows.
pub(super) fn phone_model(cell: Cell) -> String {
    cell.phone().1.to_string()
}

/// One of a list in that many of a hundred rows, else nothing.
pub(super) fn word(cell: Cell, percent: u64, words: &[&str]) -> String {
    if chance(cell.number(), percent) {
        choose(words, mix(cell.number())).to_string()
    } else {
        String::new()
    }
}

/// A text with a number in that many of a hundred rows, else nothing.
pub(super) fn numbered(cell: Cell, percent: u64, prefix: &str) -> String {
    if chance(cell.number(), percent) {
        format!("{prefix}{}", mix(cell.number()) % 1_000)
    } else {
        String::new()
    }
}

/// Where a page names Google.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Google {
    /// In its host and its title.
    Host,
    /// In its path and its title.
    Path,
    /// In its title.
    Title,
    No,
}

fn google(page: i64) -> Google {
    match mix(page.unsigned_abs()) % 25 {
        0 => Google::Host,
        1 => Google::Path,
        2 => Google::Title,
        _ => Google::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_name_google_occurs() {
        for wanted in [Google::Host, Google::Path, Google::Title, Google::No] {
            let is_wanted = |row: &u64| {
                let cell = Cell { row: *row, column: 13 };
                cell.page() != HOME_PAGE && google(cell.page()) == wanted && !url(cell).is_empty()
            };
            let row = (0..1_000).find(is_wanted).expect("one of a thousand");
            let url = url(Cell { row, column: 13 });
            assert_eq!(url.contains(".google."), wanted == Google::Host, "{url}");
            let in_url = matches!(wanted, Google::Host | Google::Path);
            assert_eq!(url.contains("google"), in_url, "{url}");
            let title = (2..10).map(|column| title(Cell { row, column }));
            let title = title.max().unwrap_or_default();
            assert_eq!(title.contains("Google"), wanted != Google::No, "{title}");
        }
    }
}
