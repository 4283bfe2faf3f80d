//! What a file makes of a program's configuration.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::*;
use crate::config::Spin;
use crate::config::rules::{Direction, Service};

fn redis() -> Who {
    Who {
        file: b"/usr/bin/redis-check-rdb".to_vec(),
        started_as: b"/usr/bin/redis-server".to_vec(),
        uid: 33,
    }
}

/// The configuration of redis with this file and these variables.
fn with(text: &str, vars: &[(&str, &str)]) -> Config {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ulsock.toml");
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
    let path = path.to_str().expect("a path");
    let named = (file::VARIABLE, path);
    let vars = vars.iter().chain([&named]);
    let vars = vars.map(|(name, value)| (name.to_string(), value.to_string()));
    Config::of(vars, redis).expect("variables that can be used")
}

fn used(config: &Config) -> &FileUse {
    match &config.file {
        ConfigFile::Used(used) => used,
        other => panic!("{other:?}"),
    }
}

fn fault(text: &str) -> String {
    Layers::read(text).expect_err(text).to_string()
}

/// Is its connection to this service kept on the kernel? And by the rule in which line?
fn kept(config: &Config, to: &str) -> (bool, u32) {
    let local = "127.0.0.1:40000".parse().expect("an address");
    let peer = to.parse().expect("an address");
    let service = Service::of(Direction::Connect, local, peer);
    let rule = config.rules.find(Direction::Connect, service);
    rule.map_or((false, 0), |rule| (rule.on_kernel, rule.line))
}

#[test]
fn the_environment_comes_before_the_rule_and_the_rule_before_the_defaults() {
    let text = "[defaults]\nprofile = 'latency'\nring = 65536\nexclude = [22, '10.0.0.0/8']\n\
                [[rule]]\nprogram = 'redis-*'\nring = 16384\nspin_us = 7\nguard = false";
    let config = with(text, &[]);
    assert_eq!((config.largest, config.spin), (0, Spin::Fixed(7)));
    assert_eq!(config.guard, crate::config::Guarding::Off);
    assert!(config.scope.excludes_ports());
    assert_eq!(used(&config).rule, Some(5));
    let mut set = used(&config).set.iter();
    let exclude = set
        .find(|it| it.variable == "ULSOCK_EXCLUDE")
        .expect("a value");
    assert_eq!((exclude.line, exclude.text.as_str()), (4, "22,10.0.0.0/8"));
    let config = with(
        text,
        &[
            ("ULSOCK_PROFILE", "frugal"),
            ("ULSOCK_EXCLUDE", "10.0.0.0/8"),
        ],
    );
    assert_eq!((config.largest, config.spin), (0, Spin::Fixed(0)));
    assert!(
        !config.scope.excludes_ports(),
        "a list replaces the list below it"
    );
}

#[test]
fn the_first_rule_that_matches_counts() {
    let text = "[[rule]]\nprogram = 'nginx'\ncarrier = 'off'\n\
                [[rule]]\nport = [6379, '7000-7010']\ncarrier = 'kernel'\n\
                [[rule]]\nuser = [33]\naddress = '10.0.0.0/8'\ncarrier = 'on'\n\
                [[rule]]\ncarrier = 'kernel'\n\
                [[rule]]\nport = 1\ncarrier = 'on'";
    let config = with(text, &[]);
    assert!(config.enabled);
    assert_eq!(kept(&config, "10.0.0.1:6379"), (true, 4));
    assert_eq!(kept(&config, "10.0.0.1:7010"), (true, 4));
    assert_eq!(kept(&config, "10.0.0.1:7011"), (false, 7));
    assert_eq!(kept(&config, "127.0.0.1:1"), (true, 11));
    assert_eq!(used(&config).rule, Some(11));
    let doubts = config.doubts();
    assert!(doubts.is_empty(), "the file has gone: {doubts:?}");
    let doubts = Layers::read(text).expect("a file").doubts();
    assert_eq!(doubts.len(), 1);
    assert_eq!(
        doubts[0].to_string(),
        "line 13: never reached: the rule in line 11 is for everything"
    );
}

#[test]
fn a_program_is_turned_off_and_on() {
    let off = "[[rule]]\nprogram = '/usr/bin/redis-server'\nuser = '33'\ncarrier = 'off'";
    assert!(!with(off, &[]).enabled);
    assert!(
        with(off, &[("ULSOCK", "1")]).enabled,
        "the environment comes first"
    );
    let others = "[defaults]\nenabled = false\n[[rule]]\nprogram = 'redis-server'\ncarrier = 'on'";
    assert!(with(others, &[]).enabled);
    assert!(!with("[defaults]\nenabled = false", &[]).enabled);
}

#[test]
fn thresholds_of_connections() {
    let text = "[[rule]]\nport = 6379\nupgrade_after = 3\nring = 16384\n";
    let config = with(text, &[]);
    assert!(config.rules.say_when());
    let rule = &config.rules.all()[0];
    assert_eq!(
        (rule.upgrade_after, rule.largest, rule.on_kernel),
        (Some(Some(3)), Some(0), false)
    );
    assert_eq!(
        (config.upgrade_after, config.largest),
        (None, 4),
        "not the program's"
    );
    let config = with(
        text,
        &[("ULSOCK_UPGRADE_AFTER", "9"), ("ULSOCK_RING", "65536")],
    );
    let rule = &config.rules.all()[0];
    assert_eq!((rule.upgrade_after, rule.largest), (None, None));
    assert!(!config.rules.say_when());
}

#[test]
fn a_bad_file_is_as_none() {
    let config = with(
        "[defaults]\nring = 65536\nring = 5",
        &[("ULSOCK_SPIN_US", "7")],
    );
    assert_eq!((config.largest, config.spin), (4, Spin::Fixed(7)));
    let ConfigFile::Refused(error) = &config.file else {
        panic!("{:?}", config.file)
    };
    assert!(
        error
            .to_string()
            .ends_with("ulsock.toml, line 3: ring is set already, in line 2")
    );
    let vars = [(file::VARIABLE.to_owned(), "/nowhere/at/all".to_owned())];
    let config = Config::of(vars.into_iter(), redis).expect("variables");
    assert!(
        matches!(config.file, ConfigFile::Refused(_)),
        "a file that was named must be there"
    );
    let vars = [(file::VARIABLE.to_owned(), "none".to_owned())];
    let config = Config::of(vars.into_iter(), redis).expect("variables");
    assert!(matches!(config.file, ConfigFile::None));
}

/// Each text is refused, and this is said of it.
fn refused(cases: &[(&str, &str)]) {
    for (text, said) in cases {
        assert!(fault(text).contains(said), "{text:?}: {}", fault(text));
    }
}

#[test]
fn what_is_wrong_with_tables_and_settings_is_named() {
    refused(&[
        ("ring = 1", "line 1: ring is in no table"),
        ("[[defaults]]", "line 1: write [defaults]"),
        ("[rule]", "line 1: write [[rule]]"),
        ("[rules]", "no such table: rules"),
        (
            "[defaults]\nrings = 1",
            "line 2: no such name: rings (known: awake, ",
        ),
        ("[defaults]\nchaos = 1", "no such name: chaos"),
        (
            "[defaults]\nring = 1",
            "line 2: ring: cannot use \"1\": give a number of bytes",
        ),
        ("[defaults]\nport = 1", "no such name: port"),
    ]);
}

#[test]
fn what_is_wrong_with_rules_is_named() {
    // What a rule has behind its head, where that is wrong.
    let lines = [
        ("program = 'a'", "line 1: the rule sets nothing"),
        ("program = ''", "line 2: program: cannot use"),
        ("port = 65536", "line 2: port: cannot use \"65536\""),
        ("port = '9-8'", "line 2: port: cannot use \"9-8\""),
        ("port = []", "line 2: port: cannot use \"\""),
        ("address = 'here'", "line 2: address: cannot use"),
        ("direction = 'in'", "line 2: direction: cannot use"),
        (
            "carrier = 'shm'",
            "line 2: carrier: cannot use \"shm\": give \"on\"",
        ),
        (
            "enabled = true",
            "line 2: enabled: cannot use \"1\": give carrier",
        ),
        (
            "port = 1\ncarrier = 'off'",
            "line 1: carrier = \"off\" is for a whole program",
        ),
        (
            "port = 1\nspin_us = 1",
            "line 3: spin_us is for a whole program",
        ),
        ("porrt = 1", "no such name: porrt (known: program, user, "),
    ];
    for (line, said) in lines {
        refused(&[(&format!("[[rule]]\n{line}"), said)]);
    }
}

#[test]
fn a_user_who_is_not_known_is_a_doubt() {
    let text = "[[rule]]\nuser = 'no-such-user'\ncarrier = 'off'";
    let doubts = Layers::read(text).expect("a file").doubts();
    assert!(
        doubts[0]
            .to_string()
            .contains("line 1: no user no-such-user"),
        "{doubts:?}"
    );
}

/// Whatever stands in a file: no panic, and the program has a configuration.
#[test]
fn fuzz() {
    const WORDS: [&str; 24] = [
        "[defaults]\n",
        "[[rule]]\n",
        "program = '*'\n",
        "program = ['/usr/*', 'b']\n",
        "user = 0\n",
        "user = 'root'\n",
        "address = '10.0.0.0/8'\n",
        "address = ['::/0']\n",
        "port = 1\n",
        "port = ['1-2', 3]\n",
        "direction = 'accept'\n",
        "carrier = 'on'\n",
        "carrier = 'kernel'\n",
        "carrier = 'off'\n",
        "ring = 65536\n",
        "upgrade_after = 'auto'\n",
        "profile = 'frugal'\n",
        "spin_us = -1\n",
        "exclude = [22]\n",
        "enabled = false\n",
        "run_dir = '/x'\n",
        "= ",
        "[",
        "'",
    ];
    let target = bolero::check!().with_test_time(Duration::from_secs(1));
    target.for_each(|choices: &[u8]| {
        let words = choices
            .iter()
            .map(|choice| WORDS[usize::from(*choice) % WORDS.len()]);
        let text: String = words.collect();
        if let Ok(layers) = Layers::read(&text) {
            let chosen = layers.choose(&redis(), |_| false);
            assert!(chosen.rules.list.len() <= layers.rules.len());
            layers.choose(&Who::default(), |_| true);
        }
    });
}
