//! The owner's part of using remotes: the rows about them, the objects that they lack, and publications, which need keys.
//!
//! Takes   the session of a process that connects to a remote
//! Gives   publications, sealed and signed; verified ones taken in
//! Never   connects to a remote itself; never stores that a remote has an object unless a verified publication there says so
//! Spec    spec/11-sync.md, 11.3 and 11.4
//!
//! Invariants
//!  (1) The rows about published objects match the publications of their remote, up to the last publication taken in.    [4.14]

use std::collections::HashSet;
use std::sync::Arc;

use strongroom_crypto::{Random, SystemRandom};
use strongroom_filesystem::{Error as FileError, Taken};
use strongroom_format::deposit::AddressId;
use strongroom_format::publication::RemoteId;
use strongroom_format::{Epoch, SegmentId};
use strongroom_history::{NewRevision, SCHEDULED};
use strongroom_metadata::{Published, Remote, Segment, SegmentNumber, SegmentState};
use strongroom_remote::{Challenge, LoginAs, Signer as _};
use strongroom_sync::{RemoteState, follow, follow_seen, object_hash, open_publication};

use crate::clock::now_s;
use crate::execute::came::{newest_published, of_replaced_keys};
use crate::execute::copied;
use crate::execute::deposits;
use crate::execute::device_names::follow_members;
use crate::execute::evict::{self, bring_back_those, forget_remote};
use crate::execute::history;
use crate::execute::join::join;
use crate::execute::let_go::{Retired, renew_head, vacate};
use crate::execute::pin;
use crate::execute::publish::{not_live, seal};
use crate::execute::published::{
    change, change_state, found_by, is_left_out, is_whole, missing, put_published, remote_of, rows,
    segment_files,
};
use crate::execute::remote_status;
use crate::execute::session::{Push, Session};
use crate::execute::waiting::is_waiting;
use crate::incoming::epoch_of;
use crate::limits::PUSH_PAGE;
use crate::request::Response;
use crate::request::frame::{ByteBuffer, Bytes};
use crate::request::remote::{
    LoginFields, PublicationFields, PushFields, RemoteFields, RemoteRequest,
};
use crate::{Error, Result};

/// Carries out what is asked about remotes.
pub(crate) fn execute(session: &Session, request: &RemoteRequest<'_>) -> Result<Response> {
    match request {
        RemoteRequest::List => list(session),
        RemoteRequest::Add {
            name,
            address,
            id,
            keeps,
        } => {
            let state = RemoteState {
                keeps: *keeps,
                // It may be here again: then an earlier push may have left something there.
                is_pushing: true,
                ..RemoteState::new(text(address.0)?)
            };
            let remote = Remote {
                number: 0,
                name: text(name.0)?,
                id: *id,
                state: state.encode(),
            };
            if rows(session)?.iter().any(|row| row.name == remote.name) {
                return Err(Error::RemoteNameTaken(remote.name));
            }
            change(session, |writer| writer.put_remote(&remote)).map(Into::into)
        }
        RemoteRequest::Remove { name, asked_for } => {
            let name = text(name.0)?;
            let row = rows(session)?.into_iter().find(|row| row.name == name);
            let row = row.ok_or(Error::UnknownRemote(name))?;
            let is_forgotten = forget_remote(session, &row, *asked_for)?;
            if is_forgotten {
                // Nobody may ever join it, and seal it again under other keys.
                session.vault.remove_what_came()?;
            }
            Ok(is_forgotten.into())
        }
        RemoteRequest::BeginPush { remote } => begin_push(session, *remote).map(Into::into),
        RemoteRequest::Missing { remote, limit } => {
            let limit = usize::try_from(*limit).map_or(PUSH_PAGE, |limit| limit.min(PUSH_PAGE));
            Ok(missing(session, *remote, limit)?.into())
        }
        RemoteRequest::Unfinished {
            remote,
            publications,
        } => name_again(session, *remote, publications).map(Into::into),
        RemoteRequest::Seal {
            remote,
            last,
            header,
            named,
        } => seal(session, (*remote, *last), *header, named),
        RemoteRequest::NotLive {
            remote,
            hashes,
            last,
        } => not_live(session, *remote, hashes, *last).map(Into::into),
        RemoteRequest::Fence { remote, number } => {
            let fence = (*number, now_s());
            change_state(session, *remote, |state| RemoteState { fence, ..state }).map(Into::into)
        }
        RemoteRequest::NotePruned { remote, erased } => {
            note_pruned(session, *remote, *erased).map(Into::into)
        }
        RemoteRequest::Publication {
            remote,
            number,
            object,
            is_joined,
        } => publication(session, *remote, *number, object.0, *is_joined).map(Into::into),
        RemoteRequest::Open { number, object } => {
            let signer = session
                .vault
                .with_keys(|keys| keys.keyring().revision_signer());
            let sealer = session.filesystem().engine().sealer();
            let opened = open_publication(*number, object.0, &signer, &sealer);
            let clear = opened.map(|signed| ByteBuffer(signed.encode()));
            Ok(Response::Backup(clear.map_err(|error| error.to_string())))
        }
        RemoteRequest::HeaderHash => {
            let hash = session.vault.remote_header_hash()?;
            Ok(ByteBuffer(hash.to_vec()).into())
        }
        RemoteRequest::ChangesMark => Ok(session.filesystem().changes_mark().into()),
        RemoteRequest::IsWaiting { remote } => is_waiting(session, *remote).map(Into::into),
        RemoteRequest::Status { remote } => remote_status::status(session, *remote).map(Into::into),
        RemoteRequest::NoteContact {
            remote,
            at_s,
            stores,
        } => remote_status::note_contact(session, *remote, *at_s, *stores).map(Into::into),
        RemoteRequest::TakeHeader { header, needed } => {
            let taken = session.vault.take_header(header.0, Epoch(*needed));
            taken.map(Into::into)
        }
        RemoteRequest::OpensUnder {
            header,
            number,
            object,
        } => {
            let opens = (session.vault).opens_under(header.0, *number, object.0);
            opens.map(Into::into)
        }
        RemoteRequest::BecomeNewDevice { newest } => {
            let newest = newest.as_ref().map(|header| header.0);
            session.vault.become_new_device(newest).map(Into::into)
        }
        RemoteRequest::Join {
            remote,
            first,
            behind,
            from,
        } => join(session, *remote, *first..*behind, *from).map(Into::into),
        RemoteRequest::Segments { which, path, after } => {
            let path = path.as_ref().map(|path| Bytes(path.0));
            Ok(evict::segments(session, *which, path, *after)?.into())
        }
        RemoteRequest::NoteNeeds {
            remote,
            number,
            renames,
        } => {
            let mut random = [0; 16];
            SystemRandom.fill(&mut random)?;
            let _turn = session.vault.evicting.lock();
            let noted = change_state(session, *remote, |mut state| {
                if *renames || state.needs.0 == [0; 16] {
                    state.needs.0 = random;
                }
                state.needs.1 = *number;
                state.needs_since_s = now_s();
                state
            });
            noted.map(Into::into)
        }
        RemoteRequest::Pin { path, how } => pin::pin(session, path.0, *how).map(Into::into),
        RemoteRequest::Pins => Ok(pin::paths(session)?.into()),
        RemoteRequest::Evict { segments, spared } => {
            Ok(evict::evict(session, segments, *spared)?.into())
        }
        RemoteRequest::AboveLimit { remote, look } => {
            Ok(evict::above_limit(session, *remote, *look)?.into())
        }
        RemoteRequest::BringBack { segment } => {
            let id = SegmentId(*segment);
            let brought = session.filesystem().bring_back(id, None);
            if let Err(FileError::LostAtRemote(_)) = &brought {
                session.filesystem().give_up_away(id)?;
            }
            Ok(brought?.into())
        }
        RemoteRequest::SignLogin {
            as_slot,
            server,
            account,
            vault,
            nonce,
            issued_s,
            valid_s,
            records,
        } => {
            let role = match as_slot {
                true => LoginAs::Slot,
                false => LoginAs::Device,
            };
            let (server, account, vault) = (text(server.0)?, text(account.0)?, text(vault.0)?);
            let signed = session.vault.login.sign(
                role,
                &Challenge {
                    server: &server,
                    account: &account,
                    vault: &vault,
                    nonce: *nonce,
                    issued_s: *issued_s,
                    valid_s: *valid_s,
                    records: *records,
                },
            )?;
            Ok(signed.map(LoginFields::of).into())
        }
        RemoteRequest::InboxAddress { id } => {
            let address =
                (session.vault).with_keys(|keys| keys.keyring().inbox_address(AddressId(*id)));
            Ok(ByteBuffer(address.encode()).into())
        }
        RemoteRequest::OpenDeposit { deposit, envelope } => {
            Ok(deposits::opened(session, *deposit, envelope.0).into())
        }
        RemoteRequest::IsDepositThere { deposit, node } => {
            Ok(deposits::is_there(session, *deposit, *node)?.into())
        }
        RemoteRequest::OpenPiece {
            deposit,
            envelope,
            number,
            piece,
        } => {
            let clear = deposits::piece(session, (*deposit, envelope.0), *number, piece.0);
            Ok(Response::Backup(clear))
        }
        RemoteRequest::EndPush => {
            let ended = session.push.lock().take();
            Ok(ended.is_some().into())
        }
    }
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::NotText)
}

fn list(session: &Session) -> Result<Response> {
    let is_copied = copied::is_copied(session)?;
    // In this order: what is erased in between counts as later.
    let erased = session.filesystem().erased_bytes()?;
    let has_erased = session.filesystem().remotes_to_prune()?;
    let remotes = rows(session)?.into_iter();
    let remotes = remotes.map(|row| remote_of(session, row.number));
    let remotes = remotes.collect::<Result<Vec<_>>>()?;
    let reader = session.filesystem().engine().reader()?;
    let mut all = Vec::new();
    for (row, state) in remotes {
        all.push(RemoteFields {
            number: row.number,
            name: row.name,
            id: row.id,
            address: state.address,
            last: state.last.0,
            last_id: state.last.1.0,
            joined: state.joined,
            head: state.head,
            header: state.header,
            published: reader.published_count(row.number)?,
            base: state.base,
            fence: state.fence,
            keeps: state.keeps,
            needs: state.needs,
            needs_since_s: state.needs_since_s,
            is_copied,
            has_erased: has_erased.contains(&row.number),
            erased,
        });
    }
    Ok(all.into())
}

/// Notes that what was erased is gone from a remote. What did not fit one publication is retired by the next.       [6.11.11]
fn note_pruned(session: &Session, remote: u64, erased: u64) -> Result<()> {
    // Nothing is erased between the look and the note.
    let _turn = session.filesystem().hold_revisions();
    let (_, state) = remote_of(session, remote)?;
    match (session.vault.standing_at(remote, state.joined, &[])?).is_behind() {
        true => Ok(()),
        false => Ok(session.filesystem().note_pruned(remote, erased)?),
    }
}

fn begin_push(session: &Session, number: u64) -> Result<PushFields> {
    let filesystem = session.filesystem();
    *session.push.lock() = None;
    session.waiting.lock().clear();
    let turn = session.vault.push_turns.take(session.number, number)?;
    let (_, state) = remote_of(session, number)?;
    let kept = filesystem.keep_segments();
    let members = session.vault.with_keys(|keys| keys.members());
    follow_members(filesystem, &members);
    // By schedule: what no person asked for goes by the rule.
    let new = NewRevision {
        message: SCHEDULED.to_owned(),
        only_if_changed: true,
        ..NewRevision::default()
    };
    if let Taken::New(_) = session.vault.records.take(filesystem, &new)? {
        history::told(session);
    }
    let epoch = filesystem.engine().sealer().epoch();
    let names = session.vault.records.names()?;
    if names.iter().any(|(_, of)| *of < epoch.0) {
        // Others may have forgotten those keys.
        session.vault.records.reseal(filesystem, || Ok(()))?;
    }
    // What only another remote has.
    bring_back_those(session, &|reader, row| {
        let item = Published::Segment(row.id.0);
        Ok(reader.published(number, item)?.is_none())
    })?;
    filesystem.end_segments()?;
    if vacate(session, number)? {
        filesystem.end_segments()?;
    }
    let head = filesystem.heads()?.into_iter().next();
    let head = head.ok_or(Error::Protocol("no revision although one was taken"))?;
    turn.begin(head.id);
    renew_head(session, number, &head.id)?;
    let was_pushing = state.is_pushing;
    let published_header = state.header;
    let reader = filesystem.engine().reader()?;
    let files = segment_files(session)?;
    let mut older = false;
    let mut bytes = 0;
    let mut newest_segment = SegmentNumber(0);
    // In this order: the segments of all of them are among those that are looked at.
    let revisions = reader.revisions()?.into_iter().map(|row| row.id);
    let revisions = Arc::new(revisions.collect());
    let segments = reader.segments()?;
    let is_open = |segment: &Segment| segment.state == SegmentState::Open && segment.live_bytes > 0;
    // Since the segments were ended a rotation may have moved blocks from one under old keys, which is not pushed, into an open one.
    let is_moving = segments.iter().any(is_open);
    for segment in segments {
        if segment.state != SegmentState::Open {
            newest_segment = newest_segment.max(segment.number);
        }
        let item = Published::Segment(segment.id.0);
        if is_whole(&files, &segment) && reader.published(number, item)?.is_none() {
            if segment.epoch < epoch {
                older = older || segment.live_bytes > 0 || is_moving;
                continue;
            }
            bytes += segment.committed_len;
        }
    }
    drop(reader);
    if older {
        // Others may have forgotten those keys.
        session.vault.seal_again()?;
        return Err(Error::KeysInUse);
    }
    *session.push.lock() = Some(Push {
        segments: kept,
        turn,
        newest_segment,
        head: head.id,
        revisions,
        unfinished: HashSet::new(),
    });
    if !was_pushing && !missing(session, number, 1)?.is_empty() {
        change_state(session, number, |state| RemoteState {
            is_pushing: true,
            ..state
        })?;
    }
    let published = (session.filesystem().engine().reader()?).published_count(number)?;
    let (header, generation) = session.vault.remote_header()?;
    Ok(PushFields {
        is_header_there: object_hash(&header) == published_header,
        header: ByteBuffer(header),
        generation,
        head: head.id,
        was_pushing,
        bytes,
        published,
    })
}

/// Makes what only these publications of others name missing from now on, of which nothing may be away; gives whether there are any.
fn name_again(session: &Session, remote: u64, publications: &[(u64, [u8; 32])]) -> Result<bool> {
    let own = session.vault.with_keys(|keys| keys.replica().device());
    let others = publications.iter().filter(|(_, device)| *device != own.0);
    let unfinished: HashSet<u64> = others.map(|(number, _)| *number).collect();
    if unfinished.is_empty() {
        return Ok(false);
    }
    bring_back_those(session, &|reader, row| {
        let how = reader.published(remote, Published::Segment(row.id.0))?;
        Ok(how.is_some_and(|how| is_left_out(&unfinished, &how)))
    })?;
    match &mut *session.push.lock() {
        Some(push) => push.unfinished = unfinished,
        None => return Err(Error::Protocol("a push that did not begin")),
    }
    Ok(true)
}

/// Takes in the next publication of a remote. (1)
fn publication(
    session: &Session,
    remote: u64,
    number: u64,
    object: &[u8],
    is_joined: bool,
) -> Result<PublicationFields> {
    let (row, state) = remote_of(session, remote)?;
    let filesystem = session.filesystem();
    let signer = session
        .vault
        .with_keys(|keys| keys.keyring().revision_signer());
    let sealer = filesystem.engine().sealer();
    if number <= state.last.0 {
        // It was taken in; is it still that one?                                                              [11.3.5]
        return Ok(match open_publication(number, object, &signer, &sealer) {
            Ok(signed) if number == state.last.0 && signed.id != state.last.1 => {
                let forked = strongroom_sync::Error::Forked { number };
                PublicationFields::Refused(forked.to_string())
            }
            Ok(_) => PublicationFields::Taken { number },
            Err(error) => PublicationFields::Refused(error.to_string()),
        });
    }
    let opened = open_publication(number, object, &signer, &sealer).and_then(|signed| {
        // Who comes new cannot look behind the first that it needs, nor who was away while those before it were removed.
        let (id, unseen) = (RemoteId(row.id), (number - 1, signed.body.link));
        let followed = match state.last.0 {
            0 => follow(id, unseen, &signed),
            last if is_joined && number > last + 1 => follow(id, unseen, &signed),
            _ => follow_seen(id, state.last, &signed),
        };
        followed.map(|()| signed)
    });
    let signed = match opened {
        Ok(signed) => signed,
        // The header in which it was added is not here yet.
        Err(strongroom_sync::Error::UnknownDevice { number }) => {
            return Ok(PublicationFields::Ahead { number });
        }
        // Nor are the keys that it is sealed under, or so it says: a pull fetches them, or names the lie.
        Err(_) if epoch_of(object) > sealer.epoch() => {
            return Ok(PublicationFields::Ahead { number });
        }
        Err(error) => return Ok(PublicationFields::Refused(error.to_string())),
    };
    if epoch_of(object) < newest_published(session, remote)? {
        return Ok(PublicationFields::Refused(
            of_replaced_keys(number).to_string(),
        ));
    }
    let body = &signed.body;
    let knows =
        |id: &[u8; 32]| Ok::<_, Error>(filesystem.engine().reader()?.revision(id)?.is_some());
    let is_whole = body.head != [0; 32];
    let reader = filesystem.engine().reader()?;
    let is_joined = is_joined || number <= state.joined;
    let mut brings = false;
    for segment in &body.segments {
        let item = Published::Segment(segment.id.0);
        brings = brings
            || !is_joined
                && reader.segment_by_id(&segment.id)?.is_none()
                // Named once more: it came and was let go here.
                && reader.published(remote, item)?.is_none_or(|how| how.hash != segment.hash);
    }
    drop(reader);
    // The head in the middle of what was joined may have been let go by a later publication: then it never came.
    let is_head_here = is_whole && knows(&body.head)?;
    // What somebody began to push is left until it is whole; it stays live meanwhile.
    if is_whole && !is_joined && (brings || body.head != state.head && !is_head_here) {
        return Ok(PublicationFields::Ahead {
            number: body.number,
        });
    }
    // Not by its device: another copy may act as the same one.
    let is_own = state.made.contains(&signed.id);
    copied::look_at(session, &state, &signed)?;
    let next = RemoteState {
        last: (body.number, signed.id),
        sequence: state.sequence.max(if is_own { body.sequence } else { 0 }),
        // The head is named by the last publication of a push.
        is_pushing: state.is_pushing && !(is_own && is_whole),
        base: body.base,
        head: if is_head_here { body.head } else { state.head },
        header: body.header.1,
        // Of what it names nothing is missing here.
        joined: match (is_own || is_whole && !is_joined) && state.joined == state.last.0 {
            true => body.number,
            false => state.joined,
        },
        contact_s: now_s(),
        ..state.clone()
    }
    .having_read(body);
    let contacts = &session.vault.contacts;
    contacts.lock().insert(remote, next.contact_s);
    let retired = Retired::of(session, remote, body)?;
    // What was here, or came back, is not evicted before the remote is noted not to have it.                         [11.9.4]
    let _kept = filesystem.keep_segments();
    let named = body.segments.iter().map(|one| one.id).collect();
    retired.bring_back(session, remote, &named)?;
    retired.renew(session)?;
    let published = change(session, |writer| {
        let Some((row, now)) = found_by(writer, remote)? else {
            return Ok(None);
        };
        // A copy that found out has another name there.
        let (needs, needs_since_s) = (now.needs, now.needs_since_s);
        let other = RemoteState {
            needs: state.needs,
            needs_since_s: state.needs_since_s,
            contact_s: state.contact_s,
            ..now
        };
        if other != state {
            return Ok(Some(false));
        }
        let next = RemoteState {
            needs,
            needs_since_s,
            ..next
        };
        let next = next.encode();
        writer.put_remote(&Remote { state: next, ..row })?;
        retired.note(writer, remote, is_own, body.number)?;
        put_published(writer, remote, body)?;
        Ok(Some(true))
    });
    // It may have waited for that.
    session.vault.rotating.wake();
    match published? {
        Some(true) => Ok(PublicationFields::Taken {
            number: body.number,
        }),
        // Another session of this device changed what is known meanwhile.
        Some(false) => publication(session, remote, number, object, is_joined),
        None => Err(Error::UnknownRemote(remote.to_string())),
    }
}
