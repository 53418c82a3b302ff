// SPDX-License-Identifier: GPL-2.0

//! Identifiers, orders to them, and their handlers.

use crate::device::Device;
use crate::event::{
    Event,
    ReqReceived,
    SidrReqReceived,
    Told, //
};
use crate::order::{
    Apr,
    Fact,
    Kind,
    Lap,
    Mra,
    Rej,
    Rep,
    Req,
    SidrRep,
    SidrReq,
    Status, //
};
use crate::qp::{
    Qp,
    QpState, //
};
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::{
    from_err_ptr,
    to_result, //
};
use kernel::ffi::{
    c_int,
    c_void, //
};
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    ArcBorrow, //
};
use kernel::types::Opaque;
use pin_init::zeroed;
use sib_bindings as bindings;

/// Who is told of what becomes of identifiers.
///
/// Calls are made by a worker, one at a time for each identifier, in the order of the events; those for different
/// identifiers run at the same time. A call may sleep and give orders. It must not drop a [`CmId`], which waits for
/// calls, nor wait for who drops one: it leaves that to somebody else.
pub trait Handler: Send + Sync + Sized + 'static {
    /// What has become of an identifier. `id` may be used as the [`CmId`] is.
    fn event(this: ArcBorrow<'_, Self>, id: &Id, event: Event<'_>);

    /// A peer asks a listener for a connection. Unless `newcomer` is [kept](Newcomer::keep), it is refused, by
    /// [`reason::CONSUMER`](crate::reason::CONSUMER) if this has not told another reason. Other events of it come after
    /// this has returned.
    fn req(this: ArcBorrow<'_, Self>, newcomer: Newcomer<'_, Self>, req: &ReqReceived<'_>) {
        let _ = (this, newcomer, req);
    }

    /// A peer asks a listener for the queue pair of a service of datagrams. Unless `newcomer` is
    /// [kept](Newcomer::keep), the answer is what this has told, or that the consumer says no.
    fn sidr_req(
        this: ArcBorrow<'_, Self>,
        newcomer: Newcomer<'_, Self>,
        req: &SidrReqReceived<'_>,
    ) {
        let _ = (this, newcomer, req);
    }
}

/// An identifier, to give orders by: a listener, a connection, or a question for a queue pair.
///
/// Orders may come from several tasks at a time. They need one that may sleep. They fail with `EINVAL` if a parameter is
/// out of its range, or private data are too long; then, all but [`query`](Self::query) and [`migrate`](Self::migrate),
/// with `ENODEV` when the HCA is gone; and with `EINVAL` if the state is another.
///
/// # Invariants
///
/// An identifier that `sib_cm_create_id` has made, or that came with a request; not destroyed as long as the reference
/// lives.
#[repr(transparent)]
pub struct Id(Opaque<bindings::sib_cm_id>);

// SAFETY: `sib_cm` locks identifiers itself.
unsafe impl Send for Id {}
// SAFETY: As above.
unsafe impl Sync for Id {}

impl Id {
    /// # Safety
    ///
    /// `raw` is an identifier that is not destroyed during `'a`.
    unsafe fn from_raw<'a>(raw: *mut bindings::sib_cm_id) -> &'a Self {
        // INVARIANT: Promised by the caller.
        // SAFETY: Promised by the caller; the layout is that of `sib_cm_id`.
        unsafe { &*raw.cast::<Self>() }
    }

    /// Waits for requests. The identifier has had no other use.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if somebody else listens at `service_id`; `EACCES` if that is one of rdma_cm, ib_cm or SDP; `ENOMEM`.
    pub fn listen(&self, service_id: u64, kind: Kind) -> Result {
        // SAFETY: By the invariant.
        to_result(unsafe { bindings::sib_cm_listen(self.0.get(), service_id, kind.raw()) })
    }

    /// Asks for a connection. [`Event::RepReceived`], [`Event::RejReceived`] or [`Event::ReqError`] tells the answer.
    ///
    /// # Errors
    ///
    /// `EINVAL` also if a path does not begin at the HCA; `ENOENT` if its port is not in the partition.
    pub fn send_req(&self, req: &Req<'_>) -> Result {
        let req = req.raw()?;
        // SAFETY: By the invariant; `req` is valid for the call.
        to_result(unsafe { bindings::sib_cm_send_req(self.0.get(), &req) })
    }

    /// Accepts a request. The queue pair should be in RTR.
    pub fn send_rep(&self, rep: &Rep<'_>) -> Result {
        let rep = rep.raw()?;
        // SAFETY: By the invariant; `rep` is valid for the call.
        to_result(unsafe { bindings::sib_cm_send_rep(self.0.get(), &rep) })
    }

    /// Completes a connection after [`Event::RepReceived`], with up to 224 bytes.
    pub fn send_rtu(&self, private_data: &[u8]) -> Result {
        self.send(bindings::sib_cm_send_rtu, private_data)
    }

    /// Refuses a request or an answer.
    pub fn send_rej(&self, rej: &Rej<'_>) -> Result {
        let rej = rej.raw()?;
        // SAFETY: By the invariant; `rej` is valid for the call.
        to_result(unsafe { bindings::sib_cm_send_rej(self.0.get(), &rej) })
    }

    /// Asks the peer for patience with the answer to a REQ, REP or LAP.
    pub fn send_mra(&self, mra: &Mra<'_>) -> Result {
        let mra = mra.raw()?;
        // SAFETY: By the invariant; `mra` is valid for the call.
        to_result(unsafe { bindings::sib_cm_send_mra(self.0.get(), &mra) })
    }

    /// Ends a connection, with up to 220 bytes. [`Event::DrepReceived`], [`Event::DreqError`] or [`Event::RejReceived`]
    /// follows, then [`Event::TimewaitExit`]. If the peer ends the connection at the same time it is
    /// [`Event::DreqReceived`], and [`Event::TimewaitExit`] comes after [`send_drep`](Self::send_drep) alone.
    pub fn send_dreq(&self, private_data: &[u8]) -> Result {
        self.send(bindings::sib_cm_send_dreq, private_data)
    }

    /// Agrees to the end of a connection, with up to 224 bytes.
    pub fn send_drep(&self, private_data: &[u8]) -> Result {
        self.send(bindings::sib_cm_send_drep, private_data)
    }

    /// Offers an alternate path of a connection that this side has asked for. If that is `Ok`, there will be just one of
    /// [`Event::AprReceived`] and [`Event::LapError`].
    ///
    /// # Errors
    ///
    /// `EINVAL` also if the path cannot be, or there is one; `EBUSY` while one is offered; `EAGAIN` as long as the peer
    /// has not been heard on the path that the connection has gone over to.
    pub fn send_lap(&self, lap: &Lap<'_>) -> Result {
        let lap = lap.raw()?;
        // SAFETY: By the invariant; `lap` is valid for the call.
        to_result(unsafe { bindings::sib_cm_send_lap(self.0.get(), &lap) })
    }

    /// Answers the offer of an alternate path, which is [loaded](Self::load) before it is accepted.
    ///
    /// # Errors
    ///
    /// `ESTALE` if another offer waits for an answer, such as a newer one; `EINVAL` also if none does: this one, or a
    /// newer one, may have been answered without the client.
    pub fn send_apr(&self, apr: &Apr<'_>) -> Result {
        let apr = apr.raw()?;
        // SAFETY: By the invariant; `apr` is valid for the call.
        to_result(unsafe { bindings::sib_cm_send_apr(self.0.get(), &apr) })
    }

    /// Asks for the queue pair of a service of datagrams. [`Event::SidrRepReceived`] or [`Event::SidrReqError`] tells the
    /// answer.
    ///
    /// # Errors
    ///
    /// `EBUSY` while one is asked; `ENOENT` if the port that the path begins at is not in the partition.
    pub fn send_sidr_req(&self, req: &SidrReq<'_>) -> Result {
        let req = req.raw()?;
        // SAFETY: By the invariant; `req` is valid for the call.
        to_result(unsafe { bindings::sib_cm_send_sidr_req(self.0.get(), &req) })
    }

    /// Answers such a question.
    pub fn send_sidr_rep(&self, rep: &SidrRep<'_>) -> Result {
        let rep = rep.raw()?;
        // SAFETY: By the invariant; `rep` is valid for the call.
        to_result(unsafe { bindings::sib_cm_send_sidr_rep(self.0.get(), &rep) })
    }

    /// Tells what has become of the queue pair.
    pub fn notify(&self, fact: Fact) -> Result {
        // SAFETY: By the invariant.
        to_result(unsafe { bindings::sib_cm_notify(self.0.get(), fact.raw()) })
    }

    /// Has the queue pair go to `state`, with the attributes that the connection says (`sib_cm_init_qp_attr`,
    /// `ib_modify_qp`).
    ///
    /// # Errors
    ///
    /// `EINVAL` also if they are not known yet, or `qp` is on another HCA; what `ib_modify_qp` says.
    pub fn modify_qp(&self, qp: &mut Qp<'_>, state: QpState) -> Result {
        self.same_device(qp)?;
        let mut attr = MaybeUninit::<bindings::ib_qp_attr>::zeroed();
        let attr = attr.as_mut_ptr();
        let mut mask = 0;
        // SAFETY: By the invariants; `attr` and `mask` are valid for the calls, and the queue pair keeps the HCA. Nobody
        // else modifies it.
        unsafe {
            (*attr).qp_state = state.raw();
            to_result(bindings::sib_cm_init_qp_attr(self.0.get(), attr, &mut mask))?;
            to_result(bindings::ib_modify_qp(qp.raw(), attr, mask))
        }
    }

    /// Loads the alternate path of a LAP into the queue pair: after [`Event::LapReceived`], before the path is accepted,
    /// or after [`Event::AprReceived`] with status 0.
    ///
    /// # Errors
    ///
    /// `EINVAL` also if there has been no such path, or `qp` does not take it or is on another HCA.
    pub fn load(&self, qp: &mut Qp<'_>) -> Result {
        self.same_device(qp)?;
        // SAFETY: By the invariants; the queue pair keeps the HCA, and nobody else modifies it.
        to_result(unsafe { bindings::sib_cm_load(self.0.get(), qp.raw()) })
    }

    /// Goes over to the alternate path. Both sides are told, as after a failure: `IB_EVENT_PATH_MIG`, and
    /// [`Event::Migrated`].
    ///
    /// # Errors
    ///
    /// `EINVAL` also if there is no alternate path, or the queue pair is not armed, since its peer has not been heard
    /// after both have loaded the path.
    pub fn migrate(&self, qp: &mut Qp<'_>) -> Result {
        // SAFETY: By the invariants; nobody else modifies the queue pair.
        to_result(unsafe { bindings::sib_cm_migrate(self.0.get(), qp.raw()) })
    }

    /// What there is to know.
    pub fn query(&self) -> Result<Status> {
        let mut attr = zeroed();
        // SAFETY: By the invariant; `attr` is valid for the call.
        to_result(unsafe { bindings::sib_cm_query(self.0.get(), &mut attr) })?;
        Ok(Status::told(&attr))
    }

    /// Whether this is `other`.
    pub fn is(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }

    /// Sends a message that has private data alone.
    fn send(
        &self,
        message: unsafe extern "C" fn(*mut bindings::sib_cm_id, *const c_void, u8) -> c_int,
        private_data: &[u8],
    ) -> Result {
        let len = u8::try_from(private_data.len()).map_err(|_| EINVAL)?;
        // SAFETY: By the invariant; the data are valid for the call.
        to_result(unsafe { message(self.0.get(), private_data.as_ptr().cast(), len) })
    }

    /// Checks that `qp`, which is there, is on the HCA of the identifier, which may be gone.
    fn same_device(&self, qp: &Qp<'_>) -> Result {
        // SAFETY: By the invariant; nobody changes the pointer.
        let device = unsafe { (*self.0.get()).device };
        if device != qp.device() {
            return Err(EINVAL);
        }
        Ok(())
    }
}

/// An identifier of this module.
///
/// When it is dropped, what is not complete is refused, and a connection is ended by DREQ; that goes on without the
/// module. Requests that a listener has got, and not told of yet, are refused. The drop waits for calls of the handler for
/// this identifier, whose orders are still carried out, and there will be no more. It may sleep, and must not happen in a
/// call of a handler, nor with a lock held that the handler takes. A module that leaks one must not be unloaded.
///
/// # Invariants
///
/// `raw` is an identifier that the module owns. Its handler is [`on_event`] for `H`, and its context `handler`.
pub struct CmId<H: Handler> {
    raw: NonNull<bindings::sib_cm_id>,
    handler: Arc<H>,
}

// SAFETY: It may be dropped by any task, and so may `handler`.
unsafe impl<H: Handler> Send for CmId<H> {}
// SAFETY: A shared reference gives access to an `Id`, which is `Sync`, and to the handler, which is.
unsafe impl<H: Handler> Sync for CmId<H> {}

impl<H: Handler> CmId<H> {
    /// A new one, for connections from or to `device`. `handler` is told of its events. It may be that of others, too; if
    /// it owns the identifier itself, both are freed only after somebody has taken that out.
    ///
    /// When the HCA goes, the last event is [`Event::Removed`]. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if `device` is no HCA of sib; `ENOMEM`.
    pub fn new(device: &Device, handler: Arc<H>) -> Result<Self> {
        let context = Arc::as_ptr(&handler).cast_mut().cast();
        // SAFETY: The device is registered for the call. The handler stays until the identifier is destroyed.
        let raw = from_err_ptr(unsafe {
            bindings::sib_cm_create_id(device.as_raw(), Some(on_event::<H>), context)
        })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // INVARIANT: Just made.
        Ok(Self { raw, handler })
    }

    /// Who is told of its events.
    pub fn handler(&self) -> ArcBorrow<'_, H> {
        self.handler.as_arc_borrow()
    }
}

impl<H: Handler> Deref for CmId<H> {
    type Target = Id;

    fn deref(&self) -> &Id {
        // SAFETY: Ours by the invariant.
        unsafe { Id::from_raw(self.raw.as_ptr()) }
    }
}

impl<H: Handler> Drop for CmId<H> {
    fn drop(&mut self) {
        // SAFETY: Ours by the invariant; nobody else has a reference to it, but for a call that this waits for.
        unsafe { bindings::sib_cm_destroy_id(self.raw.as_ptr()) };
    }
}

/// What a peer has asked for, during the call that tells of it. Orders may be given. If it is not [kept](Self::keep) it
/// is destroyed when the call returns.
///
/// # Invariants
///
/// `raw` is the identifier that came with the request.
pub struct Newcomer<'a, H: Handler> {
    raw: NonNull<bindings::sib_cm_id>,
    kept: &'a Cell<bool>,
    listener: PhantomData<&'a H>,
}

impl<H: Handler> Newcomer<'_, H> {
    /// Takes it over. `handler` is told of its events from now on.
    pub fn keep(self, handler: Arc<H>) -> CmId<H> {
        let context = Arc::as_ptr(&handler).cast_mut().cast();
        // SAFETY: It is valid by the invariant, and the context is the client's during the call.
        unsafe { (*self.raw.as_ptr()).context = context };
        self.kept.set(true);
        // INVARIANT: `sib_cm` gives it to the client if the call returns 0, and it has the handler of its listener.
        CmId {
            raw: self.raw,
            handler,
        }
    }
}

impl<H: Handler> Deref for Newcomer<'_, H> {
    type Target = Id;

    fn deref(&self) -> &Id {
        // SAFETY: By the invariant, during the call.
        unsafe { Id::from_raw(self.raw.as_ptr()) }
    }
}

/// # Safety
///
/// Called by `sib_cm` for an identifier of a [`CmId`], or one that has come with a request to it.
unsafe extern "C" fn on_event<H: Handler>(
    id: *mut bindings::sib_cm_id,
    event: *const bindings::sib_cm_event,
) -> c_int {
    // SAFETY: Both are valid for the call.
    let (raw, event) = unsafe { (NonNull::new_unchecked(id), &*event) };
    // SAFETY: The context is that of a `CmId`, whose drop waits for the call: its own, or that of the listener.
    let handler = unsafe { ArcBorrow::<H>::from_raw((*id).context.cast_const().cast()) };
    let kept = Cell::new(false);
    // INVARIANT: Used for what comes with a request.
    let newcomer = || Newcomer {
        raw,
        kept: &kept,
        listener: PhantomData,
    };
    match Told::new(event) {
        Some(Told::Req(req)) => H::req(handler, newcomer(), &req),
        Some(Told::SidrReq(req)) => H::sidr_req(handler, newcomer(), &req),
        Some(Told::Event(event)) => {
            // SAFETY: It is not destroyed during the call.
            H::event(handler, unsafe { Id::from_raw(id) }, event);
            return 0;
        }
        None => return 0,
    }
    if kept.get() {
        0
    } else {
        EINVAL.to_errno()
    }
}
