//! What prepares a host's nicd: `ulsock nicd key` and `ulsock nicd check`, and its systemd unit.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use tests::ends::Ends;
use tests::place::Place;
use tests::program::built;

fn nicd(words: &[&str]) -> Output {
    let mut command = Command::new(built("ulsock"));
    command.arg("nicd").args(words).output().expect("ulsock")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

fn path(place: &Place, name: &str) -> String {
    place.folder().join(name).to_string_lossy().into_owned()
}

/// The public key of a new or old file.
fn key(file: &str) -> String {
    let output = nicd(&["key", "--key", file]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_key_is_made_once_and_is_secret() {
    let place = Place::new(Ends::both());
    let file = path(&place, "etc/nicd.key");
    let public = key(&file);
    assert_eq!(public.len(), 44, "{public}");
    assert_eq!(key(&file), public);
    assert_eq!(
        fs::metadata(&file).expect("the file").permissions().mode() & 0o7777,
        0o600
    );
    assert_ne!(key(&path(&place, "another")), public);
}

#[test]
fn a_key_file_that_others_can_read_or_own_is_refused() {
    let place = Place::new(Ends::both());
    let file = path(&place, "nicd.key");
    key(&file);
    let refused = |wanted: &str| {
        let output = nicd(&["key", "--key", &file]);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(
            complaint.contains(wanted) && complaint.contains(&file),
            "{complaint}"
        );
        assert!(output.stdout.is_empty());
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("mode");
    refused("0644");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("mode");
    chown(&file, Some(1), None).expect("owner");
    refused("belongs to uid 1");
    chown(&file, Some(0), None).expect("owner");
    fs::write(&file, "private AQID\n").expect("content");
    refused("32 bytes");
}

#[test]
fn a_good_peers_file_is_shown_with_this_host_in_it() {
    let place = Place::new(Ends::both());
    let (own, other) = (path(&place, "own"), path(&place, "other"));
    let (peers, public) = (path(&place, "peers"), key(&own));
    let lines = format!(
        "# two hosts\n127.0.0.1:7777 keys={public} name=here\n192.0.2.7 nets=192.0.2.0/24 keys={}\n",
        key(&other)
    );
    fs::write(&peers, lines).expect("the file");
    let output = nicd(&["check", "--peers", &peers, "--key", &own]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for wanted in [
        &public,
        "192.0.2.7:4690",
        "192.0.2.0/24",
        "This host is line 2",
        "127.0.0.1:7777",
    ] {
        assert!(said.contains(wanted), "{said} lacks {wanted}");
    }
    // Another host's key, at an address that is not ours.
    let output = nicd(&["check", "--peers", &peers, "--key", &other]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("192.0.2.7 is none of this host's"));
    // The key file is not there: the peers file is checked all the same, if no key was named.
    assert_eq!(
        nicd(&["check", "--peers", &peers, "--key", "/nowhere"])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn a_bad_peers_file_is_refused_with_every_line_and_reason() {
    let place = Place::new(Ends::both());
    let peers = path(&place, "peers");
    fs::write(
        &peers,
        "10.0.0.1 keys=AQID\n\n10.0.0.2 nets=10.0.0.0/99 speed=9\n",
    )
    .expect("the file");
    let output = nicd(&["check", "--peers", &peers]);
    assert_eq!(output.status.code(), Some(2));
    let complaints = text(&output.stderr);
    let lines: Vec<&str> = complaints.lines().collect();
    assert!(
        lines
            .iter()
            .all(|line| line.starts_with(&format!("ulsock: {peers} line "))),
        "{lines:#?}"
    );
    let wanted = [
        ("line 1", "32 bytes"),
        ("line 3", "10.0.0.0/99"),
        ("line 3", "keys="),
        ("line 3", "speed"),
    ];
    assert_eq!(lines.len(), wanted.len(), "{lines:#?}");
    for (line, reason) in wanted {
        let told = lines
            .iter()
            .any(|told| told.contains(line) && told.contains(reason));
        assert!(told, "{lines:#?} lack {line}: {reason}");
    }
    fs::set_permissions(&peers, fs::Permissions::from_mode(0o666)).expect("mode");
    let output = nicd(&["check", "--peers", &peers]);
    assert!(text(&output.stderr).contains("others can write it"));
}

/// systemd understands every word of the unit, and finds it rather tight.
#[test]
fn the_unit_is_sound() {
    let place = Place::new(Ends::both());
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ulsock/ulsock-nicd.service");
    let unit = fs::read_to_string(unit).expect("the unit");
    let here = built("ulsock").to_string_lossy().into_owned();
    let file = path(&place, "ulsock-nicd.service");
    fs::write(&file, unit.replace("/usr/bin/ulsock", &here)).expect("a copy");
    let analyze = |words: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        let output = command.args(words).arg(&file).output().expect("systemd");
        assert!(
            output.status.success(),
            "{}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stderr)
    };
    assert_eq!(analyze(&["verify"]), "");
    // In tenths: 100 is a service without any protection.
    analyze(&["security", "--offline=true", "--threshold=35"]);
}
