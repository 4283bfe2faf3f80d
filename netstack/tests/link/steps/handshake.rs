//! Finding each other, and parting.

use super::*;

// [H1]
#[test]
fn hello_is_repeated_and_then_given_up() {
    let mut duo = Duo::new();
    let start = duo.now;
    duo.open(&TERMS);
    let mut at = Vec::new();
    while let Some(next) = duo.a.link.deadline() {
        duo.now = duo.now.max(next);
        while let Some(packet) = say(&mut duo.a, duo.now) {
            assert_eq!(header(&packet).kind, Kind::Hello);
            at.push((duo.now - start).as_millis());
        }
    }
    assert_eq!(at, [0, 20, 60, 140, 300, 620, 1260, 2260, 3260, 4260]);
    assert_eq!(duo.now - start, 5000 * MS);
    let events: Vec<Event> = std::iter::from_fn(|| duo.a.link.event()).collect();
    assert_eq!(events.last(), Some(&Event::Dead(Why::Silence)));
}

// [H2] [X3]
#[test]
fn a_hello_is_answered_and_forgotten() {
    let mut duo = Duo::new();
    duo.open(&TERMS);
    let hello = say(&mut duo.a, duo.now).unwrap();
    let before = format!("{:?}", duo.b.link).replace("packets_received: 0", "");
    for _ in 0..3 {
        assert_eq!(hear(&mut duo.b, duo.now, &hello), Ok(()));
    }
    let welcome = say(&mut duo.b, duo.now).unwrap();
    assert_eq!(header(&welcome).kind, Kind::Welcome);
    assert!(welcome.len() <= hello.len());
    assert_eq!(say(&mut duo.b, duo.now), None);
    assert!(!duo.b.link.is_up() && duo.b.link.deadline().is_none());
    let sent = format!("packets_sent: 1, bytes_sent: {}", welcome.len());
    let after = format!("{:?}", duo.b.link)
        .replace("packets_received: 3", "")
        .replace(&sent, "packets_sent: 0, bytes_sent: 0");
    assert_eq!(after, before);
}

// [H3]
#[test]
fn only_the_answer_to_our_hello_counts() {
    let mut duo = Duo::new();
    duo.open(&TERMS);
    let hello = say(&mut duo.a, duo.now).unwrap();
    hear(&mut duo.b, duo.now, &hello).unwrap();
    let welcome = say(&mut duo.b, duo.now).unwrap();
    // One that answers somebody else.
    let mut other = Duo::new();
    other.a = Host::new(1, 2, 77, Fixed::new(1 << 20), |config| {
        config.identity.tag = header(&welcome).tag;
    });
    other.open(&TERMS);
    say(&mut other.a, duo.now).unwrap();
    assert_eq!(
        hear(&mut other.a, duo.now, &welcome),
        Err(Dropped::Handshake)
    );
    assert_eq!(hear(&mut duo.a, duo.now, &welcome), Ok(()));
    assert!(duo.a.link.is_up());
    assert_eq!(hear(&mut duo.a, duo.now, &welcome), Err(Dropped::Handshake));
}

// [H3]
#[test]
fn a_lost_confirm_is_said_again() {
    let mut duo = Duo::new();
    let b = duo.expect(&TERMS);
    duo.open(&TERMS);
    let mut confirms = 0;
    for _ in 0..50 {
        duo.exchange(|_, packet| {
            let confirm = header(packet).kind == Kind::Confirm;
            confirms += u32::from(confirm);
            !confirm || confirms > 2
        });
    }
    assert_eq!(confirms, 3);
    assert!(duo.b.events.contains(&Event::Open(b)));
}

// [H5]
#[test]
fn both_say_hello_at_once() {
    let mut duo = Duo::new();
    let b = duo.expect(&TERMS);
    let a = duo.open(&TERMS);
    let back = Terms { name: 8, ..TERMS };
    let to_a = duo.a.link.expect(&back).unwrap();
    duo.a.adopt(to_a, &back);
    let from_b = duo.b.link.open(duo.now, &back).unwrap();
    duo.b.adopt(from_b, &back);
    let hellos = [say(&mut duo.a, duo.now), say(&mut duo.b, duo.now)].map(Option::unwrap);
    hear(&mut duo.b, duo.now, &hellos[0]).unwrap();
    hear(&mut duo.a, duo.now, &hellos[1]).unwrap();
    for _ in 0..20 {
        duo.exchange(|_, _| true);
    }
    for (host, ids) in [(&duo.a, [a, to_a]), (&duo.b, [b, from_b])] {
        let open = |id: &Id| host.events.contains(&Event::Open(*id));
        assert!(ids.iter().all(open), "{:?}", host.events);
        let ups = host.events.iter().filter(|event| **event == Event::Up);
        assert_eq!((ups.count(), host.events.len()), (1, 3));
    }
}

// [H6] [H7]
#[test]
fn bye_ends_all() {
    let (mut duo, a, b) = Duo::connected();
    duo.a.write(duo.now, a, 100);
    duo.all();
    duo.a.link.bye();
    let bye = say(&mut duo.a, duo.now).unwrap();
    assert_eq!(header(&bye).kind, Kind::Bye);
    hear(&mut duo.b, duo.now, &bye).unwrap();
    let [.., lost, dead] = &duo.b.events[..] else {
        panic!("{:?}", duo.b.events);
    };
    assert!(matches!(lost, Event::Lost { id, score } if *id == b && score.placed == 100));
    assert_eq!(dead, &Event::Dead(Why::Bye));
    assert!(!duo.a.link.is_up() && !duo.b.link.is_up());
    assert_eq!(hear(&mut duo.b, duo.now, &bye), Err(Dropped::Tag));
}
