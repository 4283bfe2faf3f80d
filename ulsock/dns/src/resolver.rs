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
}

/// A question that waits for its answer.
struct Waiting {
    id: u16,
    place: usize,
    sent: Instant,
    tries: usize,
}

impl Resolver {
    pub fn new(servers: Vec<SocketAddr>, trust: bool) -> Resolver {
        Resolver { servers, trust }
    }

    pub fn of_system(trust: bool) -> Result<Resolver, String> {
        let text = fs::read_to_string(CONFIGURATION);
        let text = text.map_err(|why| format!("{CONFIGURATION} cannot be read: {why}"))?;
        let servers = servers(&text);
        match servers.is_empty() {
            true => Err(format!("{CONFIGURATION} names no nameserver")),
            false => Ok(Resolver { servers, trust }),
        }
    }

    /// The answer to each question. An error: one of them got none.
    pub fn ask(&self, questions: &[Question], by: Instant) -> Result<Vec<Reply>, String> {
        let mut why = String::new();
        for server in &self.servers {
            let asked = self.ask_server(*server, questions, by);
            match asked {
                Ok(replies) => return Ok(replies),
                Err(error) => why = format!("{}: {error}", server.ip()),
            }
        }
        Err(why)
    }

    fn ask_server(
        &self,
        server: SocketAddr,
        questions: &[Question],
        by: Instant,
    ) -> Result<Vec<Reply>, String> {
        if !self.trust && !server.ip().is_loopback() {
            return Err("it is not on this host, so that its word proves nothing: use a resolver on this host that validates (DNSSEC), or --trust-dns".to_owned());
        }
        let failed = |why: io::Error| why.to_string();
        let mut replies = by_udp(server, questions, by)?;
        for (reply, question) in replies.iter_mut().zip(questions) {
            if reply.truncated {
                *reply = by_tcp(server, question, by).map_err(failed)?;
            }
            if !self.trust && !reply.authentic {
                let name = &question.name;
                return Err(format!(
                    "it has not validated {name} (the bit AD is missing): sign the zone (DNSSEC), or --trust-dns"
                ));
            }
        }
        Ok(replies)
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

fn by_udp(server: SocketAddr, questions: &[Question], by: Instant) -> Result<Vec<Reply>, String> {
    let socket = socket(server).map_err(|why| why.to_string())?;
    let mut replies: Vec<Option<Reply>> = vec![None; questions.len()];
    let (mut waiting, mut next) = (Vec::<Waiting>::new(), 0);
    while next < questions.len() || !waiting.is_empty() {
        while next < questions.len() && waiting.len() < AT_ONCE {
            let id = random_id(&waiting)?;
            waiting.push(Waiting {
                id,
                place: next,
                sent: send(&socket, id, &questions[next])?,
                tries: 1,
            });
            next += 1;
        }
        hear(&socket, questions, &mut waiting, &mut replies)?;
        let now = Instant::now();
        if now >= by {
            return Err("no answer in time".to_owned());
        }
        for late in waiting.iter_mut().filter(|it| it.sent + PATIENCE <= now) {
            if late.tries == TRIES {
                return Err("no answer".to_owned());
            }
            late.tries += 1;
            late.sent = send(&socket, late.id, &questions[late.place])?;
        }
    }
    let replies: Option<Vec<Reply>> = replies.into_iter().collect();
    replies.ok_or_else(|| "no answer".to_owned())
}

fn send(socket: &UdpSocket, id: u16, question: &Question) -> Result<Instant, String> {
    let sent = socket.send(&message::question(id, question)?);
    sent.map_err(|why| why.to_string())?;
    Ok(Instant::now())
}

/// One message, or none for a while. What is no answer to anything is not heard.
fn hear(
    socket: &UdpSocket,
    questions: &[Question],
    waiting: &mut Vec<Waiting>,
    replies: &mut [Option<Reply>],
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
        replies[asked] = Some(reply);
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
    let left = || {
        let left = by.saturating_duration_since(Instant::now());
        left.max(Duration::from_millis(1)).min(PATIENCE * 2)
    };
    let mut stream = TcpStream::connect_timeout(&server, left())?;
    stream.set_read_timeout(Some(left()))?;
    stream.set_write_timeout(Some(left()))?;
    let id = random_id(&[]).map_err(io::Error::other)?;
    let bytes = message::question(id, question).map_err(io::Error::other)?;
    let length = (bytes.len() as u16).to_be_bytes();
    stream.write_all(&[&length[..], &bytes].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer)?;
    let reply = Some(answer).filter(|it| message::id(it) == Some(id));
    let reply = reply.and_then(|it| message::reply(&it, question));
    // It cannot be longer than that.
    let reply = reply.filter(|reply| !reply.truncated);
    reply.ok_or_else(|| io::Error::other("an answer that is none"))
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
    fn junk_is_not_heard_and_what_is_not_validated_is_not_believed() {
        let question = |number: usize| Question {
            name: format!("host{number}.example.org"),
            kind: Kind::A,
        };
        let questions: Vec<Question> = (0..100).map(question).collect();
        let by = Instant::now() + Duration::from_secs(20);
        let servers = [false, true].map(server);
        let ask =
            |server: SocketAddr, trust| Resolver::new(vec![server], trust).ask(&questions, by);
        assert_eq!(ask(servers[0], true).unwrap().len(), 100);
        assert!(ask(servers[0], false).unwrap_err().contains("AD"));
        assert_eq!(ask(servers[1], false).unwrap().len(), 100);
        let far = Resolver::new(vec!["192.0.2.1:53".parse().unwrap()], false);
        assert!(
            far.ask(&questions, by)
                .unwrap_err()
                .contains("not on this host")
        );
    }
}
