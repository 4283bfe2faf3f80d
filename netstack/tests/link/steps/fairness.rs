//! Whose turn it is.

use super::*;

// [S2] [S3] [P1]
#[test]
fn connections_take_turns() {
    let (mut duo, bulk, _) = Duo::connected();
    let terms = Terms { name: 8, ..TERMS };
    duo.expect(&terms);
    let small = duo.open(&terms);
    duo.all();
    duo.a.write(duo.now, bulk, RING);
    let first = header(&say(&mut duo.a, duo.now).unwrap());
    duo.a.write(duo.now, small, 10);
    let second = header(&say(&mut duo.a, duo.now).unwrap());
    let third = header(&say(&mut duo.a, duo.now).unwrap());
    assert_eq!([first.kind, second.kind, third.kind], [Kind::Data; 3]);
    assert_ne!(first.token, second.token);
    assert_eq!(first.token, third.token);
    assert_eq!(
        [second.number, third.number],
        [first.number + 1, first.number + 2]
    );
}
