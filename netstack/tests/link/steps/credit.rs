//! Credit, packet by packet.

use super::*;

// [K1] [K3]
#[test]
fn data_carries_the_credit_of_the_other_direction() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, 1000);
    duo.all();
    duo.b.read(duo.now, b, 600);
    duo.b.write(duo.now, b, 10);
    let seen = duo.all();
    let data = seen.iter().find(|(_, header)| header.kind == Kind::Data);
    assert_eq!(data.unwrap().1.credit, 600 + RING as u32);
}

// [K1] [K4]
#[test]
fn half_of_a_ring_is_worth_a_packet() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, RING - 100);
    duo.all();
    let credits = |seen: &[(bool, Header)]| -> Vec<u32> {
        let credit = seen
            .iter()
            .filter(|(to_b, header)| !to_b && header.kind == Kind::Credit);
        credit.map(|(_, header)| header.credit).collect()
    };
    duo.b.read(duo.now, b, RING / 2 - 1);
    assert!(credits(&duo.all()).is_empty());
    duo.b.read(duo.now, b, 1);
    assert_eq!(credits(&duo.all()), [RING as u32 / 2 * 3]);
}

// [K4] It is lost; it goes again, with the newest value.
#[test]
fn lost_credit_goes_again() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, RING);
    duo.all();
    duo.b.read(duo.now, b, RING / 2);
    let mut credits = Vec::new();
    let mut see = |arrives: bool, duo: &mut Duo| {
        for _ in 0..10 {
            duo.exchange(|to_b, packet| {
                let header = header(packet);
                let credit = !to_b && header.kind == Kind::Credit;
                if credit {
                    credits.push(header.credit);
                }
                to_b || arrives
            });
        }
    };
    see(false, &mut duo);
    duo.b.read(duo.now, b, 10);
    see(true, &mut duo);
    assert!(credits.len() > 1, "{credits:?}");
    assert_eq!(credits.last(), Some(&(RING as u32 / 2 * 3 + 10)));
}

// [K5] [K2]
#[test]
fn who_has_no_credit_asks() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, RING + 1);
    let mut asked = Vec::new();
    for _ in 0..50 {
        for (to_b, header) in duo.all() {
            let question = to_b && header.kind == Kind::Credit && header.ask;
            if question {
                asked.push(duo.now);
            }
            assert!(!to_b || header.kind != Kind::Data || u64::from(header.offset) < RING);
        }
    }
    assert!((3..10).contains(&asked.len()), "{asked:?}");
    let pauses: Vec<Duration> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        pauses.windows(2).all(|pair| pair[1] >= pair[0]),
        "{pauses:?}"
    );
    duo.b.read(duo.now, b, u64::MAX);
    duo.all();
    assert_eq!(duo.b.rings.get(b).tail, RING + 1);
}
