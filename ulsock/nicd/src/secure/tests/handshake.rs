//! Who proves what before the first message: keys, addresses, rubbish, and time.

use super::*;

#[test]
fn any_listed_key_is_good_on_either_side() {
    let other = Identity::generate().unwrap().public();
    for lists in [format!("{other},KEY"), format!("KEY,{other}")] {
        for side in [0, 1] {
            let identities = [(); 2].map(|()| Identity::generate().unwrap());
            let keys = |key: PublicKey, i| match i == side {
                true => lists.replace("KEY", &key.to_string()),
                false => key.to_string(),
            };
            Cluster::with_keys(identities, keys).pair();
        }
    }
}

#[test]
fn a_caller_with_a_key_that_is_not_listed_is_turned_away() {
    let identities = [(); 2].map(|()| Identity::generate().unwrap());
    let other = Identity::generate().unwrap().public();
    let cluster = Cluster::with_keys(identities, |key, i| [other, key][i].to_string());
    let mut caller = cluster.call();
    let mut called = cluster.take().unwrap();
    let why = turns(cluster.now, &mut caller, &mut called, |_, b| {
        b.peer().is_some()
    })
    .unwrap_err();
    assert!(matches!(why, Closed::WrongKey(key) if key == cluster.identities[0].public()));
    assert!(matches!(
        end(&mut caller, cluster.now),
        Closed::Unwelcome | Closed::Io(_)
    ));
    assert!(called.recv().is_none());
}

#[test]
fn a_called_host_with_a_key_that_is_not_listed_does_not_learn_who_called() {
    let identities = [(); 2].map(|()| Identity::generate().unwrap());
    let other = Identity::generate().unwrap().public();
    let cluster = Cluster::with_keys(identities, |key, i| [key, other][i].to_string());
    let mut caller = cluster.call();
    let mut called = cluster.take().unwrap();
    caller.send(b"secret").unwrap();
    let why = turns(cluster.now, &mut caller, &mut called, |a, _| {
        a.peer().is_some()
    })
    .unwrap_err();
    assert!(matches!(why, Closed::WrongKey(key) if key == cluster.identities[1].public()));
    assert!(matches!(end(&mut called, cluster.now), Closed::Unwelcome));
}

#[test]
fn a_right_key_from_a_wrong_address_is_not_answered() {
    let cluster = Cluster::new();
    // Nobody is known there.
    let mut elsewhere = cluster.own().clone();
    elsewhere.control.set_ip([127, 0, 0, 3].into());
    let stream = dial(&elsewhere, cluster.other()).unwrap();
    let _caller =
        Secure::connect(stream, &cluster.identities[0], cluster.other(), cluster.now).unwrap();
    assert!(matches!(cluster.take(), Err(Closed::Stranger(ip)) if ip.to_string() == "127.0.0.3"));
    // Another host is.
    elsewhere.control.set_ip([127, 0, 0, 2].into());
    let stream = dial(&elsewhere, cluster.other()).unwrap();
    let mut caller =
        Secure::connect(stream, &cluster.identities[0], cluster.other(), cluster.now).unwrap();
    let mut called = cluster.take().unwrap();
    let why = turns(cluster.now, &mut caller, &mut called, |_, b| {
        b.peer().is_some()
    })
    .unwrap_err();
    assert!(matches!(why, Closed::WrongKey(_)), "{why}");
}

#[test]
fn a_replayed_handshake_proves_nothing() {
    let cluster = Cluster::new();
    let (mut tap, mut called) = cluster.bare();
    // A man in the middle passes on, and keeps, what an honest caller says.
    let middle = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(middle.local_addr().unwrap()).unwrap();
    let mut caller =
        Secure::connect(stream, &cluster.identities[0], cluster.other(), cluster.now).unwrap();
    let (mut honest, _) = middle.accept().unwrap();
    tap.set_nonblocking(true).unwrap();
    honest.set_nonblocking(true).unwrap();
    caller.send(b"message").unwrap();
    let mut kept = Vec::new();
    let started = Instant::now();
    while called.recv().is_none() {
        caller.progress(cluster.now).unwrap();
        kept.extend(pass_on(&mut honest, &mut tap));
        called.progress(cluster.now).unwrap();
        pass_on(&mut tap, &mut honest);
        assert!(started.elapsed() < Duration::from_secs(20));
    }
    // Again, word for word.
    let (mut thief, mut called) = cluster.bare();
    thief.write_all(&kept).unwrap();
    assert!(matches!(end(&mut called, cluster.now), Closed::Forged));
    assert!(called.recv().is_none());
}

#[test]
fn garbage_in_the_handshake_ends_it() {
    let cluster = Cluster::new();
    for (bytes, forged) in [
        (vec![0xff; 4096], false),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), false),
        (frame(&[]), false),
        (frame(&[7; 33]), false),
        // The first message is a key like any other; what follows has to be made with its secret.
        ([frame(&[7; 32]), frame(&[7; 64])].concat(), true),
        ([frame(&[0; 32]), frame(&[0; 64])].concat(), true),
        ([frame(&[7; 32]), frame(&[7; 65])].concat(), false),
    ] {
        let (mut stream, mut called) = cluster.bare();
        stream.write_all(&bytes).unwrap();
        match end(&mut called, cluster.now) {
            Closed::Forged => assert!(forged, "{bytes:?}"),
            Closed::Length(_) => assert!(!forged, "{bytes:?}"),
            why => panic!("{why}"),
        }
    }
}

#[test]
fn garbage_from_who_was_called_ends_it() {
    let cluster = Cluster::new();
    for bytes in [
        frame(&[9; 96]),
        frame(&[9; 1024]),
        vec![0; 2],
        vec![0xff; 9000],
    ] {
        let mut caller = cluster.call();
        let (mut stream, _) = cluster.listener.accept().unwrap();
        stream.write_all(&bytes).unwrap();
        assert!(matches!(
            end(&mut caller, cluster.now),
            Closed::Forged | Closed::Length(_)
        ));
    }
}

#[test]
fn a_handshake_that_stops_ends_with_the_stream_or_in_time() {
    let cluster = Cluster::new();
    let first = frame(&[7; 32]);
    for part in 0..=first.len() {
        let (mut stream, mut called) = cluster.bare();
        stream.write_all(&first[..part]).unwrap();
        called.progress(cluster.now).unwrap();
        assert_eq!(called.deadline(), Some(cluster.now + HANDSHAKE));
        assert!(matches!(
            called.progress(cluster.now + HANDSHAKE),
            Err(Closed::Late)
        ));
        let (mut stream, mut called) = cluster.bare();
        stream.write_all(&first[..part]).unwrap();
        drop(stream);
        assert!(matches!(
            end(&mut called, cluster.now),
            Closed::Unwelcome | Closed::Io(_)
        ));
    }
}

/// A byte every 200 ms is no progress.
#[test]
fn a_slow_handshake_does_not_gain_time() {
    let cluster = Cluster::new();
    let (mut stream, mut called) = cluster.bare();
    let mut now = cluster.now;
    for byte in frame(&[7; 32]) {
        stream.write_all(&[byte]).unwrap();
        match called.progress(now) {
            Ok(()) => now += Duration::from_millis(200),
            Err(Closed::Late) => break,
            Err(why) => panic!("{why}"),
        }
    }
    assert_eq!(now, cluster.now + HANDSHAKE);
}
