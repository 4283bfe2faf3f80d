//! Debian's prometheus, which scrapes itself and prometheus-node-exporter, on connections that stay: all of Go 1.19.

use std::fs;

use tests::ends::Side;
use tests::place::Place;
use tests::ports;
use tests::wait;

use super::same_as_kernel_in;

/// Scrapes that must have come of each.
const SCRAPES: u32 = 25;

#[test]
fn scrapes() {
    same_as_kernel_in(&["default"], scene, check);
    // It scrapes itself, too: these connections have rings also if the exporter is without ulsock.
    same_as_kernel_in(&["the client alone"], scene, Place::check_quiet);
}

/// The exporter ends by a signal, and does not report.
fn check(place: &Place) {
    place.check_quiet();
    let (report, lines) = place.report(Side::Client);
    let on_rings = report.ring_bytes() > report.kernel_bytes();
    assert!(lines > 0 && on_rings, "{report:?}");
}

fn scene(place: &Place) -> String {
    let [exporter, own] = [(); 2].map(|()| ports::free());
    let configuration = place.folder().join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 100ms, scrape_timeout: 100ms}}\nscrape_configs:\n\
             - {{job_name: node, static_configs: [{{targets: ['127.0.0.1:{exporter}']}}]}}\n\
             - {{job_name: own, static_configs: [{{targets: ['127.0.0.1:{own}']}}]}}\n"
    );
    fs::write(&configuration, text).expect("a configuration");
    let node = place.program(Side::Server, "/usr/bin/prometheus-node-exporter");
    let node = node.args("--collector.disable-defaults --collector.cpu --collector.meminfo");
    let node = node.arg(format!("--web.listen-address=127.0.0.1:{exporter}"));
    let node = node.start().listening(exporter);
    let server = place.program(Side::Client, "/usr/bin/prometheus");
    let server = server.arg(format!("--config.file={}", configuration.display()));
    let server = server.arg(format!("--web.listen-address=127.0.0.1:{own}"));
    let tsdb = place.folder().join("tsdb");
    let server = server.arg(format!("--storage.tsdb.path={}", tsdb.display()));
    let server = server.start().listening(own);
    let mut text = String::new();
    for job in ["node", "own"] {
        let count = format!("count_over_time(up{{job=\"{job}\"}}[10m]) >= bool {SCRAPES}");
        wait::until("it has scraped", || {
            ask(place, own, &count).contains("=> 1 ")
        });
        let all_up = format!("min_over_time(up{{job=\"{job}\"}}[10m])");
        let answer = ask(place, own, &all_up);
        let answer = answer.split(" @").next().unwrap_or_default();
        text += answer.split(" => ").nth(1).unwrap_or_default();
    }
    server.stop(libc::SIGTERM);
    node.stop(libc::SIGTERM);
    text
}

/// A query by promtool.
fn ask(place: &Place, port: u16, query: &str) -> String {
    let tool = place.client("promtool").args("query instant");
    let tool = tool.arg(format!("http://127.0.0.1:{port}"));
    tool.arg(query).run()
}
