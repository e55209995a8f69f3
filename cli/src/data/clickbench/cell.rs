//! What a value is made of: numbers of its own, and facts about its row that several columns share.

use super::random::{chance, choose, mix, random, rank};

/// The place of a value: a row of `hits` and one of its columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    /// From 0, over all files.
    pub(super) row: u64,
    /// From 0.
    pub(super) column: u64,
}

/// The counter that most queries ask for.
const BUSY_COUNTER: i32 = 62;

/// The user whom a query asks for.
const KNOWN_USER: i64 = 435_090_932_899_640_449;

/// The hash of the page that a query asks for.
pub(super) const HOME_PAGE: i64 = 2_868_770_270_353_813_622;

/// The hash of the referring page that a query asks for.
pub(super) const BUSY_REFERER: i64 = 3_594_120_000_172_545_465;

/// The hash of no referring page.
pub(super) const NO_REFERER: i64 = 0;

/// 2013-06-29, some days before the month that the queries ask for.
const FIRST_DAY: u64 = 15_885;

/// To 2013-08-02.
const N_DAYS: u64 = 35;

/// 2013-07-14, which the last query asks for together with the day after it.
const BUSY_DAY: u64 = 15_900;

/// Codes and names of phones.
const PHONES: &[(i16, &str)] = &[
    (7, "iPhone 4S"),
    (7, "iPad"),
    (6, "Galaxy S III GT-I9300"),
    (6, "Galaxy Note II GT-N7100"),
    (5, "Lumia 920"),
    (5, "Lumia 520"),
    (11, "Xperia Z"),
    (26, "One X"),
    (70, "Desire"),
    (11, "Xperia ion LT28h"),
    (6, "Galaxy Tab 2 GT-P5100"),
];

/// The windows of browsers that fill a screen.
const WINDOWS: &[(i16, i16)] =
    &[(1366, 667), (1920, 979), (1280, 899), (1280, 705), (1024, 673), (1440, 799)];

/// Things that are drawn once for a row or a user. Columns have the numbers below these.
#[derive(Debug, Clone, Copy)]
enum Topic {
    User = 1_000,
    UserId,
    Region,
    Address,
    Phone,
    Counter,
    Page,
    PageHash,
    Referer,
    RefererHash,
    Day,
    Second,
    Phrase,
    Window,
}

impl Topic {
    fn of(self, idx: u64) -> u64 {
        random(self as u64, idx)
    }
}

/// Numbers of this cell alone.
impl Cell {
    /// Any number.
    pub(super) fn number(self) -> u64 {
        random(self.column, self.row)
    }

    /// True for one value of a hundred, if the column has NULLs.
    pub(super) fn is_null(self) -> bool {
        chance(mix(self.number()), 1)
    }

    /// 1 as often as in that many of a hundred rows, else 0.
    pub(super) fn flag(self, percent: u64) -> i16 {
        i16::from(chance(self.number(), percent))
    }

    /// A rank below 2^`n_octaves`, low ones often; at most 15 octaves.
    pub(super) fn small(self, n_octaves: u32) -> i16 {
        rank(self.number(), n_octaves) as i16
    }

    /// A rank below 2^`n_octaves`, low ones often; at most 31 octaves.
    pub(super) fn large(self, n_octaves: u32) -> i32 {
        rank(self.number(), n_octaves) as i32
    }

    /// Any number of 32 bits.
    pub(super) fn any_i32(self) -> i32 {
        self.number() as i32
    }

    /// Any number of 64 bits.
    pub(super) fn any_i64(self) -> i64 {
        self.number() as i64
    }

    /// One of a list, the first ones often.
    pub(super) fn one_of(self, list: &[i16]) -> i16 {
        choose(list, self.number())
    }

    /// One of a list in that many of a hundred rows, else 0.
    pub(super) fn rarely_one_of(self, percent: u64, list: &[i16]) -> i16 {
        if chance(self.number(), percent) { choose(list, mix(self.number())) } else { 0 }
    }
}

/// Facts about the row.
impl Cell {
    /// The user, by how many hits they have; the first one has the most.
    fn user(self) -> u64 {
        rank(Topic::User.of(self.row), 17)
    }

    /// The user's number.
    pub(super) fn user_id(self) -> i64 {
        let user = self.user();
        if user == 20 {
            return KNOWN_USER;
        }
        // Mostly positive, as in ClickBench, so that their average isn't the rest of a cancellation.
        let id = (Topic::UserId.of(user) >> 1) as i64;
        if user % 8 == 7 { -id } else { id }
    }

    /// A user stays in one region.
    pub(super) fn region(self) -> i32 {
        229 + 13 * rank(Topic::Region.of(self.user()), 10) as i32
    }

    /// A user has three addresses.
    pub(super) fn client_ip(self) -> i32 {
        Topic::Address.of(self.user() * 3 + self.number() % 3) as i32
    }

    /// The code and the name of the user's phone, 0 and nothing for most users.
    pub(super) fn phone(self) -> (i16, &'static str) {
        let phone = Topic::Phone.of(self.user());
        if chance(phone, 9) { choose(PHONES, mix(phone)) } else { (0, "") }
    }

    /// The site.
    pub(super) fn counter(self) -> i32 {
        let counter = Topic::Counter.of(self.row);
        if chance(counter, 45) { BUSY_COUNTER } else { 100 + 7 * rank(mix(counter), 12) as i32 }
    }

    /// The page, by the hash of its address. One page has nearly half of the hits on the busy counter;
    /// a query skips 10,000 different windows that showed it.
    pub(super) fn page(self) -> i64 {
        let counter = self.counter();
        let page = Topic::Page.of(self.row);
        if counter == BUSY_COUNTER && chance(page, 45) {
            return HOME_PAGE;
        }
        let site = u64::from(counter.unsigned_abs()) << 32;
        Topic::PageHash.of(site + rank(mix(page), 17)) as i64
    }

    /// The page that led here, by the hash of its address.
    pub(super) fn referer(self) -> i64 {
        let referer = Topic::Referer.of(self.row);
        match referer % 100 {
            0..20 => NO_REFERER,
            20..45 => BUSY_REFERER,
            _ => Topic::RefererHash.of(rank(mix(referer), 16)) as i64,
        }
    }

    /// The day, since 1970. A fifth of the hits are on two days: a query skips 1,000 minutes of these.
    pub(super) fn event_date(self) -> i32 {
        let day = Topic::Day.of(self.row);
        let (first, n_days) = if chance(day, 20) { (BUSY_DAY, 2) } else { (FIRST_DAY, N_DAYS) };
        (first + mix(day) % n_days) as i32
    }

    /// In seconds since 1970.
    pub(super) fn event_time(self) -> i64 {
        const DAY: u64 = 24 * 60 * 60;
        i64::from(self.event_date()) * DAY as i64 + (Topic::Second.of(self.row) % DAY) as i64
    }

    /// A time near that of the row, on a clock that may be wrong or in another time zone.
    pub(super) fn other_time(self) -> i64 {
        let n_hours = (self.number() % 12) as i64;
        self.event_time() + n_hours * 60 * 60 + (mix(self.number()) % 60) as i64
    }

    /// What was searched for, by how often it is; `None` for most rows.
    pub(super) fn phrase(self) -> Option<u64> {
        let phrase = Topic::Phrase.of(self.row);
        chance(phrase, 18).then(|| rank(mix(phrase), 13))
    }

    /// The number of the search engine, 0 where nothing was searched for.
    pub(super) fn search_engine(self) -> i16 {
        self.phrase().map_or(0, |_| self.one_of(&[2, 3, 13, 31, 49, 60, 90]))
    }

    /// Width and height of the window. Most are a user's own, so that there are many.
    pub(super) fn window(self) -> (i16, i16) {
        let window = Topic::Window.of(self.row);
        let size = mix(window);
        if chance(window, 20) {
            return choose(WINDOWS, size);
        }
        (300 + (size % 1_600) as i16, 200 + ((size >> 32) % 900) as i16)
    }
}
