//! The order of keys.

use super::*;

fn number(number: f64) -> Key {
    Key::Number(number)
}

#[test]
fn places_are_in_the_order_of_keys_and_the_unknown_comes_last() {
    let address = |text: &str| Key::Address(text.parse().expect("an address"));
    let ranks = [1, 0];
    let in_order = [
        vec![
            number(f64::NEG_INFINITY),
            number(-1.0),
            number(0.0),
            number(1e-9),
            number(7.0),
            number(f64::INFINITY),
        ],
        vec![Key::Text(1, 9), Key::Text(0, 1), Key::Text(0, 2)],
        vec![
            address("9.0.0.1:80"),
            address("10.0.0.1:79"),
            address("10.0.0.1:80"),
            address("[2001:db8::1]:1"),
            address("[2001:db9::]:1"),
        ],
    ];
    for keys in in_order {
        for pair in keys.windows(2) {
            for (direction, expected) in [
                (Direction::Up, Ordering::Less),
                (Direction::Down, Ordering::Greater),
            ] {
                let place = |key: &Key| key.place(&ranks, direction);
                let found = place(&pair[0]).cmp(&place(&pair[1]));
                assert_eq!(found, expected, "{pair:?} {direction:?}");
                assert!(place(&pair[0]) < Key::Unknown.place(&ranks, direction));
            }
        }
    }
    let (a, b) = (address("[2001:db8::1]:1"), address("[2001:db8::1]:2"));
    assert_eq!(
        a.place(&ranks, Direction::Up),
        b.place(&ranks, Direction::Up)
    );
    assert_eq!(a.rest(&b, Direction::Up), Ordering::Less);
    assert_eq!(a.rest(&b, Direction::Down), Ordering::Greater);
}

#[test]
fn turned_round_what_rests_comes_behind_what_moves() {
    let places = |column, descending| {
        let direction = Direction::of(column, descending);
        let keys = [number(0.0), number(1.0), number(9.0), Key::Unknown];
        let mut order = [0, 1, 2, 3];
        order.sort_by_key(|n: &usize| keys[*n].place(&[], direction));
        order
    };
    assert_eq!(places(Column::Throughput, true), [2, 1, 0, 3]);
    assert_eq!(places(Column::Throughput, false), [1, 2, 0, 3]);
    assert_eq!(places(Column::RetransRate, false), [0, 1, 2, 3]);
}
