//! Hears what other instances of the server have published.
//!
//! Takes   notifications of the database
//! Gives   them to the followers of the vault at this instance
//! Never   leaves a follower without news: after a connection was lost, it looks at every vault that is followed
//!
//! A server with a single instance needs none of this: it knows what it publishes itself.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use postgres_openssl::TlsStream;
use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Client, Connection, Socket};

use crate::database::Database;
use crate::database::postgres::{Postgres, silent};
use crate::error::{Error, Result};
use crate::followers::Followers;
use crate::ledger::CHANNEL;
use crate::ledger::shared::notified;
use crate::limits::{DATABASE_STATEMENT, HEAR_AGAIN, HEARING};
use crate::request_log;
use crate::store::Store;

/// Hears until `ending` is true.
pub(crate) async fn hear(
    store: Arc<Store>,
    followers: Arc<Followers>,
    mut ending: watch::Receiver<bool>,
) {
    let Database::Postgres(own) = &*store.ledger.database else {
        return;
    };
    loop {
        let heard = async {
            if let Err(error) = hear_once(own, &store, &followers).await {
                request_log::failed(&error);
            }
            tokio::time::sleep(HEAR_AGAIN).await;
        };
        tokio::select! {
            () = heard => {}
            _ = ending.wait_for(|ending| *ending) => return,
        }
    }
}

/// Hears until the connection breaks.
async fn hear_once(own: &Postgres, store: &Arc<Store>, followers: &Arc<Followers>) -> Result<()> {
    let (client, connection) = own.hear().await?;
    // Nothing that is asked is answered unless somebody takes what comes.
    tokio::select! {
        ended = take(connection, followers) => ended,
        ended = ask(&client, store, followers) => ended,
    }
}

/// Takes what comes on the connection.
async fn take(
    mut connection: Connection<Socket, TlsStream<Socket>>,
    followers: &Followers,
) -> Result<()> {
    let mut messages = pin!(poll_fn(move |context| connection.poll_message(context)));
    while let Some(message) = messages.next().await {
        if let AsyncMessage::Notification(heard) = message?
            && heard.channel() == CHANNEL
            && let Some((vault, number)) = notified(heard.payload())
        {
            followers.publish(&vault, number);
        }
    }
    Ok(())
}

/// Asks to be notified, and from time to time whether the database is there.
async fn ask(client: &Client, store: &Arc<Store>, followers: &Arc<Followers>) -> Result<()> {
    in_time(client.batch_execute(&format!("LISTEN {CHANNEL}"))).await?;
    look_at_all(store, followers).await?;
    loop {
        tokio::time::sleep(HEARING).await;
        in_time(client.check_connection()).await?;
    }
}

/// Waits for an answer, and not for ever.
async fn in_time(
    answer: impl Future<Output = std::result::Result<(), tokio_postgres::Error>>,
) -> Result<()> {
    let answered = tokio::time::timeout(DATABASE_STATEMENT, answer).await;
    Ok(answered.map_err(|_| silent())??)
}

/// Gives who follows a vault what was published while nothing was heard.
async fn look_at_all(store: &Arc<Store>, followers: &Arc<Followers>) -> Result<()> {
    let (store, followers) = (Arc::clone(store), Arc::clone(followers));
    let looked = tokio::task::spawn_blocking(move || {
        followers.followed().iter().try_for_each(|vault| {
            followers.publish(vault, store.ledger.last(vault)?);
            Ok::<(), Error>(())
        })
    });
    // It panicked, and the panic hook has said so.
    looked.await.unwrap_or(Ok(()))
}
