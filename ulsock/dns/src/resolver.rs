//! Asks the resolvers of this host: by UDP many questions at a time, by TCP what is too long for that.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::message::{self, Question, Reply};

const CONFIGURATION: &str = "/etc/resolv.conf";
/// As the C library has it.
const MOST_SERVERS: usize = 3;
const PORT: u16 = 53;
/// Questions under way.
const AT_ONCE: usize = 32;
/// Until a question is asked again, and how often it is asked.
const PATIENCE: Duration = Duration::from_millis(1500);
const TRIES: usize = 3;
/// By UDP: what we say that we take, and more.
const LONGEST: usize = 4096;

#[derive(Clone, Debug)]
pub struct Resolver {
    servers: Vec<SocketAddr>,
    /// Also what nobody has validated is believed.
    trust: bool,
    /// Their bit AD is what they have validated themselves: so says the administrator.
    validate: bool,
}

/// A reply, or why there is none.
pub type Answered = Result<Reply, String>;

/// A question that waits for its answer.
struct Waiting {
    id: u16,
    bytes: Vec<u8>,
    place: usize,
    sent: Instant,
    tries: usize,
}

impl Resolver {
    /// By servers that the administrator has named for this.
    pub fn new(servers: Vec<SocketAddr>, trust: bool) -> Resolver {
        Resolver {
            servers,
            trust,
            validate: true,
        }
    }

    pub fn of_system(trust: bool) -> Result<Resolver, String> {
        let text = fs::read_to_string(CONFIGURATION);
        let text = text.map_err(|why| format!("{CONFIGURATION} cannot be read: {why}"))?;
        let servers = servers(&text);
        match servers.is_empty() {
            true => Err(format!("{CONFIGURATION} names no nameserver")),
            false => Ok(Resolver {
                servers,
                trust,
                validate: trusts_ad(&text),
            }),
        }
    }

    /// The answer to each question, or why there is none to believe. What one server does not answer, the next is asked.
    pub fn ask(&self, questions: &[Question], by: Instant) -> Vec<Answered> {
        let mut replies: Vec<Answered> = vec![Err("no answer".to_owned()); questions.len()];
        for server in &self.servers {
            let open = (0..replies.len()).filter(|it| replies[*it].is_err());
            let open: Vec<usize> = open.collect();
            if open.is_empty() {
                break;
            }
            let asked: Vec<Question> = open.iter().map(|it| questions[*it].clone()).collect();
            for (place, reply) in open.into_iter().zip(self.ask_server(*server, &asked, by)) {
                replies[place] = reply.map_err(|why| format!("{}: {why}", server.ip()));
            }
        }
        replies
    }

    fn ask_server(&self, server: SocketAddr, questions: &[Question], by: Instant) -> Vec<Answered> {
        if let Some(why) = self.distrusts(server) {
            return vec![Err(why); questions.len()];
        }
        let replies = by_udp(server, questions, by).into_iter().zip(questions);
        let replies = replies.map(|(reply, question)| {
            let reply = match reply? {
                reply if reply.truncated => {
                    by_tcp(server, question, by).map_err(|why| why.to_string())?
                }
                reply => reply,
            };
            match self.trust || reply.authentic {
                true => Ok(reply),
                false => Err(format!(
                    "it has not validated {} (the bit AD is missing): sign the zone (DNSSEC), or --trust-dns",
                    question.name
                )),
            }
        });
        replies.collect()
    }

    /// Why its word proves nothing.
    fn distrusts(&self, server: SocketAddr) -> Option<String> {
        if self.trust {
            None
        } else if !server.ip().is_loopback() {
            Some("it is not on this host, so that its word proves nothing: use a resolver on this host that validates (DNSSEC), or --trust-dns".to_owned())
        } else if !self.validate {
            Some(format!(
                "a server on this host may hand on what others say: if it validates (DNSSEC), put `options trust-ad` into {CONFIGURATION}, or name it (dns://{}/...)",
                server.ip()
            ))
        } else {
            None
        }
    }
}

fn servers(configuration: &str) -> Vec<SocketAddr> {
    let words = configuration.lines().map(str::split_whitespace);
    let servers = words.filter_map(|mut words| match words.next() {
        Some("nameserver") => words.next()?.parse::<IpAddr>().ok(),
        _ => None,
    });
    let servers = servers.map(|ip| SocketAddr::new(ip, PORT));
    servers.take(MOST_SERVERS).collect()
}

/// As the C library has it: else the bit AD of these servers counts for nothing.
fn trusts_ad(configuration: &str) -> bool {
    let words = configuration.lines().map(str::split_whitespace);
    let mut options = words.filter_map(|mut words| (words.next()? == "options").then_some(words));
    options.any(|mut words| words.any(|word| word == "trust-ad"))
}

fn random_id(taken: &[Waiting]) -> Result<u16, String> {
    loop {
        let id = os::random().map_err(|why| format!("no random numbers: {why}"))? as u16;
        if taken.iter().all(|waiting| waiting.id != id) {
            return Ok(id);
        }
    }
}

/// Connected: the kernel drops what others send. The port is one that nobody knows.
fn socket(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => [0; 4].into(),
        SocketAddr::V6(_) => [0; 16].into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    Ok(socket)
}

/// What goes wrong with one question costs that one; what goes wrong with the server costs those that are open.
fn by_udp(server: SocketAddr, questions: &[Question], by: Instant) -> Vec<Answered> {
    let mut replies: Vec<Option<Answered>> = vec![None; questions.len()];
    let done = exchange(server, questions, by, &mut replies);
    let why = done.err().unwrap_or_else(|| "no answer".to_owned());
    let replies = replies.into_iter();
    replies
        .map(|reply| reply.unwrap_or_else(|| Err(why.clone())))
        .collect()
}

fn exchange(
    server: SocketAddr,
    questions: &[Question],
    by: Instant,
    replies: &mut [Option<Answered>],
) -> Result<(), String> {
    let socket = socket(server).map_err(|why| why.to_string())?;
    let (mut waiting, mut next) = (Vec::<Waiting>::new(), 0);
    while next < questions.len() || !waiting.is_empty() {
        while next < questions.len() && waiting.len() < AT_ONCE {
            let id = random_id(&waiting)?;
            match message::question(id, &questions[next]) {
                Ok(bytes) => waiting.push(Waiting {
                    id,
                    place: next,
                    sent: send(&socket, &bytes)?,
                    bytes,
                    tries: 1,
                }),
                Err(why) => replies[next] = Some(Err(why)),
            }
            next += 1;
        }
        hear(&socket, questions, &mut waiting, replies)?;
        let now = Instant::now();
        if now >= by {
            return Err("no answer in time".to_owned());
        }
        ask_again(&socket, &mut waiting, now)?;
        let given_up = waiting.extract_if(.., |it| it.tries > TRIES).count();
        // It answers others.
        if given_up > 0 && !replies.iter().any(Option::is_some) {
            return Err("no answer".to_owned());
        }
    }
    Ok(())
}

fn ask_again(socket: &UdpSocket, waiting: &mut [Waiting], now: Instant) -> Result<(), String> {
    for late in waiting.iter_mut().filter(|it| it.sent + PATIENCE <= now) {
        late.tries += 1;
        if late.tries <= TRIES {
            late.sent = send(socket, &late.bytes)?;
        }
    }
    Ok(())
}

fn send(socket: &UdpSocket, bytes: &[u8]) -> Result<Instant, String> {
    socket.send(bytes).map_err(|why| why.to_string())?;
    Ok(Instant::now())
}

/// One message, or none for a while. What is no answer to anything is not heard.
fn hear(
    socket: &UdpSocket,
    questions: &[Question],
    waiting: &mut Vec<Waiting>,
    replies: &mut [Option<Answered>],
) -> Result<(), String> {
    let mut bytes = [0; LONGEST];
    let timeout = socket.set_read_timeout(Some(PATIENCE / 10));
    let length = match timeout.and_then(|()| socket.recv(&mut bytes)) {
        Ok(length) => length,
        Err(why) if is_timeout(&why) => return Ok(()),
        Err(why) => return Err(why.to_string()),
    };
    let message = &bytes[..length];
    let id = message::id(message);
    let place = waiting.iter().position(|waiting| Some(waiting.id) == id);
    if let Some(place) = place
        && let asked = waiting[place].place
        && let Some(reply) = message::reply(message, &questions[asked])
    {
        replies[asked] = Some(Ok(reply));
        waiting.swap_remove(place);
    }
    Ok(())
}

fn is_timeout(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn by_tcp(server: SocketAddr, question: &Question, by: Instant) -> io::Result<Reply> {
    // For all of it: a server that sends byte by byte does not hold us up.
    let by = by.min(Instant::now() + PATIENCE * 2);
    let mut stream = TcpStream::connect_timeout(&server, left(by)?)?;
    stream.set_write_timeout(Some(left(by)?))?;
    let id = random_id(&[]).map_err(io::Error::other)?;
    let bytes = message::question(id, question).map_err(io::Error::other)?;
    let length = (bytes.len() as u16).to_be_bytes();
    stream.write_all(&[&length[..], &bytes].concat())?;
    let mut length = [0; 2];
    read_all(&mut stream, &mut length, by)?;
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    read_all(&mut stream, &mut answer, by)?;
    let reply = Some(answer).filter(|it| message::id(it) == Some(id));
    let reply = reply.and_then(|it| message::reply(&it, question));
    // It cannot be longer than that.
    let reply = reply.filter(|reply| !reply.truncated);
    reply.ok_or_else(|| io::Error::other("an answer that is none"))
}

fn left(by: Instant) -> io::Result<Duration> {
    let left = by.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn read_all(stream: &mut TcpStream, mut room: &mut [u8], by: Instant) -> io::Result<()> {
    while !room.is_empty() {
        stream.set_read_timeout(Some(left(by)?))?;
        match stream.read(room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => room = &mut room[length..],
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Kind;

    #[test]
    fn servers_of_a_configuration() {
        let text =
            "# a\nsearch example.org\nnameserver 127.0.0.53\nnameserver x\nnameserver fd00::1\n";
        let expected: Vec<SocketAddr> = ["127.0.0.53:53", "[fd00::1]:53"]
            .map(|it| it.parse().unwrap())
            .into();
        assert_eq!(servers(text), expected);
        assert_eq!(
            servers(&"nameserver 10.0.0.1\n".repeat(9)).len(),
            MOST_SERVERS
        );
    }

    #[test]
    fn the_word_of_the_systems_resolver_counts_if_the_system_says_so() {
        assert!(trusts_ad("nameserver 127.0.0.53\noptions edns0 trust-ad\n"));
        for text in [
            "",
            "nameserver 127.0.0.53",
            "options edns0",
            "# options trust-ad",
            "trust-ad",
        ] {
            assert!(!trusts_ad(text), "{text}");
        }
        let resolver = |trust| Resolver {
            validate: false,
            ..Resolver::new(vec![server(true)], trust)
        };
        let ask = |trust| {
            let question = Question {
                name: "host.example.org".to_owned(),
                kind: Kind::A,
            };
            let by = Instant::now() + Duration::from_secs(20);
            let replies = resolver(trust).ask(&[question], by);
            replies.into_iter().collect::<Result<Vec<_>, _>>()
        };
        assert!(ask(false).unwrap_err().contains("options trust-ad"));
        assert!(ask(true).is_ok());
    }

    /// A server that answers every question after some junk, and has validated its answers or not.
    fn server(validates: bool) -> SocketAddr {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, asker)) = server.recv_from(&mut bytes) {
                let mut answer = bytes[..length].to_vec();
                answer[2] |= 0x80;
                answer[3] = if validates { 0x20 } else { 0 };
                for junk in [&b""[..], b"x", &bytes[..length]] {
                    let _ = server.send_to(junk, asker);
                }
                answer[0] ^= 1;
                let _ = server.send_to(&answer, asker);
                answer[0] ^= 1;
                let _ = server.send_to(&answer, asker);
            }
        });
        address
    }

    #[test]
    fn a_server_that_sends_byte_by_byte_is_not_waited_for() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            while stream.write_all(&[1]).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let question = Question {
            name: "host.example.org".to_owned(),
            kind: Kind::A,
        };
        let began = Instant::now();
        let error = by_tcp(address, &question, began + Duration::from_millis(300));
        assert!(error.is_err() && began.elapsed() < Duration::from_secs(3));
    }

    #[test]
    fn junk_is_not_heard_and_what_is_not_validated_is_not_believed() {
        let question = |number: usize| Question {
            name: format!("host{number}.example.org"),
            kind: Kind::A,
        };
        let questions: Vec<Question> = (0..100).map(question).collect();
        let by = Instant::now() + Duration::from_secs(20);
        let servers = [false, true].map(server);
        let ask = |server: SocketAddr, trust| {
            let replies = Resolver::new(vec![server], trust).ask(&questions, by);
            replies.into_iter().collect::<Result<Vec<_>, _>>()
        };
        assert_eq!(ask(servers[0], true).unwrap().len(), 100);
        assert!(ask(servers[0], false).unwrap_err().contains("AD"));
        assert_eq!(ask(servers[1], false).unwrap().len(), 100);
        let far = ask("192.0.2.1:53".parse().unwrap(), false);
        assert!(far.unwrap_err().contains("not on this host"));
    }

    /// The server says nothing, or nonsense, of one name, and has not validated another one.
    #[test]
    fn a_question_that_gets_no_answer_costs_no_other() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, asker)) = server.recv_from(&mut bytes) {
                let mut answer = bytes[..length].to_vec();
                let first = answer[13];
                answer[2] |= 0x80;
                answer[3] = if first == b'b' { 0 } else { 0x20 };
                match first {
                    b'c' => answer[7] = 200,
                    b'd' => continue,
                    _ => {}
                }
                let _ = server.send_to(&answer, asker);
            }
        });
        let question = |name: &str| Question {
            name: name.to_owned(),
            kind: Kind::A,
        };
        let long = "x".repeat(64);
        let questions = ["a", "b", "c", "d", &long, "e"].map(question);
        let by = Instant::now() + Duration::from_secs(20);
        let replies = Resolver::new(vec![address], false).ask(&questions, by);
        let good: Vec<bool> = replies.iter().map(Result::is_ok).collect();
        assert_eq!(
            good,
            [true, false, false, false, false, true],
            "{replies:?}"
        );
    }
}
