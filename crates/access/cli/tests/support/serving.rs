//! A server that `strongroom serve` runs.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use super::Place;

/// A server in the folder `srv`. It is killed when this is dropped.
pub(crate) struct Serving {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Serving {
    pub(crate) fn start(place: &Place, listen: &str) -> Self {
        let arguments = ["serve", "srv", "--listen", listen, "--account", "anna"];
        let mut command = place.command(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    pub(crate) fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// Whether it says nothing more.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.lines.next().is_none()
    }

    /// Reads what the first start says; gives the URL of the vault `name` there, with the token.
    pub(crate) fn url(&mut self, name: &str) -> String {
        let lines: Vec<String> = (0..4).map(|_| self.line()).collect();
        let url = lines[3].split('\'').nth(1).unwrap();
        url.replace("/NAME", &format!("/{name}"))
    }

    /// Interrupts it as Ctrl-C does; gives its exit code.
    pub(crate) fn interrupt(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
