//! Peers files: what is read from good ones, what is said of bad ones, and that nothing panics.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const A: &str = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";
const B: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
const C: &str = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn parse(text: &str) -> Result<Peers, Vec<Fault>> {
    Peers::parse(&text.replace("$A", A).replace("$B", B).replace("$C", C))
}

#[test]
fn a_file_says_who_serves_which_address() {
    let peers = parse(
        "# the cluster\n\n\
         10.0.0.1 keys=$A   # only itself\n\
         \t10.0.0.2:7000 nets=10.0.0.2,10.1.0.0/16,fd00:1::/32 keys=$B,$C name=db-1\r\n",
    )
    .unwrap();
    assert_eq!(peers.len(), 2);
    assert_eq!(peers.behind(ip("10.0.0.1")), Some(0));
    assert_eq!(peers.behind(ip("::ffff:10.1.2.3")), Some(1));
    assert_eq!(peers.behind(ip("fd00:1::5")), Some(1));
    for nobody in ["10.0.0.0", "10.0.0.3", "10.2.0.0", "9.9.9.9", "fd00:2::"] {
        assert_eq!(peers.behind(ip(nobody)), None, "{nobody}");
    }
    let db = peers.get(1).unwrap();
    assert_eq!(
        (db.index, db.line, db.name.as_deref()),
        (1, 4, Some("db-1"))
    );
    assert_eq!(db.control.to_string(), "10.0.0.2:7000");
    assert_eq!(peers.get(0).unwrap().control.port(), CONTROL_PORT);
    assert_eq!(peers.at(ip("10.0.0.2")), Some(1));
    assert_eq!(peers.at(ip("10.1.0.0")), None);
    assert_eq!(peers.with_key(&PublicKey::parse(C).unwrap()), Some(1));
}

#[test]
fn an_empty_file_has_no_peers() {
    assert!(parse("").unwrap().is_empty());
    assert!(parse("# nobody").unwrap().behind(ip("10.0.0.1")).is_none());
}

/// The line, and a part of the reason.
#[track_caller]
fn refused(text: &str, wanted: &[(usize, &str)]) {
    let faults = parse(text).expect_err(text);
    let told: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert_eq!(faults.len(), wanted.len(), "{told:#?}");
    for (fault, (line, reason)) in faults.iter().zip(wanted) {
        assert_eq!(fault.line, *line, "{told:#?}");
        assert!(fault.reason.contains(reason), "{told:#?} lacks {reason}");
    }
}

#[test]
fn each_mistake_within_a_line_is_named() {
    for (text, reason) in [
        ("host1 keys=$A", "an address is wanted"),
        ("10.0.0.1:0 keys=$A", "port 0"),
        ("10.0.0.1:99999 keys=$A", "an address is wanted"),
        ("0.0.0.0 keys=$A", "for all and for none"),
        ("224.0.0.1 keys=$A", "a group's"),
        ("[fe80::1]:80 keys=$A", "link-local"),
        ("[fe80::1%3]:80 keys=$A", "one interface"),
        ("::ffff:10.0.0.1 keys=$A", "as such"),
        ("10.0.0.1", "keys= is missing"),
        ("10.0.0.1 keys=", "44 characters"),
        ("10.0.0.1 keys=AQID", "32 bytes"),
        ("10.0.0.1 keys=$A,", "44 characters"),
        ("10.0.0.1 keys=$A keys=$B", "twice"),
        ("10.0.0.1 keys=$A nets=10.0.0.0/8 nets=11.0.0.0/8", "twice"),
        ("10.0.0.1 keys=$A nets=", "a block of addresses is wanted"),
        (
            "10.0.0.1 keys=$A nets=10.0.0.0/33",
            "a block of addresses is wanted",
        ),
        ("10.0.0.1 keys=$A nets=10.0.0.1/8", "10.0.0.0/8?"),
        ("10.0.0.1 keys=$A nets=::ffff:10.0.0.0/104", "as such"),
        ("10.0.0.1 keys=$A key=$B", "no such word"),
        ("10.0.0.1 keys=$A fast", "no such word"),
        ("10.0.0.1 keys=$A name=", "letters"),
        ("10.0.0.1 keys=$A name=a/b", "letters"),
    ] {
        refused(text, &[(1, reason)]);
    }
}

#[test]
fn each_mistake_between_lines_is_named() {
    refused(
        "10.0.0.1 keys=$A\n10.0.0.2 keys=$A",
        &[(2, "stands in line 1 already")],
    );
    refused("10.0.0.1 keys=$A,$A", &[(1, "stands in line 1 already")]);
    refused(
        "10.0.0.1 nets=10.1.0.0/16 keys=$A\n10.0.0.1:7 nets=10.2.0.0/16 keys=$B",
        &[(2, "the address 10.0.0.1 stands in line 1")],
    );
    refused(
        "10.0.0.1 keys=$A name=a\n10.0.0.2 keys=$B name=a",
        &[(2, "the name a stands in line 1")],
    );
    refused(
        "10.0.0.1 nets=10.1.2.0/24 keys=$A\n10.0.0.2 nets=10.0.0.0/8 keys=$B",
        &[(2, "10.0.0.0/8 overlaps with 10.1.2.0/24 of line 1")],
    );
    refused(
        "10.0.0.1 nets=10.0.0.0/8,10.0.0.0/8 keys=$A",
        &[(1, "overlaps")],
    );
    refused(
        "10.0.0.1 keys=$A\nfd00::1 keys=$B",
        &[(2, "by IPv4 or by IPv6")],
    );
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_lines() {
    refused(
        "10.0.0.1 keys=$A\nhere keys=x fast\n10.0.0.1 keys=$A",
        &[
            (2, "\"x\""),
            (2, "fast"),
            (2, "here"),
            (3, "overlaps"),
            (3, "the address"),
            (3, "the key"),
        ],
    );
}

#[test]
fn a_host_finds_itself_by_its_key_at_its_address() {
    let peers = parse("10.0.0.1 keys=$A\n10.0.0.2 keys=$B").unwrap();
    let own = |key: &str, here: &str| {
        let here = ip(here);
        peers.own(&PublicKey::parse(key).unwrap(), |ip| ip == here)
    };
    assert_eq!(own(B, "10.0.0.2"), Ok(1));
    assert_eq!(
        own(C, "10.0.0.2"),
        Err(NotListed::Key {
            line: 2,
            control: ip("10.0.0.2")
        })
    );
    assert_eq!(
        own(B, "10.0.0.9"),
        Err(NotListed::Address {
            line: 2,
            control: ip("10.0.0.2")
        })
    );
    assert_eq!(own(C, "10.0.0.9"), Err(NotListed::Neither));
}

/// Two hosts in three, so that addresses, keys and blocks collide often.
fn line() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("nets=10.0.0.0/8".to_string()),
        Just("nets=10.0.0.0/9,fd00::/8".to_string()),
        Just("nets=".to_string()),
        Just(format!("keys={A}")),
        Just(format!("keys={B},{C}")),
        Just("keys=AQID".to_string()),
        Just("name=x".to_string()),
        "[a-z=,#/]{0,12}",
    ];
    let address = prop_oneof![
        "10\\.0\\.0\\.[0-9]",
        "[0-9.:\\[\\]%a-f]{0,20}",
        Just("fd00::1".to_string())
    ];
    (address, vec(word, 0..4)).prop_map(|(address, words)| format!("{address} {}", words.join(" ")))
}

proptest! {
    #[test]
    fn whatever_stands_there_is_read_or_refused(text in any::<String>()) {
        let _ = Peers::parse(&text);
    }

    #[test]
    fn what_nearly_is_a_file_is_read_or_refused_with_lines(lines in vec(line(), 0..6)) {
        match Peers::parse(&lines.join("\n")) {
            Ok(peers) => {
                // A line may be empty, or nothing but a comment.
                let says = |line: &&String| !line.trim_start().is_empty() && !line.trim_start().starts_with('#');
                prop_assert_eq!(peers.len(), lines.iter().filter(says).count());
            }
            Err(faults) => {
                prop_assert!(!faults.is_empty());
                prop_assert!(faults.iter().all(|fault| (1..=lines.len()).contains(&fault.line)));
                prop_assert!(faults.is_sorted());
            }
        }
    }

    /// A file that was printed reads as what it was printed from; and every address finds who claims it.
    #[test]
    fn good_files_survive_printing(hosts in vec((any::<[u8; 32]>(), 0u8..=8, any::<bool>()), 1..40), ask in any::<u32>()) {
        let text: Vec<String> = hosts.iter().enumerate().map(|(i, (key, bits, named))| {
            let key = PublicKey::new(*key);
            let name = if *named { format!("name=host{i}") } else { String::new() };
            format!("172.16.0.{i}:{} nets={i}.0.0.0/{},fd{i:02}::/{} keys={key} {name}", 1 + i, 8 + bits, 16 + bits)
        }).collect();
        prop_assume!(!text.iter().any(|line| line.contains("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")));
        let peers = Peers::parse(&text.join("\n")).unwrap();
        let printed: Vec<String> = peers.iter().map(Peer::to_string).collect();
        prop_assert_eq!(&Peers::parse(&printed.join("\n")).unwrap(), &peers);
        let ip = IpAddr::V4((ask % (41 << 24)).into());
        let claims = peers.iter().find(|peer| peer.nets.iter().any(|net| net.contains(ip)));
        prop_assert_eq!(peers.behind(ip), claims.map(|peer| peer.index));
    }
}
