//! Ten rows of ClickBench's `hits`, with all of its columns.

use std::path::Path;

use datafusion::error::Result;
use datafusion::prelude::SessionContext;

use super::copy;

/// Writes `clickbench_hits_10.parquet`.
///
/// The queries of ClickBench end with `ORDER BY a count LIMIT 10`. Ten rows have no more groups
/// than that, and the values are such that the counts of a query differ.
pub(super) async fn write(ctx: &SessionContext, root: &Path) -> Result<()> {
    let file = root.join("datafusion/core/tests/data/clickbench_hits_10.parquet");
    let columns: Vec<String> =
        COLUMNS.iter().enumerate().map(|(idx, column)| select_item(idx, column)).collect();
    let query = format!(
        "SELECT {} FROM (SELECT value AS v FROM generate_series(0, 9))",
        columns.join(", ")
    );
    copy(ctx, &file, "STORED AS PARQUET", &query).await
}

fn select_item(idx: usize, (name, data_type): &(&str, &str)) -> String {
    let value = match VALUES.iter().find(|(column, _)| column == name) {
        Some((_, value)) => (*value).to_owned(),
        None => other_value(idx, data_type),
    };
    format!("CAST({value} AS {data_type}) AS \"{name}\"")
}

/// Of a column that no query uses.
fn other_value(idx: usize, data_type: &str) -> String {
    if data_type == TEXT {
        format!("CASE WHEN (v + {idx}) % 3 = 0 THEN '' ELSE concat('t', (v + {idx}) % 5) END")
    } else {
        format!("(v + {idx}) * {idx} % 97")
    }
}

const TEXT: &str = "VARCHAR";
const I16: &str = "SMALLINT";
const I32: &str = "INT";
const I64: &str = "BIGINT";

/// What the queries filter, group and sort by. `v` is 0 to 9.
const VALUES: &[(&str, &str)] = &[
    ("WatchID", "CASE WHEN v < 4 THEN 7001 WHEN v < 6 THEN 7002 ELSE 8000 + v END"),
    ("JavaEnable", "CASE WHEN v < 7 THEN 0 ELSE 1 END"),
    (
        "Title",
        "CASE WHEN v < 4 THEN 'Google - search' WHEN v < 6 THEN 'The Google news' ELSE '' END",
    ),
    ("EventTime", "1373872580 + v * 37"),
    ("EventDate", "15901"),
    ("CounterID", "CASE WHEN v IN (5, 7, 9) THEN 17 ELSE 62 END"),
    (
        "ClientIP",
        "CASE WHEN v < 4 THEN 1568366281 WHEN v < 6 THEN -1216690514 ELSE 1615432634 + v END",
    ),
    ("RegionID", "CASE WHEN v < 5 THEN 229 WHEN v < 8 THEN 39 ELSE 197 END"),
    (
        "UserID",
        "CASE v WHEN 0 THEN -2461439046089301801 WHEN 1 THEN 376160620089546609 \
         WHEN 2 THEN 427738049800818189 WHEN 3 THEN -2461439046089301801 \
         WHEN 4 THEN 519640690937130534 WHEN 5 THEN 7418527520126366595 \
         WHEN 6 THEN 376160620089546609 WHEN 7 THEN 435090932899640449 \
         WHEN 8 THEN 519640690937130534 ELSE -2461439046089301801 END",
    ),
    (
        "URL",
        "CASE WHEN v IN (0, 1, 3) THEN 'http://www.google.com/search?resolution=2560&q=1' \
         WHEN v IN (2, 6) THEN 'http://example.org/a?resolution=800' \
         WHEN v = 4 THEN 'http://example.org/google' ELSE 'http://example.org/' END",
    ),
    (
        "Referer",
        "CASE WHEN v IN (1, 2) THEN 'https://www.example.com/campaign/spring_promo/1' \
         WHEN v = 3 THEN 'https://example.net/campaign/winter_promo/' ELSE '' END",
    ),
    ("IsRefresh", "CASE WHEN v IN (5, 8) THEN 1 ELSE 0 END"),
    ("ResolutionWidth", "1000 + v * 100"),
    ("IsMobile", "CASE WHEN v IN (1, 2, 4, 5) THEN 1 ELSE 0 END"),
    ("MobilePhone", "CASE WHEN v IN (1, 2, 5) THEN 7 WHEN v = 4 THEN 5 ELSE 0 END"),
    (
        "MobilePhoneModel",
        "CASE WHEN v IN (1, 2, 5) THEN 'iPhone 4' WHEN v = 4 THEN 'iPad' ELSE '' END",
    ),
    ("TraficSourceID", "CASE WHEN v IN (0, 3) THEN -1 WHEN v = 6 THEN 6 ELSE 0 END"),
    ("SearchEngineID", "CASE WHEN v < 4 THEN 2 WHEN v < 6 THEN 3 WHEN v = 6 THEN 2 ELSE 0 END"),
    (
        "SearchPhrase",
        "CASE WHEN v < 4 THEN 'cheap flights' WHEN v < 6 THEN 'weather' \
         WHEN v = 6 THEN 'news' ELSE '' END",
    ),
    ("AdvEngineID", "CASE WHEN v < 3 THEN 2 WHEN v < 5 THEN 6 ELSE 0 END"),
    ("WindowClientWidth", "800 + v % 3 * 100"),
    ("WindowClientHeight", "600 + v % 2 * 100"),
    ("ClientTimeZone", "v - 4"),
    ("ClientEventTime", "1373872580 + v * 41"),
    ("IsLink", "CASE WHEN v IN (0, 2, 3) THEN 1 ELSE 0 END"),
    ("IsDownload", "0"),
    ("DontCountHits", "CASE WHEN v = 9 THEN 1 ELSE 0 END"),
    ("HitColor", "CASE WHEN v % 3 = 0 THEN 'D' ELSE 'T' END"),
    ("LocalEventTime", "1373872580 + v * 43"),
    ("Age", "20 + v * 3"),
    ("BrowserLanguage", "CASE WHEN v < 6 THEN 'en' ELSE 'de' END"),
    ("BrowserCountry", "CASE WHEN v < 6 THEN 'US' ELSE 'DE' END"),
    (
        "SocialNetwork",
        "CASE v WHEN 0 THEN 'facebook' WHEN 1 THEN 'twitter' WHEN 2 THEN 'vk' ELSE '' END",
    ),
    ("SocialAction", "CASE WHEN v < 3 THEN 'share' ELSE '' END"),
    ("ResponseStartTiming", "v * v * 10 + 5"),
    ("SocialSourceNetworkID", "CASE WHEN v < 3 THEN 5 WHEN v < 5 THEN 12 ELSE 0 END"),
    ("ParamPrice", "v * v * 10"),
    ("UTMSource", "CASE WHEN v < 5 THEN 'spring' ELSE '' END"),
    ("UTMCampaign", "CASE WHEN v < 5 THEN 'sprint' ELSE 'autumn' END"),
    ("RefererHash", "CASE WHEN v < 6 THEN 3594120000172545465 ELSE v END"),
    ("URLHash", "CASE WHEN v < 5 THEN 2868770270353813622 ELSE v END"),
];

/// The columns in ClickBench's order, with their types.
#[rustfmt::skip]
const COLUMNS: &[(&str, &str)] = &[
    ("WatchID", I64), ("JavaEnable", I16), ("Title", TEXT), ("GoodEvent", I16),
    ("EventTime", I64), ("EventDate", "SMALLINT UNSIGNED"), ("CounterID", I32), ("ClientIP", I32),
    ("RegionID", I32), ("UserID", I64), ("CounterClass", I16), ("OS", I16),
    ("UserAgent", I16), ("URL", TEXT), ("Referer", TEXT), ("IsRefresh", I16),
    ("RefererCategoryID", I16), ("RefererRegionID", I32), ("URLCategoryID", I16),
    ("URLRegionID", I32), ("ResolutionWidth", I16), ("ResolutionHeight", I16),
    ("ResolutionDepth", I16), ("FlashMajor", I16), ("FlashMinor", I16), ("FlashMinor2", TEXT),
    ("NetMajor", I16), ("NetMinor", I16), ("UserAgentMajor", I16), ("UserAgentMinor", TEXT),
    ("CookieEnable", I16), ("JavascriptEnable", I16), ("IsMobile", I16), ("MobilePhone", I16),
    ("MobilePhoneModel", TEXT), ("Params", TEXT), ("IPNetworkID", I32), ("TraficSourceID", I16),
    ("SearchEngineID", I16), ("SearchPhrase", TEXT), ("AdvEngineID", I16), ("IsArtifical", I16),
    ("WindowClientWidth", I16), ("WindowClientHeight", I16), ("ClientTimeZone", I16),
    ("ClientEventTime", I64), ("SilverlightVersion1", I16), ("SilverlightVersion2", I16),
    ("SilverlightVersion3", I32), ("SilverlightVersion4", I16), ("PageCharset", TEXT),
    ("CodeVersion", I32), ("IsLink", I16), ("IsDownload", I16), ("IsNotBounce", I16),
    ("FUniqID", I64), ("OriginalURL", TEXT), ("HID", I32), ("IsOldCounter", I16), ("IsEvent", I16),
    ("IsParameter", I16), ("DontCountHits", I16), ("WithHash", I16), ("HitColor", TEXT),
    ("LocalEventTime", I64), ("Age", I16), ("Sex", I16), ("Income", I16), ("Interests", I16),
    ("Robotness", I16), ("RemoteIP", I32), ("WindowName", I32), ("OpenerName", I32),
    ("HistoryLength", I16), ("BrowserLanguage", TEXT), ("BrowserCountry", TEXT),
    ("SocialNetwork", TEXT), ("SocialAction", TEXT), ("HTTPError", I16), ("SendTiming", I32),
    ("DNSTiming", I32), ("ConnectTiming", I32), ("ResponseStartTiming", I32),
    ("ResponseEndTiming", I32), ("FetchTiming", I32), ("SocialSourceNetworkID", I16),
    ("SocialSourcePage", TEXT), ("ParamPrice", I64), ("ParamOrderID", TEXT),
    ("ParamCurrency", TEXT), ("ParamCurrencyID", I16), ("OpenstatServiceName", TEXT),
    ("OpenstatCampaignID", TEXT), ("OpenstatAdID", TEXT), ("OpenstatSourceID", TEXT),
    ("UTMSource", TEXT), ("UTMMedium", TEXT), ("UTMCampaign", TEXT), ("UTMContent", TEXT),
    ("UTMTerm", TEXT), ("FromTag", TEXT), ("HasGCLID", I16), ("RefererHash", I64),
    ("URLHash", I64), ("CLID", I32),
];
