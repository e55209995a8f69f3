//! The columns of `hits`, as ClickBench has them, and how each gets its values.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Int16Array, Int32Array, Int64Array, StringArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::cell::Cell;
use super::text::{self, numbered, word};

use Kind::{Date, Int16, Int32, Int64, Text};

/// The schema of the table. Strings may be NULL, which they may not in ClickBench: its queries are to
/// meet NULLs too.
pub(super) fn schema() -> SchemaRef {
    let field =
        |(name, kind): &(&str, Kind)| Field::new(*name, kind.data_type(), matches!(kind, Text(_)));
    Arc::new(Schema::new(COLUMNS.iter().map(field).collect::<Vec<_>>()))
}

/// All columns of some rows, in the schema's order.
pub(super) fn arrays(rows: &Range<u64>) -> Vec<ArrayRef> {
    let columns = (0..).zip(COLUMNS);
    columns.map(|(column, (_, kind))| kind.array(column, rows.clone())).collect()
}

/// The type of a column, and what makes its values.
#[derive(Clone, Copy)]
enum Kind {
    Int16(fn(Cell) -> i16),
    Int32(fn(Cell) -> i32),
    Int64(fn(Cell) -> i64),
    /// Days since 1970. ClickBench's files have them as UInt16, and its queries, which compare them with
    /// dates, run over a view that casts them. Here a folder is a table without a view, so the file has
    /// what that view would give.
    Date(fn(Cell) -> i32),
    Text(fn(Cell) -> String),
}

impl Kind {
    fn data_type(self) -> DataType {
        match self {
            Int16(_) => DataType::Int16,
            Int32(_) => DataType::Int32,
            Int64(_) => DataType::Int64,
            Date(_) => DataType::Date32,
            Text(_) => DataType::Utf8,
        }
    }

    fn array(self, column: u64, rows: Range<u64>) -> ArrayRef {
        let cells = rows.map(|row| Cell { row, column });
        match self {
            Int16(value) => Arc::new(Int16Array::from_iter_values(cells.map(value))),
            Int32(value) => Arc::new(Int32Array::from_iter_values(cells.map(value))),
            Int64(value) => Arc::new(Int64Array::from_iter_values(cells.map(value))),
            Date(value) => Arc::new(Date32Array::from_iter_values(cells.map(value))),
            Text(value) => {
                let values = cells.map(|cell| (!cell.is_null()).then(|| value(cell)));
                Arc::new(values.collect::<StringArray>())
            }
        }
    }
}

const ADV_ENGINES: &[i16] = &[2, 27, 13, 45, 44, 3, 62];
const TRAFFIC_SOURCES: &[i16] = &[0, -1, 6, 1, 2, 3, 4, 5, 7, 8, 9];
const WIDTHS: &[i16] = &[1366, 1920, 1280, 1024, 1440, 1600, 1680, 0];
const HEIGHTS: &[i16] = &[768, 1080, 1024, 900, 1050, 0];
const LANGUAGES: &[&str] = &["ru", "en", "uk", "tr", "de"];
const COUNTRIES: &[&str] = &["RU", "US", "UA", "TR", "DE"];
const NETWORKS: &[&str] = &["vkontakte", "facebook", "twitter"];

/// The names and types are ClickBench's.
const COLUMNS: &[(&str, Kind)] = &[
    ("WatchID", Int64(Cell::any_i64)),
    ("JavaEnable", Int16(|c| c.flag(70))),
    ("Title", Text(text::title)),
    ("GoodEvent", Int16(|_| 1)),
    ("EventTime", Int64(Cell::event_time)),
    ("EventDate", Date(Cell::event_date)),
    ("CounterID", Int32(Cell::counter)),
    ("ClientIP", Int32(Cell::client_ip)),
    ("RegionID", Int32(Cell::region)),
    ("UserID", Int64(Cell::user_id)),
    ("CounterClass", Int16(|c| c.small(2))),
    ("OS", Int16(|c| c.small(6))),
    ("UserAgent", Int16(|c| c.small(5))),
    ("URL", Text(text::url)),
    ("Referer", Text(text::referer)),
    ("IsRefresh", Int16(|c| c.flag(10))),
    ("RefererCategoryID", Int16(|c| c.small(13))),
    ("RefererRegionID", Int32(|c| c.large(9))),
    ("URLCategoryID", Int16(|c| c.small(13))),
    ("URLRegionID", Int32(|c| c.large(9))),
    ("ResolutionWidth", Int16(|c| c.one_of(WIDTHS))),
    ("ResolutionHeight", Int16(|c| c.one_of(HEIGHTS))),
    ("ResolutionDepth", Int16(|c| c.one_of(&[24, 32, 16, 0]))),
    ("FlashMajor", Int16(|c| c.one_of(&[11, 10, 0, 9]))),
    ("FlashMinor", Int16(|c| c.small(3))),
    ("FlashMinor2", Text(|c| numbered(c, 60, ""))),
    ("NetMajor", Int16(|c| c.small(2))),
    ("NetMinor", Int16(|c| c.small(2))),
    ("UserAgentMajor", Int16(|c| c.small(5))),
    ("UserAgentMinor", Text(|c| word(c, 90, &["0", "1", "0.15", "5m", "h"]))),
    ("CookieEnable", Int16(|c| c.flag(98))),
    ("JavascriptEnable", Int16(|c| c.flag(99))),
    ("IsMobile", Int16(|c| i16::from(c.phone().0 != 0))),
    ("MobilePhone", Int16(|c| c.phone().0)),
    ("MobilePhoneModel", Text(text::phone_model)),
    ("Params", Text(|c| numbered(c, 5, "{\"page\": {\"kind\": \"item\"}, \"id\": "))),
    ("IPNetworkID", Int32(|c| c.large(22))),
    ("TraficSourceID", Int16(|c| c.one_of(TRAFFIC_SOURCES))),
    ("SearchEngineID", Int16(Cell::search_engine)),
    ("SearchPhrase", Text(text::search_phrase)),
    ("AdvEngineID", Int16(|c| c.rarely_one_of(4, ADV_ENGINES))),
    ("IsArtifical", Int16(|c| c.flag(1))),
    ("WindowClientWidth", Int16(|c| c.window().0)),
    ("WindowClientHeight", Int16(|c| c.window().1)),
    ("ClientTimeZone", Int16(|c| c.one_of(&[-240, -180, -300, -360, 0, 60]))),
    ("ClientEventTime", Int64(Cell::other_time)),
    ("SilverlightVersion1", Int16(|c| c.rarely_one_of(60, &[5, 4]))),
    ("SilverlightVersion2", Int16(|c| c.flag(60))),
    ("SilverlightVersion3", Int32(|c| c.large(16))),
    ("SilverlightVersion4", Int16(|_| 0)),
    ("PageCharset", Text(|c| word(c, 97, &["windows", "utf-8", "windows-1251", "koi8-r"]))),
    ("CodeVersion", Int32(|c| c.large(11))),
    ("IsLink", Int16(|c| c.flag(25))),
    ("IsDownload", Int16(|c| c.flag(2))),
    ("IsNotBounce", Int16(|c| c.flag(40))),
    ("FUniqID", Int64(Cell::any_i64)),
    ("OriginalURL", Text(|c| numbered(c, 10, "http://site62.example.ru/original/page-"))),
    ("HID", Int32(Cell::any_i32)),
    ("IsOldCounter", Int16(|_| 0)),
    ("IsEvent", Int16(|c| c.flag(3))),
    ("IsParameter", Int16(|c| c.flag(3))),
    ("DontCountHits", Int16(|c| c.flag(5))),
    ("WithHash", Int16(|c| c.flag(4))),
    ("HitColor", Text(|c| word(c, 100, &["5", "S", "E", "P", "F"]))),
    ("LocalEventTime", Int64(Cell::other_time)),
    ("Age", Int16(|c| c.one_of(&[0, 22, 31, 16, 50, 41]))),
    ("Sex", Int16(|c| c.small(2))),
    ("Income", Int16(|c| c.small(3))),
    ("Interests", Int16(|c| c.small(14))),
    ("Robotness", Int16(|c| c.small(5))),
    ("RemoteIP", Int32(Cell::any_i32)),
    ("WindowName", Int32(|c| c.large(14))),
    ("OpenerName", Int32(|c| c.large(14))),
    ("HistoryLength", Int16(|c| c.small(5))),
    ("BrowserLanguage", Text(|c| word(c, 99, LANGUAGES))),
    ("BrowserCountry", Text(|c| word(c, 99, COUNTRIES))),
    ("SocialNetwork", Text(|c| word(c, 2, NETWORKS))),
    ("SocialAction", Text(|c| word(c, 2, &["share", "like"]))),
    ("HTTPError", Int16(|c| c.rarely_one_of(1, &[404, 500, 403]))),
    ("SendTiming", Int32(|c| c.large(10))),
    ("DNSTiming", Int32(|c| c.large(9))),
    ("ConnectTiming", Int32(|c| c.large(11))),
    ("ResponseStartTiming", Int32(|c| c.large(13))),
    ("ResponseEndTiming", Int32(|c| c.large(14))),
    ("FetchTiming", Int32(|c| c.large(15))),
    ("SocialSourceNetworkID", Int16(|c| c.rarely_one_of(3, &[5, 12, 7]))),
    ("SocialSourcePage", Text(|c| numbered(c, 3, "http://social.example.net/wall/"))),
    ("ParamPrice", Int64(|c| i64::from(c.rarely_one_of(2, &[990, 1490, 12_900])))),
    ("ParamOrderID", Text(|c| numbered(c, 2, "order-"))),
    ("ParamCurrency", Text(|c| word(c, 2, &["RUB", "USD", "NH\u{1c}"]))),
    ("ParamCurrencyID", Int16(|c| c.rarely_one_of(2, &[643, 840]))),
    ("OpenstatServiceName", Text(|c| word(c, 4, &["direct.example.ru", "begun"]))),
    ("OpenstatCampaignID", Text(|c| numbered(c, 4, ""))),
    ("OpenstatAdID", Text(|c| numbered(c, 4, ""))),
    ("OpenstatSourceID", Text(|c| numbered(c, 4, "search.example.ru:premium:"))),
    ("UTMSource", Text(|c| word(c, 5, &["search_direct", "newsletter", "banner"]))),
    ("UTMMedium", Text(|c| word(c, 5, &["cpc", "email"]))),
    ("UTMCampaign", Text(|c| numbered(c, 5, "summer_campaign_"))),
    ("UTMContent", Text(|c| numbered(c, 3, "content_"))),
    ("UTMTerm", Text(|c| word(c, 3, &["купить", "cars"]))),
    ("FromTag", Text(|c| word(c, 1, &["main", "sidebar"]))),
    ("HasGCLID", Int16(|c| c.flag(2))),
    ("RefererHash", Int64(Cell::referer)),
    ("URLHash", Int64(Cell::page)),
    ("CLID", Int32(|c| c.large(10))),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_columns_are_those_of_clickbench() {
        let schema = schema();
        let names: BTreeSet<_> = schema.fields().iter().map(|field| field.name()).collect();
        assert_eq!((schema.fields().len(), names.len()), (105, 105));
        let count = |wanted: DataType| {
            schema.fields().iter().filter(|field| *field.data_type() == wanted).count()
        };
        let numbers = [DataType::Int16, DataType::Int32, DataType::Int64, DataType::Date32];
        assert_eq!(numbers.map(count), [48, 19, 9, 1]);
        assert!(
            schema.fields().iter().all(|f| f.is_nullable() == (*f.data_type() == DataType::Utf8))
        );
    }
}
