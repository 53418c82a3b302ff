// SPDX-License-Identifier: GPL-2.0

//! Clients of a connection manager in other modules of the kernel.
//!
//! C header: `include/rdma/sib_cm.h`, whose functions are in `rust/cm/api.c`.

use crate::call::Call;
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use core::marker::PhantomData;
use core::ptr;
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Relaxed,
    Release, //
};
use kernel::sync::{
    Arc,
    ArcBorrow, //
};
use kernel::types::{
    ForeignOwnable,
    Opaque, //
};
use sib_bindings as bindings;

/// What an identifier of a client is.
pub trait Client: Send + Sync + Sized + 'static {
    /// What all of them have in common.
    type Shared: Send + Sync + 'static;
    /// What a handler is told: `struct sib_cm_event`.
    type Event: zerocopy::IntoBytes + zerocopy::Immutable;

    /// Somebody makes an identifier for the HCA with this GUID.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none.
    fn create(shared: &Arc<Self::Shared>, guid: u64, handle: Handle<Self>) -> Result<Arc<Self>>;

    /// What it is made with.
    fn handle(&self) -> &Handle<Self>;

    /// Gives an order.
    fn command(
        self: &Arc<Self>,
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        call: Call<'_>,
    ) -> Result<isize>;

    /// The client lets go of it. When this returns, its handler is not running, and never will.
    fn destroy(self: Arc<Self>, cx: Cx<'_, Unlocked>, s: Sleepable<'_>);
}

/// Where the reference of an identifier's client is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There is none yet.
    Fresh,
    /// The C side has it, and the client nothing.
    Given,
    /// The client has the identifier, and may use it.
    Known,
    /// The client has been told of the identifier, and has said that it is not to stay.
    Declined,
    /// It has been taken back.
    Taken,
}

/// An identifier as its client has it.
///
/// # Invariants
///
/// `stage` is that of a [`Stage`]. From [`Stage::Given`] to [`Stage::Declined`] `owned` comes from
/// [`ForeignOwnable::into_foreign`] of the `Arc<C>` that this is a part of, and is the reference of the client. Who makes
/// it [`Stage::Taken`] owns that. The client uses the identifier only while that is [`Stage::Known`].
pub struct Handle<C: Client> {
    raw: Opaque<bindings::sib_cm_id>,
    owned: Atomic<*mut C>,
    stage: Atomic<u32>,
    client: PhantomData<Arc<C>>,
}

// SAFETY: What is in `raw` is written before the client has it, but for the context, which is the client's to guard.
unsafe impl<C: Client> Send for Handle<C> {}
// SAFETY: As above.
unsafe impl<C: Client> Sync for Handle<C> {}

impl<C: Client> Handle<C> {
    /// One like `template`.
    ///
    /// # Safety
    ///
    /// `template` is valid for the call. Its handler may be called, with an identifier that has its context.
    unsafe fn like(template: *const bindings::sib_cm_id) -> Self {
        // INVARIANT: Nobody has it yet.
        Self {
            // SAFETY: Promised by the caller.
            raw: Opaque::new(unsafe { template.read() }),
            owned: Atomic::new(ptr::null_mut()),
            stage: Atomic::new(Stage::Fresh as u32),
            client: PhantomData,
        }
    }

    /// One with the handler and the context of this one.
    pub fn another(&self) -> Self {
        // SAFETY: It has been made by `like`, of what has this handler and this context.
        unsafe { Self::like(self.raw.get()) }
    }

    /// Goes on to another stage. Whether this was at the one before.
    fn proceed(&self, from: Stage, to: Stage) -> bool {
        self.stage.cmpxchg(from as u32, to as u32, Full).is_ok()
    }

    /// Gives the C side a reference of `client`, of which its handle, which is returned, is to be a part. To be done once.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is none, or the C side has one already.
    pub fn give(client: &Arc<C>) -> Result<&Self> {
        let handle = client.handle();
        let offset = ptr::from_ref(handle)
            .addr()
            .wrapping_sub(Arc::as_ptr(client).addr());
        if offset >= size_of::<C>() {
            return Err(EINVAL);
        }
        let owned = client.clone().into_foreign().cast::<C>();
        if handle.owned.cmpxchg(ptr::null_mut(), owned, Full).is_err() {
            // SAFETY: Made above, and given to nobody.
            drop(unsafe { Arc::<C>::from_foreign(owned.cast()) });
            return Err(EINVAL);
        }
        // SAFETY: The C side has not got it.
        unsafe { (*handle.raw.get()).core = ptr::from_ref(handle).cast_mut().cast() };
        // INVARIANT: It is a part, as checked above. Only who has stored the reference gets here.
        handle.stage.store(Stage::Given as u32, Release);
        Ok(handle)
    }

    /// Takes the reference of its client back, if that has one, but does not have the identifier: it has not been told of
    /// it, or has said that it is not to stay.
    pub fn take(&self) -> Option<Arc<C>> {
        let is_taken =
            self.proceed(Stage::Given, Stage::Taken) || self.proceed(Stage::Declined, Stage::Taken);
        // SAFETY: By the invariant; this has made it so.
        is_taken.then(|| unsafe { self.reference() })
    }

    /// The client has given the identifier up: takes its reference back.
    ///
    /// # Safety
    ///
    /// It does not use the identifier any more.
    unsafe fn retire(&self) -> Option<Arc<C>> {
        let is_taken = self.proceed(Stage::Known, Stage::Taken);
        // SAFETY: By the invariant; this has made it so.
        is_taken.then(|| unsafe { self.reference() })
    }

    /// # Safety
    ///
    /// The caller has made the stage [`Stage::Taken`].
    unsafe fn reference(&self) -> Arc<C> {
        // SAFETY: By the invariant.
        unsafe { Arc::from_foreign(self.owned.load(Relaxed).cast()) }
    }

    /// Calls the handler, which may be that of the listener that this one is [like](Self::another). Returns whether the
    /// identifier is to stay; it does not either if the C side has no reference, or the client has declined.
    pub fn call(&self, _cx: &mut Cx<'_, Unlocked>, _s: Sleepable<'_>, event: &C::Event) -> bool {
        const { assert!(size_of::<C::Event>() == size_of::<bindings::sib_cm_event>()) };
        let is_known = self.proceed(Stage::Given, Stage::Known)
            || self.stage.load(Acquire) == Stage::Known as u32;
        if !is_known {
            return false;
        }
        // SAFETY: Nobody writes to the handler.
        let handler = unsafe { (*self.raw.get()).cm_handler };
        // SAFETY: By `like`, with the context that belongs to it. The event has the layout of the C structure.
        let stays = handler.is_none_or(|handler| unsafe {
            handler(self.raw.get(), ptr::from_ref(event).cast()) == 0
        });
        if !stays {
            // INVARIANT: The client does not use what it has declined. What it has destroyed stays as it is.
            self.proceed(Stage::Known, Stage::Declined);
        }
        stays
    }
}

/// What the functions of the header come to, as long as this lives, which is longer than any client is loaded.
///
/// # Invariants
///
/// The C side has `_core`, which has the address of `_shared`.
pub struct Service<C: Client> {
    _core: KBox<bindings::sib_cm_core>,
    _shared: Arc<C::Shared>,
}

// SAFETY: It may be dropped by any task; the rest is `Send`.
unsafe impl<C: Client> Send for Service<C> {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl<C: Client> Sync for Service<C> {}

impl<C: Client> Service<C> {
    /// To be called when the module is loaded, and dropped when it is removed: no module that uses it is there before
    /// and after.
    pub fn new(shared: Arc<C::Shared>) -> Result<Self> {
        let core = bindings::sib_cm_core {
            shared: Arc::as_ptr(&shared).cast_mut().cast(),
            create: Some(create::<C>),
            destroy: Some(destroy::<C>),
            command: Some(command::<C>),
        };
        let core = KBox::new(core, GFP_KERNEL)?;
        // SAFETY: It stays in place until `drop`.
        unsafe { bindings::sib_cm_set_core(&*core) };
        // INVARIANT: Just set.
        Ok(Self {
            _core: core,
            _shared: shared,
        })
    }
}

impl<C: Client> Drop for Service<C> {
    fn drop(&mut self) {
        // SAFETY: There are no clients any more.
        unsafe { bindings::sib_cm_set_core(ptr::null()) };
    }
}

/// The tokens of a call by a client.
///
/// # Safety
///
/// The caller is a task, and holds no lock of this driver.
unsafe fn tokens<'a>() -> (Cx<'a, Unlocked>, Sleepable<'a>) {
    // SAFETY: Promised by the caller.
    unsafe { (Cx::root(), Sleepable::new()) }
}

/// # Safety
///
/// `shared` is that of a [`Service`] of `C`, and `template` valid for the call, with a handler that may be called until
/// the identifier is destroyed. A task that holds no lock of this driver.
unsafe extern "C" fn create<C: Client>(
    shared: *mut c_void,
    guid: u64,
    template: *const bindings::sib_cm_id,
) -> *mut bindings::sib_cm_id {
    // SAFETY: The service has a reference, and it lives.
    let shared = unsafe { ArcBorrow::<C::Shared>::from_raw(shared.cast_const().cast()) };
    // SAFETY: Promised by the caller.
    let handle = unsafe { Handle::like(template) };
    let made = C::create(&shared.into(), guid, handle).and_then(|client| {
        let handle = Handle::give(&client)?;
        // INVARIANT: The caller is the client.
        if !handle.proceed(Stage::Given, Stage::Known) {
            return Err(EINVAL);
        }
        Ok(handle.raw.get())
    });
    made.unwrap_or_else(|err| err.to_ptr())
}

/// # Safety
///
/// As [`client_of`].
unsafe fn handle_of<'a, C: Client>(id: *mut bindings::sib_cm_id) -> &'a Handle<C> {
    // SAFETY: `give` has written it, and the reference of the client keeps it.
    unsafe { &*(*id).core.cast::<Handle<C>>() }
}

/// # Safety
///
/// `id` is that of a client that has not destroyed it, or this is in a call of its handler, which [`destroy`] waits for.
unsafe fn client_of<C: Client>(id: *mut bindings::sib_cm_id) -> Arc<C> {
    // SAFETY: Promised by the caller.
    let owned = unsafe { handle_of::<C>(id) }.owned.load(Acquire);
    // SAFETY: By the invariant. It is not null, as the client knows the identifier.
    unsafe { Arc::<C>::borrow(owned.cast()) }.into()
}

/// # Safety
///
/// `id` is that of a client that has not destroyed it. Nobody else gives orders for it, but for its handler. A task that
/// holds no lock of this driver.
unsafe extern "C" fn destroy<C: Client>(id: *mut bindings::sib_cm_id) {
    // SAFETY: Promised by the caller.
    let client = unsafe { client_of::<C>(id) };
    // SAFETY: Promised by the caller.
    let (cx, s) = unsafe { tokens() };
    client.clone().destroy(cx, s);
    // SAFETY: Promised by the caller.
    drop(unsafe { handle_of::<C>(id).retire() });
}

/// # Safety
///
/// As [`client_of`], for the whole call; `arg` is what belongs to the number. A task that holds no lock of this driver.
unsafe extern "C" fn command<C: Client>(
    id: *mut bindings::sib_cm_id,
    number: c_uint,
    arg: *mut c_void,
) -> c_int {
    from_result(|| {
        // SAFETY: Promised by the caller.
        let client = unsafe { client_of::<C>(id) };
        // SAFETY: Promised by the caller.
        let (cx, s) = unsafe { tokens() };
        // SAFETY: As above.
        let call = unsafe { Call::of_kernel(number, arg) };
        client.command(cx, s, call)?;
        Ok(0)
    })
}
