//! Values between two values.

use datafusion::common::ScalarValue;

/// `n` values at equal distances between two values of one type; `None` where it isn't known what is
/// between them, as with texts.
pub(super) fn between(min: &ScalarValue, max: &ScalarValue, n: usize) -> Option<Vec<ScalarValue>> {
    let n = n.max(1);
    (0..n).map(|nth| value_at(min, max, 2 * nth + 1, 2 * n)).collect()
}

/// The value at `nth / n` of the way.
fn value_at(min: &ScalarValue, max: &ScalarValue, nth: usize, n: usize) -> Option<ScalarValue> {
    if let Some((low, high)) = number(min).zip(number(max)) {
        let (nth, n) = (i128::try_from(nth).ok()?, i128::try_from(n).ok()?);
        // Both ends are values.
        let distance = high.checked_sub(low)?.checked_add(1)?;
        // Wide decimals lose the remainder instead of overflowing.
        let way = distance / n * nth + distance % n * nth / n;
        return with_number(min, low.checked_add(way)?);
    }
    let part = nth as f64 / n as f64;
    let mix = |low: f64, high: f64| low * (1.0 - part) + high * part;
    match (min, max) {
        (ScalarValue::Float64(Some(low)), ScalarValue::Float64(Some(high))) => {
            let value = mix(*low, *high);
            value.is_finite().then_some(ScalarValue::Float64(Some(value)))
        }
        (ScalarValue::Float32(Some(low)), ScalarValue::Float32(Some(high))) => {
            let value = mix(f64::from(*low), f64::from(*high)) as f32;
            value.is_finite().then_some(ScalarValue::Float32(Some(value)))
        }
        _ => None,
    }
}

/// The integer that a value is.
fn number(value: &ScalarValue) -> Option<i128> {
    use ScalarValue as Value;
    match value {
        Value::Int8(n) => n.map(i128::from),
        Value::Int16(n) => n.map(i128::from),
        Value::Int32(n)
        | Value::Date32(n)
        | Value::Time32Second(n)
        | Value::Time32Millisecond(n) => n.map(i128::from),
        Value::Int64(n)
        | Value::Date64(n)
        | Value::Time64Microsecond(n)
        | Value::Time64Nanosecond(n)
        | Value::TimestampSecond(n, _)
        | Value::TimestampMillisecond(n, _)
        | Value::TimestampMicrosecond(n, _)
        | Value::TimestampNanosecond(n, _) => n.map(i128::from),
        Value::UInt8(n) => n.map(i128::from),
        Value::UInt16(n) => n.map(i128::from),
        Value::UInt32(n) => n.map(i128::from),
        Value::UInt64(n) => n.map(i128::from),
        Value::Decimal128(n, _, _) => *n,
        _ => None,
    }
}

/// The value of the same type that this integer is.
fn with_number(like: &ScalarValue, n: i128) -> Option<ScalarValue> {
    use ScalarValue as Value;
    let (narrow, wide) = (i32::try_from(n).ok(), i64::try_from(n).ok());
    let value = match like {
        Value::Int8(_) => Value::Int8(i8::try_from(n).ok()),
        Value::Int16(_) => Value::Int16(i16::try_from(n).ok()),
        Value::Int32(_) => Value::Int32(narrow),
        Value::Date32(_) => Value::Date32(narrow),
        Value::Time32Second(_) => Value::Time32Second(narrow),
        Value::Time32Millisecond(_) => Value::Time32Millisecond(narrow),
        Value::Int64(_) => Value::Int64(wide),
        Value::Date64(_) => Value::Date64(wide),
        Value::Time64Microsecond(_) => Value::Time64Microsecond(wide),
        Value::Time64Nanosecond(_) => Value::Time64Nanosecond(wide),
        Value::TimestampSecond(_, zone) => Value::TimestampSecond(wide, zone.clone()),
        Value::TimestampMillisecond(_, zone) => Value::TimestampMillisecond(wide, zone.clone()),
        Value::TimestampMicrosecond(_, zone) => Value::TimestampMicrosecond(wide, zone.clone()),
        Value::TimestampNanosecond(_, zone) => Value::TimestampNanosecond(wide, zone.clone()),
        Value::UInt8(_) => Value::UInt8(u8::try_from(n).ok()),
        Value::UInt16(_) => Value::UInt16(u16::try_from(n).ok()),
        Value::UInt32(_) => Value::UInt32(u32::try_from(n).ok()),
        Value::UInt64(_) => Value::UInt64(u64::try_from(n).ok()),
        Value::Decimal128(_, precision, scale) => Value::Decimal128(Some(n), *precision, *scale),
        _ => return None,
    };
    (!value.is_null()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(min: i64, max: i64, n: usize) -> Vec<i64> {
        let values = between(&ScalarValue::from(min), &ScalarValue::from(max), n);
        let values = values.expect("integers are known");
        let value = |value| match value {
            ScalarValue::Int64(Some(value)) => value,
            other => panic!("{other:?}"),
        };
        values.into_iter().map(value).collect()
    }

    #[test]
    fn integers_are_at_equal_distances() {
        assert_eq!(ints(0, 100, 4), [12, 37, 63, 88]);
        assert_eq!(ints(-10, 10, 2), [-5, 5]);
        assert_eq!(ints(7, 7, 3), [7, 7, 7]);
        assert_eq!(ints(0, 100, 0), [50]);
        let wide = ints(i64::MIN, i64::MAX, 1000);
        assert!(wide.windows(2).all(|pair| pair[0] < pair[1]), "{wide:?}");
    }

    #[test]
    fn types_keep_their_parameters() {
        let zone: Option<std::sync::Arc<str>> = Some("+02:00".into());
        let at = |n| ScalarValue::TimestampNanosecond(Some(n), zone.clone());
        assert_eq!(between(&at(0), &at(8), 2), Some(vec![at(2), at(6)]));
        let decimal = |n| ScalarValue::Decimal128(Some(n), 38, 10);
        let values = between(&decimal(-4), &decimal(4), 2);
        assert_eq!(values, Some(vec![decimal(-2), decimal(2)]));
        let most = 10_i128.pow(38) - 1;
        let wide = between(&decimal(0), &decimal(most), 3).expect("known");
        assert!(wide.windows(2).all(|pair| pair[0] < pair[1]), "{wide:?}");
    }

    #[test]
    fn nothing_is_known_between_texts_and_infinities() {
        let text = |text: &str| ScalarValue::from(text);
        assert_eq!(between(&text("a"), &text("b"), 9), None);
        let float = |n: f64| ScalarValue::from(n);
        assert_eq!(between(&float(f64::NEG_INFINITY), &float(1.0), 9), None);
        let values = between(&float(-1.0), &float(1.0), 2);
        assert_eq!(values, Some(vec![float(-0.5), float(0.5)]));
        let whole = between(&float(f64::MIN), &float(f64::MAX), 4).expect("known");
        assert!(whole.len() == 4 && whole.windows(2).all(|pair| pair[0] < pair[1]), "{whole:?}");
        let least = ScalarValue::Decimal128(Some(i128::MIN), 38, 0);
        let most = ScalarValue::Decimal128(Some(i128::MAX), 38, 0);
        assert_eq!(between(&least, &most, 5), None);
    }
}
