//! Proxies in front of other servers: nginx with HTTP, FastCGI, memcached, TLS and stream upstreams, haproxy in
//! front of nginx, and chains of them. The client's transcript, a line per request, must be the one of a run on
//! kernel TCP; and the server behind must have met its proxy on rings.
//!
//! The proxies are the server side here; the client and the server behind them are the other.

mod scene;

use tests::ends::{Ends, kernel_only};
use tests::place::{Place, Rings};

use scene::Scene;

/// What proxy_backend.py can be asked for over HTTP and FastCGI.
const ALL_KINDS: &str = "plain,chunked,echo";

/// A way to the server behind, built in a scene; what the client gets as arguments.
type Build = fn(&mut Scene) -> String;

/// With connections that live long enough for rings by default.
fn same_as_kernel(build: Build) {
    same_as_kernel_with(build, Rings::Some);
}

/// Runs the client on kernel TCP, with default settings, where `by_default` has to be on rings, and with every
/// connection upgraded at once, then with one side only under ulsock.
fn same_as_kernel_with(build: Build, by_default: Rings) {
    let kernel = Scene::new(Place::new(Ends::Kernel)).transcript(build, Rings::Any);
    let trouble: Vec<&str> = kernel
        .lines()
        .filter(|line| line.contains(": ") || line.contains("False"))
        .collect();
    assert!(trouble.is_empty(), "on kernel TCP: {trouble:#?}");
    assert!(kernel.lines().count() > 400, "on kernel TCP: {kernel}");
    if kernel_only() {
        return;
    }
    for (place, rings) in [
        (Place::new(Ends::Both), by_default),
        (Place::new(Ends::Both).at_once(), Rings::Most),
        (Place::new(Ends::Server).at_once(), Rings::Any),
        (Place::new(Ends::Client).at_once(), Rings::Any),
    ] {
        let ends = place.ends();
        let ours = Scene::new(place).transcript(build, rings);
        let differing: Vec<(&str, &str)> = kernel
            .lines()
            .zip(ours.lines())
            .filter(|(theirs, ours)| theirs != ours)
            .take(10)
            .collect();
        assert!(ours == kernel, "{ends:?}: kernel and ours {differing:#?}");
    }
}

/// The locations of a proxy in front of an HTTP server: the answer buffered or passed on at once, the connection
/// kept or not.
fn http_proxy(scene: &mut Scene, upstream: u16) -> u16 {
    scene.nginx(&format!(
        "upstream behind {{ server 127.0.0.1:{upstream}; keepalive 16; }}
         server {{
             listen 127.0.0.1:PORT;
             proxy_http_version 1.1; proxy_set_header Connection \"\";
             location /buffered/ {{ proxy_pass http://behind; }}
             location /passed/ {{
                 proxy_pass http://behind; proxy_buffering off; proxy_request_buffering off;
             }}
             location /closed/ {{
                 proxy_pass http://127.0.0.1:{upstream}; proxy_set_header Connection close;
             }}
         }}"
    ))
}

#[test]
fn http_buffered() {
    same_as_kernel(|scene| {
        let behind = scene.backend("http");
        format!("{} /buffered {ALL_KINDS}", http_proxy(scene, behind))
    });
}

#[test]
fn http_passed_on_at_once() {
    same_as_kernel(|scene| {
        let behind = scene.backend("http");
        format!("{} /passed {ALL_KINDS}", http_proxy(scene, behind))
    });
}

/// A connection to the server behind per request. By default only the longest of them can be old enough for
/// rings before they end, and whether one is hangs on the scheduler.
#[test]
fn http_not_kept() {
    let build: Build = |scene| {
        let behind = scene.backend("http");
        format!("{} /closed {ALL_KINDS}", http_proxy(scene, behind))
    };
    same_as_kernel_with(build, Rings::Any);
}

#[test]
fn fastcgi() {
    same_as_kernel(|scene| {
        let behind = scene.backend("fastcgi");
        let port = scene.nginx(&format!(
            "upstream behind {{ server 127.0.0.1:{behind}; keepalive 16; }}
             server {{
                 listen 127.0.0.1:PORT; fastcgi_keep_conn on;
                 fastcgi_param DOCUMENT_URI $document_uri;
                 fastcgi_param REQUEST_METHOD $request_method;
                 fastcgi_param CONTENT_LENGTH $content_length;
                 location / {{ fastcgi_pass behind; }}
             }}"
        ));
        format!("{port} / {ALL_KINDS}")
    });
}

#[test]
fn memcached() {
    same_as_kernel(|scene| {
        let behind = scene.memcached();
        let port = scene.nginx(&format!(
            "upstream behind {{ server 127.0.0.1:{behind}; keepalive 16; }}
             server {{
                 listen 127.0.0.1:PORT;
                 location / {{ set $memcached_key $uri; memcached_pass behind; }}
             }}"
        ));
        format!("{port} / plain fill={behind}")
    });
}

/// Two nginx with TLS between them, in front of an HTTP server.
#[test]
fn tls_between_two_nginx() {
    same_as_kernel(|scene| {
        let behind = scene.backend("http");
        let inner = scene.nginx(&format!(
            "upstream behind {{ server 127.0.0.1:{behind}; keepalive 16; }}
             server {{
                 listen 127.0.0.1:PORT ssl; ssl_certificate cert.pem; ssl_certificate_key key.pem;
                 location / {{
                     proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection \"\";
                 }}
             }}"
        ));
        let outer = scene.nginx(&format!(
            "upstream inner {{ server 127.0.0.1:{inner}; keepalive 16; }}
             server {{
                 listen 127.0.0.1:PORT;
                 location / {{
                     proxy_pass https://inner; proxy_http_version 1.1; proxy_set_header Connection \"\";
                 }}
             }}"
        ));
        format!("{outer} / {ALL_KINDS}")
    });
}

#[test]
fn stream() {
    same_as_kernel(|scene| {
        let behind = scene.backend("http");
        let port = scene.nginx_stream(&format!(
            "server {{ listen 127.0.0.1:PORT; proxy_pass 127.0.0.1:{behind}; }}"
        ));
        format!("{port} / {ALL_KINDS}")
    });
}

/// Streams through TLS from the client, and through TLS between two nginx.
#[test]
fn stream_with_tls() {
    same_as_kernel(|scene| {
        let behind = scene.backend("http");
        let tls = "ssl; ssl_certificate cert.pem; ssl_certificate_key key.pem";
        let inner = scene.nginx_stream(&format!(
            "server {{ listen 127.0.0.1:PORT {tls}; proxy_pass 127.0.0.1:{behind}; }}"
        ));
        let outer = scene.nginx_stream(&format!(
            "server {{ listen 127.0.0.1:PORT {tls}; proxy_pass 127.0.0.1:{inner}; proxy_ssl on; }}"
        ));
        format!("{outer} / {ALL_KINDS} tls")
    });
}

#[test]
fn haproxy_before_nginx() {
    same_as_kernel(|scene| {
        let behind = scene.backend("http");
        let nginx = http_proxy(scene, behind);
        format!("{} /buffered {ALL_KINDS}", scene.haproxy(nginx))
    });
}

/// haproxy in front of nginx in front of nginx, nothing of it buffered.
#[test]
fn chain_of_three() {
    same_as_kernel(|scene| {
        let behind = scene.backend("http");
        let inner = http_proxy(scene, behind);
        let outer = http_proxy(scene, inner);
        format!("{} /passed {ALL_KINDS}", scene.haproxy(outer))
    });
}
