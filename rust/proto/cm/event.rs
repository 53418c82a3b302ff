// SPDX-License-Identifier: GPL-2.0

//! What happens to a connection, and what it does about it.

use crate::time::Instant;
use crate::transport::migration::MigState;
use wire::mad::cm::{
    Cm,
    Path,
    Rep,
    Req, //
};
use wire::{
    Gid,
    Lid,
    PKey,
    PortNum,
    Sl, //
};

/// What happens to a connection.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The consumer wants something.
    Order(Order<'a>),
    /// A datagram with the communication IDs of this connection has come.
    Received(&'a Cm, Source),
    /// A REP has come that [`Conn::awaits`](super::Conn::awaits), and names a queue pair that has another connection here.
    StaleRep(&'a Cm, Source),
    /// A REQ or a REP has come from there for another connection of the peer's queue pair: it does not know this one.
    Stale(Source),
    /// [`Conn::deadline`](super::Conn::deadline) may have passed. Coming too early does no harm.
    Tick,
    /// Somebody tells that the queue pair has gone over to the alternate path of the connection.
    Migrated,
    /// The HCA tells that the queue pair has gone over, and what it has now. This counts, whatever the connection knows.
    Moved(&'a Ways),
    /// The first packet of the peer has come by the path that the queue pair has gone over to.
    Confirmed,
    /// The HCA is gone.
    Gone,
}

/// What a consumer wants. The last field of most is the private data, of which what does not fit is cut.
#[derive(Clone, Copy, Debug)]
pub enum Order<'a> {
    /// Connect: REQ. Communication ID and CA GUID are filled in.
    Connect(&'a Req, &'a [u8]),
    /// Accept: REP. Communication IDs are filled in.
    Accept(&'a Rep, &'a [u8]),
    /// Complete the connection: RTU.
    Ready(&'a [u8]),
    /// Refuse it: REJ, with a reason, additional information and private data.
    Reject(u16, &'a [u8], &'a [u8]),
    /// Ask for patience: MRA, with the code of the time.
    Delay(u8, &'a [u8]),
    /// The queue pair has heard its peer: the RTU may be lost.
    Established,
    /// End the connection: DREQ.
    Disconnect(&'a [u8]),
    /// Agree that it ends: DREP.
    Depart(&'a [u8]),
    /// Offer an alternate path: LAP.
    Load(&'a Path, LapTiming, &'a [u8]),
    /// The peer has followed to the path that the queue pair has gone over to, as only the consumer can know of a
    /// service without acknowledgements.
    Confirmed,
    /// The path of an APR has not been loaded after all: there is no alternate one.
    Unload,
    /// Answer the LAP of this generation: APR, with a status, additional information and private data.
    Answer(u32, u8, &'a [u8], &'a [u8]),
    /// The consumer lets go: the connection ends by itself, and tells nothing any more.
    Destroy,
}

/// How long to wait for an APR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LapTiming {
    /// Code of the time that the peer's CM may take.
    pub response: u8,
    /// How often the LAP is repeated at most.
    pub retries: u8,
}

impl Default for LapTiming {
    /// 268 ms, seven times again: what a consumer takes longer for is asked for by MRA.
    fn default() -> Self {
        Self {
            response: 16,
            retries: 7,
        }
    }
}

/// By what way a datagram has come; its answer goes back the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Source {
    /// The port that it came to.
    pub port: PortNum,
    /// What was added to the LID of that port, if it has several.
    pub path_bits: u8,
    /// The service level.
    pub sl: Sl,
    /// LID of the sender.
    pub slid: Lid,
    /// GID of the sender, if there was a GRH.
    pub sgid: Option<Gid>,
}

impl Source {
    /// Whether what has come from here has come from the remote end of `path`.
    pub(super) fn is_far_end_of(&self, path: &Path) -> bool {
        match self.sgid {
            Some(sgid) if !path.subnet_local => sgid == path.remote_gid,
            _ => self.slid == path.remote_lid,
        }
    }
}

/// What a connection asks of its surroundings.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// The time.
    pub now: Instant,
    /// The state of path migration of its queue pair.
    pub migration: MigState,
    /// The HCA.
    pub local: &'a dyn Local,
}

/// What an HCA knows of its own end of paths.
pub trait Local {
    /// Whether the local end of `path` is one of this HCA's ports, which is in the partition.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    fn check(&self, path: &Path, pkey: PKey) -> Result<(), PathFault>;

    /// The GID of a port where `path` could begin, if its own one is nobody's: that of the port with its LID, or else of
    /// another one than that of `in_use`. It is active, and in the partition.
    fn substitute(&self, path: &Path, pkey: PKey, in_use: &Path) -> Option<Gid>;
}

/// The paths that a queue pair has. Without a global route the remote GIDs are not known, and zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// The one in use.
    pub primary: Path,
    /// The other one, if there is one.
    pub alternate: Option<Path>,
    /// The peer has been heard on the one in use.
    pub is_heard: bool,
}

/// What is wrong with the local end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// No port has the GID.
    Gid,
    /// The port with the GID has another LID: this one, if the path could begin there.
    Lid(Option<Lid>),
    /// The port is not in the partition.
    PKey,
}

/// Why an order is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not fit the state of the connection, or is wrong in itself.
    Invalid,
    /// Another exchange is under way.
    Busy,
    /// It cannot be yet: the peer has not been heard on the new path.
    Again,
    /// What it answers has been replaced, or what it tells is known.
    Stale,
}

/// What the consumer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the IBA's and ib_cm's")]
pub enum Notice {
    ReqReceived,
    RepReceived,
    RtuReceived,
    MraReceived,
    RejReceived,
    DreqReceived,
    DrepReceived,
    ReqError,
    RepError,
    DreqError,
    TimewaitExit,
    /// A LAP has come whose RTU has not.
    Established,
    /// The peer offers a path. It is as this end sees it, and the number is for [`Order::Answer`].
    LapReceived(u32, Path),
    /// The peer has answered with this status of [`wire::mad::cm::ap_status`]; with 0 the path is to be loaded.
    AprReceived(u8, Path),
    /// The exchange has ended without an answer.
    LapError(LapFailure),
    /// The connection has gone over to this path.
    Migrated(Path),
    /// The peer has answered with a queue pair that has another connection here: the request has failed.
    RepStale,
    /// The peer does not know the connection any more: it ends.
    Stale,
    /// The HCA is gone.
    Removed,
}

/// Why a LAP was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LapFailure {
    /// The peer is silent.
    Timeout,
    /// The connection ends.
    Aborted,
}

/// Datagrams that a connection keeps, to send them and send them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// What waits for an answer: REQ, REP, LAP, DREQ. It goes by the path in use.
    Request,
    /// The last answer, which is repeated when its request is: RTU, MRA, APR, DREP. It goes back where its
    /// request came from.
    Reply,
    /// An answer that is not repeated: REJ, refusals. It goes back as well.
    Once,
}

/// What is counted of the exchange of alternate paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A LAP is sent, for the first time or again.
    LapSent,
    /// A LAP is sent again.
    LapRetried,
    /// A LAP has come.
    LapReceived,
    /// It had come before.
    LapDuplicate,
    /// It is older than the last one, or the connection not established.
    LapStale,
    /// It is refused, and the consumer not asked.
    LapRefused,
    /// An APR is sent, for the first time or again.
    AprSent,
    /// An APR is sent again, since its LAP has come again.
    AprRetried,
    /// An APR has come.
    AprReceived,
    /// It had come before.
    AprDuplicate,
    /// Its LAP has been given up.
    AprStale,
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the datagram.
    Send(Slot),
    /// Tell the consumer.
    Tell(Notice),
    /// Count this.
    Count(Count),
    /// Nothing will happen any more: the connection can be freed.
    Free,
}

/// More than any one event leads to.
const MAX_ACTIONS: usize = 8;

/// What a machine does about one event, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actions<A = Action> {
    list: [Option<A>; MAX_ACTIONS],
}

impl<A> Default for Actions<A> {
    fn default() -> Self {
        Self {
            list: [const { None }; MAX_ACTIONS],
        }
    }
}

impl<A: Copy> Actions<A> {
    pub(super) fn push(&mut self, action: A) {
        if let Some(place) = self.list.iter_mut().find(|place| place.is_none()) {
            *place = Some(action);
        }
    }

    /// The actions, first to last.
    pub fn iter(&self) -> impl Iterator<Item = A> + '_ {
        self.list.iter().flatten().copied()
    }
}
