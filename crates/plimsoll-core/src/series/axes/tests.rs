//! Typed coordinates as structs and in records.

use super::*;
use crate::sample::Work;
use crate::series::{Point, Quantity, metric};

crate::names! {
    /// How stores reach memory.
    enum Stores {
        Ordinary = "ordinary",
        NonTemporal = "non-temporal",
    }
}

crate::axes! {
    /// Every kind of coordinate.
    struct Place {
        label: Name,
        stores: Stores,
        moved as "output moved": Bytes,
        threads: Threads,
        unroll: Count,
        stride: Elements,
        delay: Cycles,
    }
}

fn place(stores: Stores, threads: u64) -> Place {
    Place {
        label: "a".into(),
        stores,
        moved: Bytes(1 << 40),
        threads: Threads(threads),
        unroll: Count(0),
        stride: Elements(128),
        delay: Cycles(65_536),
    }
}

fn typed() -> TypedSeries<Place> {
    let metrics = vec![metric("time", Unit::Second, Quantity::Time)];
    TypedSeries::new("c", Figure::Throughput, CachePolicy::Hot, metrics, Draw::Table).with_precision(0.02)
}

fn point(at: Vec<Value>) -> Point {
    Point::new(at, Work::default(), vec![1000; 30])
}

#[test]
fn axes_are_in_the_order_of_the_struct_s_fields() {
    let axes: Vec<(String, Unit)> = Place::axes().into_iter().map(|axis| (axis.name, axis.unit)).collect();
    let axis = |name: &str, unit| (name.to_owned(), unit);
    let expected = [
        axis("label", Unit::One),
        axis("stores", Unit::One),
        axis("output moved", Unit::Byte),
        axis("threads", Unit::Thread),
        axis("unroll", Unit::One),
        axis("stride", Unit::Element),
        axis("delay", Unit::Cycle),
    ];
    assert_eq!(axes, expected);
    assert_eq!(typed().spec().axes, Place::axes());
    assert_eq!(SeriesSpec::from(typed()).precision, 0.02);
}

#[test]
fn coordinates_round_trip_through_values() {
    for stores in Stores::ALL {
        let written = place(stores, 3);
        let values = written.to_values();
        let expected = [
            Value::Text("a".into()),
            Value::Text(stores.to_string()),
            Value::Number(1_099_511_627_776.0),
            Value::Number(3.0),
            Value::Number(0.0),
            Value::Number(128.0),
            Value::Number(65_536.0),
        ];
        assert_eq!(values, expected);
        assert_eq!(Place::from_values(&values), Some(written));
    }
}

#[test]
fn values_that_do_not_fit_the_axes_are_refused() {
    let whole = place(Stores::Ordinary, 3).to_values();
    let parse_with = |axis: usize, value: Value| {
        let mut values = whole.clone();
        values[axis] = value;
        Place::from_values(&values)
    };
    assert_eq!(Place::from_values(&whole[..6]), None);
    assert_eq!(Place::from_values(&[&whole[..], &whole[..1]].concat()), None);
    assert_eq!(parse_with(0, Value::Number(1.0)), None);
    assert_eq!(parse_with(1, "sideways".into()), None);
    assert_eq!(parse_with(3, "three".into()), None);
    for number in [0.5, -1.0, 1e300, f64::NAN, f64::INFINITY] {
        assert_eq!(parse_with(3, number.into()), None, "{number}");
    }
}

#[test]
fn parse_rows_returns_an_error_for_each_row_that_does_not_fit() {
    let later = [
        &place(Stores::Ordinary, 1).to_values()[..1],
        &["sideways".into()],
        &place(Stores::Ordinary, 1).to_values()[2..],
    ];
    let points = [point(place(Stores::NonTemporal, 2).to_values()), point(later.concat())];
    let series = Series::new(typed(), points);
    let rows: Vec<Result<(Place, &Row), ShapeError>> = series.parse_rows::<Place>().collect();
    assert_eq!(rows[0], Ok((place(Stores::NonTemporal, 2), &series.rows[0])));
    let wrong = rows[1].as_ref().unwrap_err().to_string();
    assert_eq!(
        wrong,
        "series 'c' has a row at a, sideways, 1099511627776, 1, 0, 128, 65536, which doesn't fit its axes"
    );
}

#[test]
fn parse_rows_refuses_a_series_with_other_axes() {
    crate::axes! { struct Other { label: Name } }
    let series = Series::new(typed(), [point(place(Stores::Ordinary, 1).to_values())]);
    let wrong = series.parse_rows::<Other>().next().unwrap().unwrap_err().to_string();
    assert!(wrong.contains("output moved (B)") && wrong.ends_with("not label (1)"), "{wrong}");
}

#[test]
#[should_panic(expected = "a point with 6 coordinates on 7 axes (series 'c')")]
fn a_series_panics_on_a_point_with_too_few_coordinates() {
    let _ = Series::new(typed(), [point(place(Stores::Ordinary, 1).to_values()[1..].to_vec())]);
}

#[test]
fn an_intensity_is_a_number_not_a_name() {
    assert_eq!(FlopPerByte::from_value(&FlopPerByte(0.125).to_value()), Some(FlopPerByte(0.125)));
    assert_eq!(FlopPerByte::from_value(&"0.125".into()), None);
    assert_eq!(FlopPerByte::UNIT, Unit::FlopPerByte);
}
