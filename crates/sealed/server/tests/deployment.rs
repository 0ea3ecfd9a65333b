//! What runs a server elsewhere: the unit for systemd, the files in `docs/server`, and the table of settings in the guide agree with the
//! program. Where a program is missing that one of them is for, a test says what it skips.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use strongroom_remote::{Address, Created, ObjectName, Remote, Waited};
use strongroom_server::{Configuration, Quota, Server, Settings, Tls};
use support::scaled::Services;
use support::{Place, start};
use tokio_postgres::config::{Config as Database, Host};
use url::Url;
use yaml_rust2::{Yaml, YamlLoader};

const PROGRAM: &str = env!("CARGO_BIN_EXE_strongroom-server");

/// So long something may take that takes a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends waits so long for requests that are under way, as the guide says.
const LAST_REQUESTS_S: u64 = 20;

/// The two instances in the configuration of nginx.
const INSTANCES: [&str; 2] = ["10.83.14.11:8443", "10.83.14.12:8443"];

fn top() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(3).unwrap().to_path_buf()
}

fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap()
}

/// Runs a program that may not be there: then says what is skipped.
fn run(command: &mut Command, skipped: &str) -> Option<Output> {
    match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let program = command.get_program().display();
            eprintln!("skipped: {skipped}, as there is no program {program}");
            None
        }
        output => Some(output.unwrap()),
    }
}

/// Every name of a setting in the environment that `text` has.
fn names_in(text: &str) -> BTreeSet<String> {
    const START: &str = "STRONGROOM_SERVER_";
    let behind = text.split(START).skip(1);
    let name = |rest: &str| {
        let is_part = |letter: char| letter.is_ascii_uppercase() || letter == '_';
        let end = rest
            .find(|letter: char| !is_part(letter))
            .unwrap_or(rest.len());
        format!("{START}{}", &rest[..end])
    };
    behind.map(name).collect()
}

/// The names in the environment that the program knows.
fn known_names() -> BTreeSet<String> {
    let help = Command::new(PROGRAM).args(["serve", "--help"]).output();
    names_in(&String::from_utf8(help.unwrap().stdout).unwrap())
}

/// The names in a file that the program knows: it lists them for one that it does not.
fn known_in_a_file() -> BTreeSet<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "nonsense = 1").unwrap();
    let said = Configuration::read(file.path()).unwrap_err().to_string();
    let (_, listed) = said.split_once("expected one of").unwrap();
    let quoted = listed.split('`').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

fn in_environment(name: &str) -> String {
    format!("STRONGROOM_SERVER_{}", name.to_uppercase())
}

/// Goal: each setting has one name in each place where it can be, and the guide has all of them. Method: what the program says itself.
#[test]
fn the_table_of_settings_in_the_guide_is_whole() {
    let (in_file, known) = (known_in_a_file(), known_names());
    assert!(in_file.len() > 8, "{in_file:?}");
    let mut expected: BTreeSet<_> = in_file.iter().map(|name| in_environment(name)).collect();
    expected.insert(in_environment("config"));
    assert_eq!(known, expected);
    let guide = read("docs/guide/server.md");
    let (_, settings) = guide.split_once("\n## Settings\n").unwrap();
    let (settings, _) = settings.split_once("\n## ").unwrap();
    let rows = settings.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<&str> = rows.filter(|row| row.contains("STRONGROOM_")).collect();
    assert_eq!(names_in(&rows.join("\n")), known);
    let first = |row: &&str| row.split('|').nth(1).unwrap().trim().to_owned();
    let name = |cell: String| {
        let cell = cell.trim_matches('`');
        cell.split(' ').next().unwrap_or_default().to_owned()
    };
    let named: BTreeSet<String> = rows.iter().map(first).map(name).collect();
    let mut expected = in_file;
    // `--config` is in no file.
    expected.insert(String::new());
    assert_eq!(named, expected);
}

#[test]
fn every_setting_in_the_files_for_operators_is_one_of_the_program() {
    let known = known_names();
    let mut found = 0;
    for path in [
        "docs/server/Dockerfile",
        "docs/server/compose.yaml",
        "docs/server/garage.toml",
        "docs/server/nginx.conf",
        "docs/server/strongroom-server.toml",
        "tools/systemd/strongroom-server.service.in",
    ] {
        let names = names_in(&read(path));
        found += names.len();
        let unknown: Vec<_> = names.difference(&known).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
    assert!(found >= 4, "{found}");
}

/// The lines of a unit that set something: names and values.
fn directives(unit: &str) -> Vec<(&str, &str)> {
    let lines = unit.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).collect()
}

/// Goal: what `make install-server` installs is the program, and a unit that starts it, ends it as it wants to, and shuts it in. Method: it is
/// installed into a folder; systemd says whether it would take the unit, where it is there.
#[test]
fn the_unit_is_whole_and_starts_what_is_installed() {
    let place = tempfile::tempdir().unwrap();
    let installed = Command::new(top().join("tools/install.sh"))
        .arg("server")
        .env("PREFIX", place.path())
        .env_remove("DESTDIR")
        .env("STRONGROOM_SERVER", PROGRAM)
        .output()
        .unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let program = place.path().join("bin/strongroom-server");
    let path = place
        .path()
        .join("lib/systemd/system/strongroom-server.service");
    let unit = fs::read_to_string(&path).unwrap();
    assert!(!unit.contains("@BIN@"));
    let set = directives(&unit);
    let value = |name: &str| {
        let mut all = set.iter().filter(|(found, _)| *found == name);
        all.next().unwrap_or_else(|| panic!("no {name}")).1
    };
    let start = value("ExecStart");
    let (first, rest) = start.split_once(' ').unwrap();
    assert_eq!(
        (Path::new(first), rest),
        (&*program, "serve --config %d/settings")
    );
    let version = Command::new(first).arg("--version").status();
    assert!(version.unwrap().success());
    assert!(value("TimeoutStopSec").parse::<u64>().unwrap() > LAST_REQUESTS_S);
    for (name, expected) in [
        ("Restart", "on-failure"),
        ("KillSignal", "SIGTERM"),
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("StateDirectory", "strongroom-server"),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    // The settings that its head shows.
    let shown = unit.lines().filter_map(|line| line.strip_prefix("#   "));
    let shown: Vec<&str> = shown.filter(|line| line.contains(" = ")).collect();
    let file = place.path().join("settings.toml");
    fs::write(&file, shown.join("\n")).unwrap();
    let settings = Configuration::read(&file).unwrap().settings().unwrap();
    assert_eq!(settings.tls, Tls::SelfSigned);
    let folder = Path::new("/var/lib").join(value("StateDirectory"));
    assert!(format!("{settings:?}").contains(folder.to_str().unwrap()));
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--system"]).arg(&path);
    if let Some(verified) = run(&mut verify, "no unit is verified") {
        let said = String::from_utf8_lossy(&verified.stderr);
        let is_taken = verified.status.success() && !said.contains("strongroom-server.service");
        assert!(is_taken, "{said}");
    }
}

/// The compose file.
fn compose() -> Yaml {
    let mut documents = YamlLoader::load_from_str(&read("docs/server/compose.yaml")).unwrap();
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

/// What a service says of something, or what it takes over from another one says.
fn of<'y>(service: &'y Yaml, key: &str) -> &'y Yaml {
    match &service[key] {
        Yaml::BadValue => &service["<<"][key],
        found => found,
    }
}

/// The keys of a mapping.
fn keys(mapping: &Yaml) -> BTreeSet<&str> {
    let pairs = mapping.as_hash().into_iter().flatten();
    pairs.filter_map(|(key, _)| key.as_str()).collect()
}

fn texts(list: &Yaml) -> Vec<&str> {
    let items = list.as_vec().into_iter().flatten();
    items.filter_map(Yaml::as_str).collect()
}

/// Goal: the compose file starts two instances, what they need, and nginx, each with what it is given and asked for. Method: what it says is
/// compared with the files beside it and with the program; `docker compose` says whether it would take it, where it is there.
#[test]
fn the_compose_file_runs_two_instances_and_all_that_they_need() {
    let folder = top().join("docs/server");
    let compose = compose();
    let services = &compose["services"];
    let names = keys(services);
    let expected = ["database", "instance-1", "instance-2", "nginx", "objects"];
    assert_eq!(names, BTreeSet::from(expected));
    let nginx = read("docs/server/nginx.conf");
    for name in &names {
        let service = &services[*name];
        assert!(
            !texts(&of(service, "healthcheck")["test"]).is_empty(),
            "{name}"
        );
        assert_eq!(of(service, "restart").as_str(), Some("unless-stopped"));
        assert!(keys(of(service, "depends_on")).is_subset(&names), "{name}");
        for mounted in texts(of(service, "volumes")) {
            let (from, to) = mounted.split_once(':').unwrap();
            let is_there = match from.strip_prefix("./") {
                // The operator's own.
                Some(file) if file.starts_with("tls/") => to.starts_with("/etc/ssl/"),
                Some(file) => folder.join(file).is_file(),
                None => keys(&compose["volumes"]).contains(from),
            };
            assert!(is_there, "{name}: {mounted}");
        }
    }
    for (name, at) in [("instance-1", INSTANCES[0]), ("instance-2", INSTANCES[1])] {
        let service = &services[name];
        let address = of(service, "networks")["inner"]["ipv4_address"].as_str();
        assert_eq!(
            Some(at),
            address.map(|own| format!("{own}:8443")).as_deref()
        );
        assert!(nginx.contains(&format!("server {at} ")));
        let check = texts(&of(service, "healthcheck")["test"]);
        assert_eq!(check.last(), Some(&"https://127.0.0.1:8443/readyz"));
        let grace = of(service, "stop_grace_period").as_str().unwrap();
        let grace_s: u64 = grace.trim_end_matches('s').parse().unwrap();
        assert!(grace_s > LAST_REQUESTS_S);
        let build = of(service, "build");
        let context = folder.join(build["context"].as_str().unwrap());
        assert!(context.join("Cargo.lock").is_file());
        assert!(
            context
                .join(build["dockerfile"].as_str().unwrap())
                .is_file()
        );
        let own = keys(of(service, "environment")).into_iter();
        let own: BTreeSet<&str> = own.filter(|name| !name.starts_with("AWS_")).collect();
        let expected = ["STRONGROOM_SERVER_CONFIG", "STRONGROOM_SERVER_DATABASE"];
        assert_eq!(own, BTreeSet::from(expected));
        are_settings_of_an_instance(service);
    }
    let skipped = "docker compose does not read the compose file";
    let mut version = Command::new("docker");
    version.args(["compose", "version"]);
    let Some(version) = run(&mut version, skipped) else {
        return;
    };
    if !version.status.success() {
        return eprintln!("skipped: {skipped}, as docker has no such command");
    }
    let read = Command::new("docker")
        .args(["compose", "--file"])
        .arg(folder.join("compose.yaml"))
        .args(["config", "--quiet"])
        .envs([("POSTGRES_PASSWORD", "p"), ("GARAGE_RPC_SECRET", "r")])
        .envs([("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")])
        .output()
        .unwrap();
    assert!(read.status.success(), "{read:?}");
}

/// What an instance is given makes a server with a database and an object store, both of which are services of the compose file.
fn are_settings_of_an_instance(service: &Yaml) {
    // What would end the password in a URL, or mean something else there.
    const PASSWORD: &str = "p@ss:w/o?r#d %41[]&=";
    let compose = compose();
    let environment = of(service, "environment");
    let mounted = texts(of(service, "volumes"));
    let config = environment["STRONGROOM_SERVER_CONFIG"].as_str().unwrap();
    assert!(mounted.contains(&&*format!("./strongroom-server.toml:{config}:ro")));
    let database = environment["STRONGROOM_SERVER_DATABASE"].as_str().unwrap();
    let (before, rest) = database.split_once("${").unwrap();
    let database = format!("{before}{PASSWORD}{}", rest.split_once('}').unwrap().1);
    let at: Database = database.parse().unwrap();
    let of_database = &compose["services"]["database"]["environment"];
    assert_eq!(at.get_hosts(), [Host::Tcp("database".to_owned())]);
    assert_eq!(at.get_user(), of_database["POSTGRES_USER"].as_str());
    assert_eq!(at.get_password(), Some(PASSWORD.as_bytes()));
    // The image of PostgreSQL makes one that is called as its user.
    assert_eq!(at.get_dbname(), of_database["POSTGRES_USER"].as_str());
    let file = Configuration::read(&top().join("docs/server/strongroom-server.toml")).unwrap();
    let objects = Url::parse(file.objects.as_ref().unwrap()).unwrap();
    let of_objects = &compose["services"]["objects"]["environment"];
    assert_eq!(
        objects.host_str(),
        of_objects["GARAGE_DEFAULT_BUCKET"].as_str()
    );
    let garage = read("docs/server/garage.toml");
    let option = |wanted: &str| {
        let mut pairs = objects.query_pairs();
        let found = pairs.find(|(name, _)| name == wanted);
        found.unwrap().1.into_owned()
    };
    let endpoint = Url::parse(&option("endpoint")).unwrap();
    assert_eq!(endpoint.host_str(), Some("objects"));
    let port = endpoint.port().unwrap();
    assert!(garage.contains(&format!("api_bind_addr = \"[::]:{port}\"")));
    assert!(garage.contains(&format!("s3_region = \"{}\"", option("region"))));
    let given = Configuration {
        database: Some(database),
        ..Configuration::default()
    };
    let settings = given.or(file).settings().unwrap();
    let Tls::Files { certificate, key } = &settings.tls else {
        panic!("{:?}", settings.tls);
    };
    for file in [certificate, key] {
        let target = format!(":{}:ro", file.display());
        assert!(mounted.iter().any(|one| one.ends_with(&target)), "{target}");
    }
    assert_eq!(settings.listen.port(), 8443);
    let nginx = read("docs/server/nginx.conf");
    assert!(nginx.contains(&format!("proxy_ssl_name {};", settings.names[0])));
}

#[test]
fn the_image_is_built_by_the_compiler_that_is_pinned() {
    let pinned = read("rust-toolchain.toml");
    let channel = pinned
        .lines()
        .find_map(|line| line.strip_prefix("channel = "));
    let image = format!("FROM rust:{}-", channel.unwrap().trim_matches('"'));
    assert!(read("docs/server/Dockerfile").contains(&image), "{image}");
}

/// The program `nginx`, as `tools/nginx_process.py` finds it; `None`, and a word, if there is none.
fn nginx() -> Option<PathBuf> {
    let unpacked = top().join(".tools/nginx/usr/sbin/nginx");
    let said = std::env::var_os("STRONGROOM_TEST_NGINX").map(PathBuf::from);
    let places = ["nginx", "/usr/sbin/nginx"].map(PathBuf::from);
    let mut all = said.into_iter().chain(places).chain([unpacked]);
    let works = |program: &PathBuf| {
        let asked = Command::new(program).arg("-v").output();
        asked.is_ok_and(|output| output.status.success())
    };
    let found = all.find(works);
    if found.is_none() {
        eprintln!("skipped: there is no nginx that could read docs/server/nginx.conf");
    }
    found
}

/// Writes the configuration of the guide for nginx in `place`, with other addresses and the certificate there; gives the command that runs it.
fn nginx_in(place: &Path, program: &Path, listen: &str, instances: [SocketAddr; 2]) -> Command {
    let path = |name: &str| place.join(name).display().to_string();
    let mut site = read("docs/server/nginx.conf");
    let others = [
        (INSTANCES[0], instances[0].to_string()),
        (INSTANCES[1], instances[1].to_string()),
        ("listen 443 ", format!("listen {listen} ")),
        ("server.example", "localhost".to_owned()),
        ("/etc/ssl/chain.pem", path("certificate.pem")),
        ("/etc/ssl/key.pem", path("key.pem")),
        ("/etc/ssl/ca.pem", path("certificate.pem")),
    ];
    for (of_guide, other) in others {
        assert!(site.contains(of_guide), "{of_guide}");
        site = site.replace(of_guide, &other);
    }
    fs::write(place.join("site.conf"), site).unwrap();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|kind| format!("{kind}_temp_path {};\n", path(kind)));
    let main = format!(
        "daemon off;\nmaster_process off;\npid {};\nevents {{}}\nhttp {{\naccess_log off;\n{}include {};\n}}\n",
        path("pid"),
        temporary.concat(),
        path("site.conf"),
    );
    fs::write(place.join("nginx.conf"), main).unwrap();
    let mut command = Command::new(program);
    command
        .args(["-p", &path(""), "-e", &path("error.log")])
        .args(["-c", &path("nginx.conf")])
        .stdin(Stdio::null());
    command
}

/// A certificate for `localhost` and its key, in a new folder: those that a server signs for itself.
fn certificate() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("server");
    drop(start(&folder, Tls::SelfSigned));
    for name in ["certificate.pem", "key.pem"] {
        fs::copy(folder.join("tls").join(name), place.path().join(name)).unwrap();
    }
    place
}

#[test]
fn nginx_takes_the_configuration_of_the_guide() {
    let Some(program) = nginx() else { return };
    let place = certificate();
    let listen = format!("unix:{}", place.path().join("socket").display());
    let instances = ["127.0.0.1:1", "127.0.0.1:2"].map(|at| at.parse().unwrap());
    let mut command = nginx_in(place.path(), &program, &listen, instances);
    let tested = command.arg("-t").output().unwrap();
    assert!(tested.status.success(), "{tested:?}");
}

/// nginx while it runs. It is killed when this is dropped.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Goal: devices reach two instances through nginx with the configuration of the guide, hear of each other's publications there, and notice
/// nothing when one instance ends. Method: a real nginx, instances with TLS, and objects of many pieces.
#[test]
fn devices_work_at_two_instances_behind_nginx_and_at_the_one_that_is_left() {
    let Some(program) = nginx() else { return };
    let Some(services) = Services::new() else {
        return;
    };
    let place = Place::on(Some(services), Quota::default());
    let tls = certificate();
    let instance = || {
        let settings = Settings {
            storage: place.storage(),
            listen: "127.0.0.1:0".parse().unwrap(),
            tls: Tls::Files {
                certificate: tls.path().join("certificate.pem"),
                key: tls.path().join("key.pem"),
            },
            metrics: None,
            names: Vec::new(),
            requests_per_second: 0,
        };
        Server::start(&settings).unwrap()
    };
    let (one, two) = (instance(), instance());
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = free.local_addr().unwrap();
    drop(free);
    let instances = [one.address(), two.address()];
    let mut command = nginx_in(tls.path(), &program, &at.to_string(), instances);
    let mut running = Nginx(command.spawn().unwrap());
    let begun = Instant::now();
    while TcpStream::connect(at).is_err() {
        let log = fs::read_to_string(tls.path().join("error.log")).unwrap_or_default();
        assert!(running.0.try_wait().unwrap().is_none(), "{log}");
        assert!(begun.elapsed() < PATIENCE, "{log}");
        thread::yield_now();
    }
    let (token, print) = (&place.token, one.fingerprint().unwrap().to_owned());
    let url = format!("https://{token}@{at}/anna/v?fingerprint={print}");
    let open = || Address::parse(&url).unwrap().open().unwrap();
    let (device, other) = (open(), open());
    let segment = |number: u32| {
        let bytes: Vec<u8> = (0..700_000).map(|at| ((at + number) % 251) as u8).collect();
        let name = format!("segments/{}", blake3::hash(&bytes).to_hex());
        (ObjectName::new(name).unwrap(), bytes)
    };
    let passes = |device: &dyn Remote, other: &dyn Remote, number: u32| {
        let (name, bytes) = segment(number);
        assert_eq!(device.create(&name, bytes.clone()).unwrap(), Created::New);
        assert!(other.read(&name, 1 << 20).unwrap().unwrap() == bytes);
    };
    for number in 0..8 {
        passes(&*device, &*other, number);
    }
    let requests = || one.requests() + two.requests();
    let before = requests();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| other.wait_behind(0, &|| true).unwrap());
        while requests() == before {
            thread::yield_now();
        }
        let publication = ObjectName::new(format!("publications/{:016}", 1)).unwrap();
        let made = device.create(&publication, b"p".to_vec());
        assert_eq!(made.unwrap(), Created::New);
        assert_eq!(waiting.join().unwrap(), Waited::Published(1));
    });
    assert!(one.requests() > 0 && two.requests() > 0, "one has all");
    one.stop();
    for number in 8..16 {
        passes(&*other, &*device, number);
    }
}
