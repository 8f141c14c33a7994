//! A small client of HTTP/1.1: it gets what is at a URL, and nothing else.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The port where none is named.
const PORT: u16 = 80;

/// More than this nobody says of its state.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// So many heads with a status below 200 may come before the answer: nobody needs more than one or two.
const HEADS_BEFORE_MAX: usize = 16;

/// How much is read at once.
const PART_BYTES: usize = 1 << 14;

const LINE_END: &[u8] = b"\r\n";
const HEAD_END: &[u8] = b"\r\n\r\n";

/// What answers of a server that speaks it begin with.
const SPOKEN: &[u8] = b"HTTP/1.";

/// A URL that can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Url {
    address: SocketAddr,
    /// Path and query.
    target: String,
}

impl Url {
    /// Takes one apart. `address_of` knows the addresses of hosts.
    ///
    /// # Errors
    /// In words, if it is none that can be asked.
    pub(crate) fn parse(
        text: &str,
        address_of: &dyn Fn(&str) -> Option<Ipv4Addr>,
    ) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!("\"{text}\" cannot be asked: {why}, such as http://{{address}}:8080/status")
        };
        let rest = text
            .strip_prefix("http://")
            .ok_or_else(|| wrong("a URL begins with http://"))?;
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains('#') {
            return Err(wrong("a URL has no blanks, no # and no other letters"));
        }
        let path = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(path);
        let (host, port) = match authority.split_once(':') {
            None => (authority, PORT),
            Some((host, port)) => {
                let port = port.parse().ok().filter(|port| *port != 0);
                (host, port.ok_or_else(|| wrong("a port is a number"))?)
            }
        };
        let address = address_of(host)
            .ok_or_else(|| wrong(&format!("its host `{host}` has to be a node's address")))?;
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self {
            address: SocketAddr::from((address, port)),
            target: format!("{slash}{target}"),
        })
    }

    /// As it is written.
    pub(crate) fn text(&self) -> String {
        format!("http://{}{}", self.address, self.target)
    }
}

/// What a server has answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The status, in words.
    pub(crate) words: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Whether it says that all is well.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether it says that the server is not able to answer.
    pub(crate) fn is_refusal(&self) -> bool {
        self.status >= 500
    }
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nobody answers, or not in time, or not to the end.
    Silent,
    /// What comes is no answer.
    Wrong(String),
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Self {
        Self::Silent
    }
}

/// Gets what is at a URL.
///
/// # Errors
/// If there is no whole answer within this time, or it is none of HTTP/1.1.
pub(crate) fn get(url: &Url, within: Duration) -> Result<Answer, Failure> {
    let end = Instant::now() + within;
    let mut stream = TcpStream::connect_timeout(&url.address, left(end)?)?;
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: crashpoint\r\nAccept: application/json, */*\r\n\
         Connection: close\r\n\r\n",
        url.target, url.address
    );
    stream.set_write_timeout(Some(left(end)?))?;
    stream.write_all(request.as_bytes())?;
    let (mut came, mut part) = (Vec::new(), vec![0; PART_BYTES]);
    loop {
        stream.set_read_timeout(Some(left(end)?))?;
        let count = match stream.read(&mut part) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        came.extend_from_slice(&part[..count]);
        let is_over = count == 0;
        if let Some(answer) = parse(&came, is_over).map_err(Failure::Wrong)? {
            return Ok(answer);
        }
        if is_over {
            return Err(Failure::Silent);
        }
        if came.len() > ANSWER_BYTES_MAX {
            let what = format!("answers with more than {ANSWER_BYTES_MAX} bytes");
            return Err(Failure::Wrong(what));
        }
    }
}

/// How long there is until the end.
fn left(end: Instant) -> Result<Duration, Failure> {
    let left = end.saturating_duration_since(Instant::now());
    Some(left)
        .filter(|left| !left.is_zero())
        .ok_or(Failure::Silent)
}

/// How the end of a body is known.
enum Body {
    Chunks,
    Bytes(usize),
    UntilEnd,
}

/// The status and what it is called, of the first line of an answer.
fn words_of_status(line: &str) -> &str {
    line.split_once(' ').map_or("", |(_, words)| words).trim()
}

/// The answer, once it is whole. After the end of what comes `is_over` is true.
fn parse(mut came: &[u8], is_over: bool) -> Result<Option<Answer>, String> {
    for _ in 0..=HEADS_BEFORE_MAX {
        let Some((status, head, rest)) = head(came)? else {
            return Ok(None);
        };
        if status < 200 {
            // What it is for comes after that.
            came = rest;
            continue;
        }
        let mut lines = head.split("\r\n");
        let words = words_of_status(lines.next().unwrap_or_default()).to_owned();
        let body = match kind_of_body(status, lines)? {
            Body::Chunks => chunks(rest)?,
            Body::Bytes(count) => rest.get(..count).map(<[u8]>::to_vec),
            Body::UntilEnd => is_over.then(|| rest.to_vec()),
        };
        return Ok(body.map(|body| Answer {
            status,
            words,
            body,
        }));
    }
    Err(format!(
        "answers with more than {HEADS_BEFORE_MAX} statuses below 200, and with none that ends that"
    ))
}

/// The status of a head, its lines, and what comes after it.
type Head<'a> = (u16, Cow<'a, str>, &'a [u8]);

/// The first head, once it is whole.
fn head(came: &[u8]) -> Result<Option<Head<'_>>, String> {
    let beginning = &came[..came.len().min(SPOKEN.len())];
    if !SPOKEN.starts_with(beginning) {
        return Err("does not speak HTTP/1.1".into());
    }
    let Some((head, rest)) = split(came, HEAD_END) else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(head);
    let first = head.split("\r\n").next().unwrap_or_default();
    let status = words_of_status(first).split(' ').next();
    let status = status.and_then(|text| text.parse().ok());
    let status = status.ok_or_else(|| "answers without a status".to_owned())?;
    Ok(Some((status, head, rest)))
}

fn kind_of_body<'a>(status: u16, lines: impl Iterator<Item = &'a str>) -> Result<Body, String> {
    if status == 204 || status == 304 {
        return Ok(Body::Bytes(0));
    }
    let mut kind = Body::UntilEnd;
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if name == "transfer-encoding" && value.eq_ignore_ascii_case("chunked") {
            return Ok(Body::Chunks);
        }
        if name == "transfer-encoding" {
            return Err(format!("answers in the transfer encoding {value}"));
        }
        if name == "content-length" {
            let count = value.parse();
            kind = Body::Bytes(count.map_err(|_| format!("answers with the length {value}"))?);
        }
    }
    Ok(kind)
}

/// A body in chunks, once it is whole. What may follow it says nothing.
fn chunks(mut rest: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut body = Vec::new();
    while let Some((line, after)) = split(rest, LINE_END) {
        let size = String::from_utf8_lossy(line);
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16)
            .ok()
            .filter(|size| *size <= ANSWER_BYTES_MAX)
            .ok_or_else(|| format!("answers with a chunk of the size `{size}`"))?;
        if size == 0 {
            return Ok(Some(body));
        }
        let Some((chunk, after)) = after.split_at_checked(size) else {
            return Ok(None);
        };
        body.extend_from_slice(chunk);
        if after.len() < LINE_END.len() {
            return Ok(None);
        }
        rest = after
            .strip_prefix(LINE_END)
            .ok_or_else(|| "answers with a chunk that is longer than it says".to_owned())?;
    }
    Ok(None)
}

/// What is before and after the first mark.
fn split<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(mark.len()).position(|part| part == mark)?;
    Some((&bytes[..at], &bytes[at + mark.len()..]))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn node(host: &str) -> Option<Ipv4Addr> {
        (host == "10.77.0.1").then_some(Ipv4Addr::new(10, 77, 0, 1))
    }

    #[test]
    fn a_url_names_a_node_a_port_and_what_to_get() {
        for (text, address, target) in [
            ("http://10.77.0.1", "10.77.0.1:80", "/"),
            (
                "http://10.77.0.1:8080/a/b?c=d",
                "10.77.0.1:8080",
                "/a/b?c=d",
            ),
            ("http://10.77.0.1:8080?c", "10.77.0.1:8080", "/?c"),
        ] {
            let url = Url::parse(text, &node).expect("it is one");
            assert_eq!(url.address.to_string(), address);
            assert_eq!(url.target, target);
        }
        for (text, why) in [
            ("https://10.77.0.1/", "a URL begins with http://"),
            ("10.77.0.1/", "a URL begins with http://"),
            ("http://10.77.0.1/a b", "a URL has no blanks"),
            ("http://10.77.0.1/\r\nX: y", "a URL has no blanks"),
            ("http://10.77.0.1/#a", "a URL has no blanks, no #"),
            ("http://10.77.0.1:x/", "a port is a number"),
            ("http://10.77.0.1:0/", "a port is a number"),
            ("http://10.77.0.9/", "its host `10.77.0.9` has to be"),
            ("http:///", "its host `` has to be"),
        ] {
            let error = Url::parse(text, &node).expect_err("it is none");
            assert!(error.contains(why), "{error}");
        }
    }

    /// What an answer is once it is whole; until then there is none.
    fn whole(text: &str) -> Answer {
        let bytes = text.as_bytes();
        for count in 0..bytes.len() {
            assert_eq!(parse(&bytes[..count], false), Ok(None), "{count}");
        }
        let answer = parse(bytes, false).expect("it is one");
        answer.expect("it is whole")
    }

    #[test]
    fn an_answer_is_whole_when_its_body_is() {
        let told = whole("HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\n\r\nhello");
        assert_eq!((told.status, &*told.words), (200, "200 OK"));
        assert_eq!(told.body, b"hello");
        let chunked = "HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n\
                       5\r\nhello\r\nB;x=y\r\n to\r\nothers\r\n0\r\n";
        let told = whole(chunked);
        assert_eq!(
            (told.status, &*told.words),
            (503, "503 Service Unavailable")
        );
        assert_eq!(told.body, b"hello to\r\nothers");
        assert!(told.is_refusal() && !told.is_success());
        let none = whole("HTTP/1.0 204 No Content\r\n\r\n");
        assert_eq!(none.body, b"");
        let after =
            whole("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(after.status, 200);
        let open = b"HTTP/1.0 200 OK\r\n\r\nhel";
        assert_eq!(parse(open, false), Ok(None));
        let ended = parse(open, true).expect("it is one").expect("it is whole");
        assert_eq!(ended.body, b"hel");
        let torn = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel";
        assert_eq!(parse(torn, true), Ok(None));
    }

    #[test]
    fn who_only_says_that_an_answer_will_come_is_told_whatever_there_is_of_that() {
        let before = "HTTP/1.1 102 Processing\r\n\r\n";
        let most = before.repeat(HEADS_BEFORE_MAX) + "HTTP/1.1 204 No Content\r\n\r\n";
        assert_eq!(whole(&most).status, 204);
        // As much as is read of an answer: more than a thread can have functions call themselves for.
        let endless = before.repeat(ANSWER_BYTES_MAX / before.len());
        let error = parse(endless.as_bytes(), false).expect_err("it is none");
        assert!(error.contains("more than 16 statuses below 200"), "{error}");
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let head = |more: &str| format!("HTTP/1.1 200 OK\r\n{more}\r\n\r\n");
        for (text, what) in [
            ("SSH-2.0".to_owned(), "does not speak HTTP/1.1"),
            ("HTTP/1.1 OK\r\n\r\n".to_owned(), "answers without a status"),
            (
                head("Content-Length: 5 bytes"),
                "answers with the length 5 bytes",
            ),
            (
                head("Transfer-Encoding: gzip"),
                "in the transfer encoding gzip",
            ),
            (
                head("Transfer-Encoding: chunked") + "x\r\n",
                "of the size `x`",
            ),
            (
                head("Transfer-Encoding: chunked") + "fffffffffffffffe\r\n",
                "a chunk of the size",
            ),
            (
                head("Transfer-Encoding: chunked") + "1\r\nab\r\n",
                "longer than it says",
            ),
        ] {
            let error = parse(text.as_bytes(), false).expect_err("it is none");
            assert!(error.contains(what), "{error}");
        }
    }

    /// Asks somebody who says this to whoever connects, and then nothing for a while.
    fn asked(says: &'static str, goes: bool) -> Result<Answer, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            let mut request = [0; 1024];
            let count = stream.read(&mut request).expect("it is read");
            stream.write_all(says.as_bytes()).expect("it is said");
            if !goes {
                // Until the other side has gone.
                let _ = stream.read(&mut [0]);
            }
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        let target = "/status?of=all".to_owned();
        let answer = get(&Url { address, target }, Duration::from_millis(300));
        let request = server.join().expect("it ends");
        assert!(
            request.starts_with("GET /status?of=all HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(
            request.contains(&format!("\r\nHost: {address}\r\n")),
            "{request}"
        );
        answer
    }

    #[test]
    fn who_does_not_answer_to_the_end_or_in_time_is_silent() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(asked(whole, false).expect("it answers").body, b"ok");
        let torn = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok";
        assert_eq!(asked(torn, true), Err(Failure::Silent));
        assert_eq!(asked(torn, false), Err(Failure::Silent));
        assert_eq!(asked("", false), Err(Failure::Silent));
        let refused = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let url = Url {
            address: refused.expect("a port"),
            target: "/".into(),
        };
        let answer = get(&url, Duration::from_secs(5));
        assert_eq!(
            answer,
            Err(Failure::Silent),
            "nobody listens there any more"
        );
    }
}
