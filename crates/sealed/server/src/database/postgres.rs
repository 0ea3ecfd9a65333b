//! Connections to PostgreSQL.
//!
//! Takes   a URL of a database, statements
//! Gives   rows; sessions that hold a lock; a connection that receives notifications
//! Never   waits longer for a connection, a statement or a lock than `limits.rs` says, reuses a connection in an unknown state,
//!         or speaks over a network without TLS unless the URL says `sslmode=disable`
//!
//! Invariants
//!  (1) A connection goes back to the pool only outside of a change.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use openssl::ssl::{SslConnector, SslMethod};
use parking_lot::Mutex;
use postgres_openssl::{MakeTlsConnector, TlsStream};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Connection, Socket};

use crate::database::Value;
use crate::error::{Error, Result};
use crate::limits::{
    DATABASE_AWAY, DATABASE_CONNECT, DATABASE_IDLE, DATABASE_LOCK, DATABASE_STATEMENT,
    DATABASE_TURN,
};
use crate::outside::Outside;
use crate::storage::Shared;

/// A database of PostgreSQL.
pub(crate) struct Postgres {
    pool: Pool,
    config: Config,
    tls: MakeTlsConnector,
    outside: Arc<Outside>,
    /// How long one statement may take.
    statement: Duration,
    /// Until when nobody tries to reach it: it was away a moment ago.
    away_until: Mutex<Option<Instant>>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Postgres")
    }
}

/// A connection of the pool, for one request.
pub(crate) struct Session<'a> {
    client: Option<Object>,
    /// Whether no change is under way, and nothing is left to be answered.
    is_clean: Cell<bool>,
    of: &'a Postgres,
}

/// A connection that hears of notifications.
pub(crate) type Hearing = (Client, Connection<Socket, TlsStream<Socket>>);

/// A lock that every instance knows; it ends with this, or with its connection.
pub(crate) struct Held<'a> {
    session: Session<'a>,
    lock: i64,
}

impl Postgres {
    /// The database of `shared`. Nobody asks it yet. Whoever looks after it waits for a statement for so long.
    ///
    /// # Errors
    /// `Configuration` if the URL or the certificates cannot be used.
    pub(crate) fn new(
        shared: &Shared,
        outside: Arc<Outside>,
        statement: Option<Duration>,
    ) -> Result<Self> {
        let statement = statement.unwrap_or(DATABASE_STATEMENT);
        let config = configured(&shared.database, statement)?;
        let tls = tls(shared)?;
        let fast = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = Manager::from_config(config.clone(), tls.clone(), fast);
        let pool = Pool::builder(manager)
            .max_size(shared.connections)
            .wait_timeout(Some(DATABASE_TURN))
            .create_timeout(Some(DATABASE_CONNECT))
            .recycle_timeout(Some(DATABASE_CONNECT))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| Error::Configuration(error.to_string()))?;
        Ok(Self {
            pool,
            config,
            tls,
            outside,
            statement,
            away_until: Mutex::default(),
        })
    }

    /// A connection.
    ///
    /// # Errors
    /// `DatabaseAway`, `DatabaseBusy`.
    pub(crate) fn session(&self) -> Result<Session<'_>> {
        let until = *self.away_until.lock();
        if until.is_some_and(|until| Instant::now() < until) {
            // Many who waited for the same would keep all threads.
            return Err(Error::DatabaseAway("it was away a moment ago".to_owned()));
        }
        let got = self.outside.wait(self.pool.get()).map_err(explain);
        let is_away = matches!(got, Err(Error::DatabaseAway(_)));
        *self.away_until.lock() = is_away.then(|| Instant::now() + DATABASE_AWAY);
        Ok(Session {
            client: Some(got?),
            is_clean: Cell::new(true),
            of: self,
        })
    }

    /// A lock that nobody else has; `None` if somebody has it, also shared, for longer than `DATABASE_LOCK`. While this waits, nobody else
    /// gets it shared: so it comes also where many share it, one after the other.
    pub(crate) fn hold(&self, lock: i64) -> Result<Option<Held<'_>>> {
        let session = self.apart()?;
        match session.query("SELECT pg_advisory_lock(?1)", &[Value::from(lock)]) {
            Ok(_) => Ok(Some(Held { session, lock })),
            Err(Error::DatabaseBusy) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One that several may have at once; `None` if somebody has it alone, or waits for that.
    pub(crate) fn share(&self, lock: i64) -> Result<Option<Held<'_>>> {
        let session = self.apart()?;
        let sql = "SELECT pg_try_advisory_lock_shared(?1)";
        let rows = session.query(sql, &[Value::from(lock)])?;
        let is_held = rows
            .first()
            .is_some_and(|row| row.try_get(0).unwrap_or(false));
        Ok(is_held.then_some(Held { session, lock }))
    }

    /// A connection that ends with its session, and a lock with it.
    fn apart(&self) -> Result<Session<'_>> {
        let session = self.session()?;
        session.is_clean.set(false);
        Ok(session)
    }

    /// A connection of its own for notifications.
    pub(crate) async fn hear(&self) -> Result<Hearing> {
        let connected = self.config.connect(self.tls.clone());
        let connected = tokio::time::timeout(DATABASE_CONNECT, connected).await;
        Ok(connected.map_err(|_| silent())??)
    }
}

impl Held<'_> {
    /// Whether it was held until now.
    ///
    /// # Errors
    /// `DatabaseAway` if the connection broke meanwhile.
    pub(crate) fn is_still_held(&self) -> Result<bool> {
        // Of an id the database keeps the two halves.
        let (high, low) = (self.lock >> 32, self.lock & 0xffff_ffff);
        let sql = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted
                   AND CAST(classid AS BIGINT) = ?1 AND CAST(objid AS BIGINT) = ?2";
        let rows = (self.session).query(sql, &[Value::from(high), Value::from(low)])?;
        Ok(!rows.is_empty())
    }
}

impl Session<'_> {
    fn client(&self) -> &Object {
        let client = self.client.as_ref();
        client.expect("a session has its connection until it is dropped")
    }

    /// Waits for an answer, and not for ever: a database whose network is gone answers nothing.
    fn wait<T>(
        &self,
        answer: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        // The database itself ends a statement before that.
        let longest = self.of.statement + DATABASE_CONNECT;
        let timed = async { tokio::time::timeout(longest, answer).await };
        match self.of.outside.wait(timed) {
            Ok(answered) => Ok(answered?),
            Err(_) => {
                self.is_clean.set(false);
                Err(silent())
            }
        }
    }

    pub(crate) fn query(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<tokio_postgres::Row>> {
        let (sql, values) = (numbered(sql), borrowed(values));
        self.wait(async {
            let statement = self.client().prepare_cached(&sql).await?;
            self.client().query(&statement, &values).await
        })
    }

    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64> {
        let (sql, values) = (numbered(sql), borrowed(values));
        self.wait(async {
            let statement = self.client().prepare_cached(&sql).await?;
            self.client().execute(&statement, &values).await
        })
    }

    pub(crate) fn batch(&self, sql: &str) -> Result<()> {
        self.wait(self.client().batch_execute(sql))
    }

    /// Begins a change. (1)
    pub(crate) fn begin(&self) -> Result<()> {
        self.is_clean.set(false);
        // Whatever the database has as its default: what is read behind a lock is what the change before has left.
        self.batch("BEGIN ISOLATION LEVEL READ COMMITTED")
    }

    /// Ends a change.
    pub(crate) fn commit(&self) -> Result<()> {
        self.batch("COMMIT")?;
        self.is_clean.set(true);
        Ok(())
    }

    /// Gives a change up.
    pub(crate) fn roll_back(&self) {
        // Where that cannot be said, the connection ends, and the change with it.
        if self.batch("ROLLBACK").is_ok() {
            self.is_clean.set(true);
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client.take().filter(|_| !self.is_clean.get()) {
            drop(Object::take(client));
        }
    }
}

/// As PostgreSQL numbers values. No statement has a question mark for anything else.
fn numbered(sql: &str) -> String {
    sql.replace('?', "$")
}

fn borrowed<'a>(values: &'a [Value<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    values
        .iter()
        .map(|value| value as &(dyn ToSql + Sync))
        .collect()
}

/// It was waited for, and did not answer.
pub(crate) fn silent() -> Error {
    Error::DatabaseAway("it does not answer".to_owned())
}

/// Why there is no connection.
fn explain(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) => match Error::from(error) {
            // Of a connection that cannot be made the reason counts less than that there is none.
            Error::Postgres { code, what } => Error::DatabaseAway(format!("{what} ({code})")),
            error => error,
        },
        PoolError::Timeout(TimeoutType::Wait) => Error::DatabaseBusy,
        PoolError::Timeout(_) => silent(),
        _ => Error::DatabaseAway("there is no connection".to_owned()),
    }
}

/// How it is connected to.
fn configured(url: &str, statement: Duration) -> Result<Config> {
    // What is wrong in it may be a part of the password.
    let wrong = |_| {
        Error::Configuration(
            "the URL of the database cannot be used: it has the form postgres://USER:PASSWORD@HOST/DATABASE, with percent signs for \
             special characters, or host=HOST user=USER password='PASSWORD' dbname=DATABASE, with \\ before ' and \\"
                .to_owned(),
        )
    };
    let mut config = Config::from_str(url).map_err(wrong)?;
    let is_here = |host: &Host| match host {
        Host::Tcp(name) => {
            let address = name.parse::<std::net::IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
        _ => true,
    };
    if config.get_ssl_mode() == SslMode::Prefer {
        // An answer that there is no TLS may come from somebody in between.
        let is_here = config.get_hosts().iter().all(is_here)
            && config
                .get_hostaddrs()
                .iter()
                .all(std::net::IpAddr::is_loopback);
        config.ssl_mode(match is_here {
            true => SslMode::Disable,
            false => SslMode::Require,
        });
    }
    let given = config.get_options().unwrap_or_default();
    let options = format!(
        "{given} -c statement_timeout={} -c lock_timeout={} -c idle_in_transaction_session_timeout={} -c client_min_messages=error",
        statement.as_millis(),
        DATABASE_LOCK.as_millis(),
        statement.as_millis(),
    );
    config
        .options(options.trim_start())
        .application_name("strongroom-server")
        .connect_timeout(DATABASE_CONNECT)
        .keepalives_idle(DATABASE_IDLE)
        .keepalives_interval(DATABASE_IDLE)
        .keepalives_retries(2)
        .tcp_user_timeout(DATABASE_IDLE * 3);
    Ok(config)
}

/// TLS by certificates that this system trusts, or those that the operator names.
fn tls(shared: &Shared) -> Result<MakeTlsConnector> {
    let refuse = |error: openssl::error::ErrorStack| {
        Error::Configuration(format!(
            "the certificates for the database cannot be used: {error}"
        ))
    };
    let mut builder = SslConnector::builder(SslMethod::tls()).map_err(refuse)?;
    match &shared.authority {
        Some(file) => builder.set_ca_file(file).map_err(refuse)?,
        None => {
            let there = openssl_probe::probe();
            let (file, folder) = (there.cert_file.as_deref(), there.cert_dir.first());
            if file.is_some() || folder.is_some() {
                let folder = folder.map(std::path::PathBuf::as_path);
                // Without them no certificate is trusted, which the connection says.
                let _ = builder.load_verify_locations(file, folder);
            }
        }
    }
    Ok(MakeTlsConnector::new(builder.build()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    /// Goal: no password goes over a network in clear unless somebody asks for that. Method: every form of a host.
    #[test]
    fn a_database_elsewhere_is_spoken_to_with_tls() {
        for (url, mode) in [
            ("postgres://u:p@db.example/s", SslMode::Require),
            ("postgres://u:p@192.0.2.1,127.0.0.1/s", SslMode::Require),
            ("host=localhost hostaddr=192.0.2.1", SslMode::Require),
            (
                "postgres://u:p@db.example/s?sslmode=require",
                SslMode::Require,
            ),
            (
                "postgres://u:p@db.example/s?sslmode=disable",
                SslMode::Disable,
            ),
            ("postgres://u:p@127.0.0.1:5/s", SslMode::Disable),
            ("postgres://u:p@[::1]/s", SslMode::Disable),
            ("postgres://u:p@localhost/s", SslMode::Disable),
            ("postgres:///s?host=/run/postgresql", SslMode::Disable),
        ] {
            let config = configured(url, DATABASE_STATEMENT).unwrap();
            assert_eq!(config.get_ssl_mode(), mode, "{url}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_shows_no_password() {
        for url in [
            "postgres://u:canary@h:canary/s",
            "postgres://h/s?canary=1",
            "canary",
        ] {
            let error = configured(url, DATABASE_STATEMENT).unwrap_err();
            assert!(matches!(error, Error::Configuration(_)));
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
    }

    #[test]
    fn values_are_numbered_as_the_database_numbers_them() {
        assert_eq!(numbered("a = ?1 AND b > ?12"), "a = $1 AND b > $12");
    }
}
