//! The token of a server goes to that server and to nobody else, whatever the server answers and whatever the environment says.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use strongroom_remote::{Address, ObjectName, Remote};

/// The answer of a server that has what was asked for.
const HAS_IT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Tells the child of a test which vault to ask for.
const CHILD: &str = "STRONGROOM_TEST_CREDENTIALS_URL";

/// Somebody on this machine who gives every request one answer, and keeps the requests.
struct Listener {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    fn start(answer: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        // It ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
                // Before the answer: who has that finds the request here.
                kept.lock().unwrap().push(head.join("\n").to_lowercase());
                // Whoever has gone needs no answer.
                let _ = (&stream).write_all(answer.as_bytes());
            }
        });
        Self { port, asked }
    }

    /// The vault at this server, with a token.
    fn url(&self) -> String {
        format!("http://canary@127.0.0.1:{}/anna/photos", self.port)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// It was asked, and got the token each time: so what another one did not get means something.
    fn assert_has_token(&self) {
        let asked = self.asked();
        let has = |one: &String| one.contains("authorization: bearer canary");
        assert!(!asked.is_empty() && asked.iter().all(has), "{asked:?}");
    }
}

fn vault(url: &str) -> Arc<dyn Remote> {
    Address::parse(url).unwrap().open().unwrap()
}

fn object() -> ObjectName {
    ObjectName::new("segments/00").unwrap()
}

/// Goal: a server cannot send the token on. Method: it answers that what was asked for is elsewhere, where somebody listens. Failed before:
/// without the refusal to follow, the one who listens was asked, and no test noticed.
/// SECURITY.md, claim 22.
#[test]
fn a_server_that_redirects_is_not_followed() {
    let elsewhere = Listener::start(HAS_IT.to_owned());
    let server = Listener::start(format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        elsewhere.url()
    ));
    let vault = vault(&server.url());
    for error in [
        vault.has(&object()).unwrap_err(),
        vault.read(&object(), 9).unwrap_err(),
        vault.remove(&object()).unwrap_err(),
    ] {
        assert!(error.to_string().contains("status 307"), "{error}");
    }
    server.assert_has_token();
    assert_eq!(elsewhere.asked(), [""; 0]);
}

/// Goal: what goes to a server on this machine in clear goes to no proxy that the environment names. Method: this test runs itself with such
/// an environment, and a proxy that listens. Failed before: without the order to use none, the proxy got the token, and no test noticed.
/// SECURITY.md, claim 22.
#[test]
fn a_server_on_this_machine_is_asked_through_no_proxy() {
    if let Ok(url) = env::var(CHILD) {
        assert!(vault(&url).has(&object()).unwrap());
        return;
    }
    let proxy = Listener::start(HAS_IT.to_owned());
    let server = Listener::start(HAS_IT.to_owned());
    let mut child = Command::new(env::current_exe().unwrap());
    child.args([
        "--exact",
        "a_server_on_this_machine_is_asked_through_no_proxy",
    ]);
    child.env(CHILD, server.url());
    // The program takes these for no request of a web server, and for no exception.
    for name in ["NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
        child.env_remove(name);
    }
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, format!("http://127.0.0.1:{}", proxy.port));
    }
    let ended = child.output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    server.assert_has_token();
    assert_eq!(proxy.asked(), [""; 0]);
}
